// Products with 4-bit weights. Each byte of these holds two numbers that are 8 higher than meant, so that they are never
// negative: processors multiply unsigned by signed bytes. What that adds to a sum begins it, below zero.
#include "lowbits/finish.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace edgex {

namespace {

// Inputs that a step of 64 bytes of weights has.
constexpr int64_t kStep = 2 * kQuad, kStepBytes = 64;

void multiply_plain(const LowBitProduct& p, int64_t first, int64_t end) {
  const int64_t depth = p.groups * p.group, bytes = group_bytes(p, 4);
  for (int64_t block = first; block < end; block++) {
    for (int64_t row = 0; row < p.count; row++) {
      float totals[kBlock] = {};
      for (int64_t g = 0; g < p.groups; g++) {
        const uint8_t* weights = p.weights + (block * p.groups + g) * bytes;
        const int8_t* x = p.rows + row * depth + g * p.group;
        int32_t sums[kBlock];
        std::fill(sums, sums + kBlock, p.row_sums[row * p.groups + g]);
        for (int64_t k = 0; k < p.group; k += kStep, x += kStep, weights += kStepBytes) {
          for (int64_t o = 0; o < kBlock; o++) {
            for (int64_t i = 0; i < kQuad; i++) {
              const int32_t pair = weights[o * kQuad + i];
              sums[o] += (pair & 15) * x[i] + (pair >> 4) * x[kQuad + i];
            }
          }
        }
        const float* scales = p.scales + (block * p.groups + g) * kBlock;
        for (int64_t o = 0; o < kBlock; o++) totals[o] += static_cast<float>(sums[o]) * scales[o];
      }
      finish_block(p, block, row, totals);
    }
  }
}

#if defined(__x86_64__)

EDGEX_INLINE int32_t quad_at(const int8_t* from) {
  int32_t quad;
  std::memcpy(&quad, from, sizeof(quad));
  return quad;
}

#define EDGEX_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

// A tile: so many rows of one block, their sums in registers.
template <int kRows>
EDGEX_VNNI EDGEX_INLINE void tile_vnni(const LowBitProduct& p, int64_t block, int64_t row) {
  const int64_t depth = p.groups * p.group, steps = p.group / kStep;
  const uint8_t* weights = p.weights + block * p.groups * group_bytes(p, 4);
  const float* scales = p.scales + block * p.groups * kBlock;
  const int8_t* x = p.rows + row * depth;
  const int32_t* row_sums = p.row_sums + row * p.groups;
  const __m512i mask = _mm512_set1_epi8(15);
  __m512 totals[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) totals[r] = _mm512_setzero_ps();
  for (int64_t g = 0; g < p.groups; g++) {
    __m512i sums[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r++) sums[r] = _mm512_set1_epi32(row_sums[r * p.groups + g]);
    for (int64_t s = 0; s < steps; s++, weights += kStepBytes, x += kStep) {
      const __m512i pairs = _mm512_loadu_si512(weights);
      const __m512i low = _mm512_and_si512(pairs, mask), high = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; r++) {
        sums[r] = _mm512_dpbusd_epi32(sums[r], low, _mm512_set1_epi32(quad_at(x + r * depth)));
        sums[r] = _mm512_dpbusd_epi32(sums[r], high, _mm512_set1_epi32(quad_at(x + r * depth + kQuad)));
      }
    }
    const __m512 scale = _mm512_loadu_ps(scales + g * kBlock);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r++) totals[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r]), scale, totals[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) {
    float numbers[kBlock];
    _mm512_storeu_ps(numbers, totals[r]);
    finish_block(p, block, row + r, numbers);
  }
}

EDGEX_VNNI void multiply_vnni(const LowBitProduct& p, int64_t first, int64_t end) {
  for (int64_t block = first; block < end; block++) {
    int64_t row = 0;
    for (; row + 12 <= p.count; row += 12) tile_vnni<12>(p, block, row);
    for (; row + 4 <= p.count; row += 4) tile_vnni<4>(p, block, row);
    for (; row < p.count; row++) tile_vnni<1>(p, block, row);
  }
}

#define EDGEX_AVX2 __attribute__((target("avx2,fma")))

// Half a block: the eight outputs from `half * 8` on.
template <int kRows>
EDGEX_AVX2 EDGEX_INLINE void half_avx2(const LowBitProduct& p, int64_t block, int half, int64_t row, float* to) {
  const int64_t depth = p.groups * p.group, steps = p.group / kStep;
  const uint8_t* weights = p.weights + block * p.groups * group_bytes(p, 4) + half * (kStepBytes / 2);
  const float* scales = p.scales + block * p.groups * kBlock + half * (kBlock / 2);
  const int8_t* x = p.rows + row * depth;
  const int32_t* row_sums = p.row_sums + row * p.groups;
  const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256 totals[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; r++) totals[r] = _mm256_setzero_ps();
  for (int64_t g = 0; g < p.groups; g++) {
    __m256i sums[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r++) sums[r] = _mm256_set1_epi32(row_sums[r * p.groups + g]);
    for (int64_t s = 0; s < steps; s++, weights += kStepBytes, x += kStep) {
      const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
      const __m256i low = _mm256_and_si256(pairs, mask), high = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; r++) {
        // At most 4 * 15 * 128: these sums fit into 16 bits.
        const __m256i one = _mm256_maddubs_epi16(low, _mm256_set1_epi32(quad_at(x + r * depth)));
        const __m256i other = _mm256_maddubs_epi16(high, _mm256_set1_epi32(quad_at(x + r * depth + kQuad)));
        sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(_mm256_add_epi16(one, other), ones));
      }
    }
    const __m256 scale = _mm256_loadu_ps(scales + g * kBlock);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r++) totals[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[r]), scale, totals[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; r++) _mm256_storeu_ps(to + r * kBlock + half * (kBlock / 2), totals[r]);
}

template <int kRows>
EDGEX_AVX2 EDGEX_INLINE void tile_avx2(const LowBitProduct& p, int64_t block, int64_t row) {
  float totals[kRows * kBlock];
  for (int half = 0; half < 2; half++) half_avx2<kRows>(p, block, half, row, totals);
  for (int r = 0; r < kRows; r++) finish_block(p, block, row + r, totals + r * kBlock);
}

EDGEX_AVX2 void multiply_avx2(const LowBitProduct& p, int64_t first, int64_t end) {
  for (int64_t block = first; block < end; block++) {
    int64_t row = 0;
    for (; row + 4 <= p.count; row += 4) tile_avx2<4>(p, block, row);
    for (; row < p.count; row++) tile_avx2<1>(p, block, row);
  }
}

#endif

using Multiply = void (*)(const LowBitProduct&, int64_t, int64_t);

Multiply choose() {
#if defined(__x86_64__)
  if (has_vnni()) return multiply_vnni;
  if (has_avx2()) return multiply_avx2;
#endif
  return multiply_plain;
}

}  // namespace

void multiply_4bit(const LowBitProduct& product, int64_t first, int64_t end) {
  static const Multiply multiply = choose();
  multiply(product, first, end);
}

}  // namespace edgex

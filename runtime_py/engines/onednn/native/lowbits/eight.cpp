// Products with 8-bit weights, signed, and rows whose numbers are 128 higher than meant, so that they are never negative.
#include "lowbits/finish.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace edgex {

namespace {

constexpr int64_t kStepBytes = kBlock * kQuad;

void multiply_plain(const LowBitProduct& p, int64_t first, int64_t end) {
  const int64_t depth = p.groups * p.group, bytes = group_bytes(p, 8);
  for (int64_t block = first; block < end; block++) {
    for (int64_t row = 0; row < p.count; row++) {
      float totals[kBlock] = {};
      for (int64_t g = 0; g < p.groups; g++) {
        const auto* weights = reinterpret_cast<const int8_t*>(p.weights + (block * p.groups + g) * bytes);
        const auto* x = reinterpret_cast<const uint8_t*>(p.rows + row * depth + g * p.group);
        int32_t sums[kBlock] = {};
        for (int64_t k = 0; k < p.group; k += kQuad, x += kQuad, weights += kStepBytes) {
          for (int64_t o = 0; o < kBlock; o++) {
            for (int64_t i = 0; i < kQuad; i++) sums[o] += weights[o * kQuad + i] * x[i];
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

// A tile: so many rows of so many blocks, their sums in registers.
template <int kRows, int kBlocks>
EDGEX_VNNI EDGEX_INLINE void tile_vnni(const LowBitProduct& p, int64_t block, int64_t row) {
  const int64_t depth = p.groups * p.group, steps = p.group / kQuad, bytes = p.groups * group_bytes(p, 8);
  const uint8_t* weights = p.weights + block * bytes;
  const float* scales = p.scales + block * p.groups * kBlock;
  const int8_t* x = p.rows + row * depth;
  __m512 totals[kRows][kBlocks];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) {
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; b++) totals[r][b] = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < p.groups; g++) {
    __m512i sums[kRows][kBlocks];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r++) {
#pragma GCC unroll 16
      for (int b = 0; b < kBlocks; b++) sums[r][b] = _mm512_setzero_si512();
    }
    for (int64_t s = 0; s < steps; s++, weights += kStepBytes, x += kQuad) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; r++) {
        const __m512i quad = _mm512_set1_epi32(quad_at(x + r * depth));
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; b++) {
          sums[r][b] = _mm512_dpbusd_epi32(sums[r][b], quad, _mm512_loadu_si512(weights + b * bytes));
        }
      }
    }
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; b++) {
      const __m512 scale = _mm512_loadu_ps(scales + (b * p.groups + g) * kBlock);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; r++) totals[r][b] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][b]), scale, totals[r][b]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) {
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; b++) {
      float numbers[kBlock];
      _mm512_storeu_ps(numbers, totals[r][b]);
      finish_block(p, block + b, row + r, numbers);
    }
  }
}

template <int kBlocks>
EDGEX_VNNI EDGEX_INLINE void blocks_vnni(const LowBitProduct& p, int64_t block) {
  constexpr int kRows = kBlocks == 1 ? 8 : 4;
  int64_t row = 0;
  for (; row + kRows <= p.count; row += kRows) tile_vnni<kRows, kBlocks>(p, block, row);
  for (; row < p.count; row++) tile_vnni<1, kBlocks>(p, block, row);
}

EDGEX_VNNI void multiply_vnni(const LowBitProduct& p, int64_t first, int64_t end) {
  int64_t block = first;
  for (; block + 2 <= end; block += 2) blocks_vnni<2>(p, block);
  if (block < end) blocks_vnni<1>(p, block);
}

#define EDGEX_AVX2 __attribute__((target("avx2,fma")))

// Products of bytes as such of 16 bits: two of 8 bits and their sum need not fit there.
EDGEX_AVX2 void multiply_avx2(const LowBitProduct& p, int64_t first, int64_t end) {
  const int64_t depth = p.groups * p.group, bytes = group_bytes(p, 8);
  for (int64_t block = first; block < end; block++) {
    for (int64_t row = 0; row < p.count; row++) {
      __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
      for (int64_t g = 0; g < p.groups; g++) {
        const uint8_t* weights = p.weights + (block * p.groups + g) * bytes;
        const int8_t* x = p.rows + row * depth + g * p.group;
        __m256i sums[4];  // of four outputs each, in two parts
        for (__m256i& sum : sums) sum = _mm256_setzero_si256();
        for (int64_t k = 0; k < p.group; k += kQuad, x += kQuad, weights += kStepBytes) {
          const __m256i quad = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(quad_at(x))));
          for (int i = 0; i < 4; i++) {
            const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + i * 16));
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_cvtepi8_epi16(part), quad));
          }
        }
        constexpr int kInOrder = 0xd8;
        const __m256i one = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sums[0], sums[1]), kInOrder);
        const __m256i other = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sums[2], sums[3]), kInOrder);
        const float* scales = p.scales + (block * p.groups + g) * kBlock;
        low = _mm256_fmadd_ps(_mm256_cvtepi32_ps(one), _mm256_loadu_ps(scales), low);
        high = _mm256_fmadd_ps(_mm256_cvtepi32_ps(other), _mm256_loadu_ps(scales + 8), high);
      }
      float totals[kBlock];
      _mm256_storeu_ps(totals, low);
      _mm256_storeu_ps(totals + 8, high);
      finish_block(p, block, row, totals);
    }
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

void multiply_8bit(const LowBitProduct& product, int64_t first, int64_t end) {
  static const Multiply multiply = choose();
  multiply(product, first, end);
}

}  // namespace edgex

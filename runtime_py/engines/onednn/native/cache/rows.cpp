#include "cache/rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <utility>

#include "operators/numbers.h"

namespace edgex {

namespace {

// Of a cache in 8 bits, how far ahead it is fetched: what comes next is there when its turn has come.
constexpr int64_t kCacheLine = 64, kAhead = 4096;
// Rows that read a key or a value while it is in registers.
constexpr int kRowsAtOnce = 4;

template <int kLanes>
struct Vectors {
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));
  typedef int Places __attribute__((vector_size(kLanes * sizeof(int))));
};

template <int kLanes>
using Lanes = typename Vectors<kLanes>::Lanes;

template <int kLanes>
EDGEX_INLINE const Lanes<kLanes>& lanes_at(const float* from) {
  return *reinterpret_cast<const Lanes<kLanes>*>(from);
}

// Of blocks of `block` lanes, where the lane `to` of what two vectors are folded to comes from: the first half of each
// block from the first vector, the second from the second one; kLanes stands for the second's lane 0.
constexpr int fold_from(int lanes, int block, int half, int to) {
  const int inside = to % block, start = to - inside;
  return inside < block / 2 ? start + inside + half * (block / 2) : lanes + start + inside - block / 2 + half * (block / 2);
}

template <int kLanes, int kBlock, int... kTo>
EDGEX_INLINE Lanes<kLanes> fold_two(Lanes<kLanes> one, Lanes<kLanes> other, std::integer_sequence<int, kTo...>) {
  using Places = typename Vectors<kLanes>::Places;
  const Places low = {fold_from(kLanes, kBlock, 0, kTo)...}, high = {fold_from(kLanes, kBlock, 1, kTo)...};
  return __builtin_shuffle(one, other, low) + __builtin_shuffle(one, other, high);
}

// As many vectors as they have lanes to one, whose lane i is the sum of vector i.
template <int kLanes, int kBlock = kLanes>
EDGEX_INLINE Lanes<kLanes> fold(Lanes<kLanes>* vectors) {
  constexpr int kLeft = kBlock / 2;
#pragma GCC unroll 16
  for (int i = 0; i < kLeft; i++) {
    vectors[i] = fold_two<kLanes, kBlock>(vectors[i], vectors[i + kLeft], std::make_integer_sequence<int, kLanes>());
  }
  if constexpr (kLeft > 1) return fold<kLanes, kLeft>(vectors);
  return vectors[0];
}

struct Scores {
  const float* query;
  int64_t rows;
  const float* keys;
  int64_t count, size;
  float* to;
  int64_t step;
};

template <int kLanes>
EDGEX_INLINE void score_all(const Scores& s) {
  const int64_t whole = s.size / kLanes * kLanes;
  int64_t first = 0;
  for (; first + kLanes <= s.count; first += kLanes) {
    const float* keys = s.keys + first * s.size;
    for (int64_t row = 0; row < s.rows; row++) {
      const float* query = s.query + row * s.size;
      Lanes<kLanes> sums[kLanes] = {};
      for (int64_t i = 0; i < whole; i += kLanes) {
        const Lanes<kLanes> part = lanes_at<kLanes>(query + i);
#pragma GCC unroll 16
        for (int j = 0; j < kLanes; j++) sums[j] += part * lanes_at<kLanes>(keys + j * s.size + i);
      }
      float* to = s.to + row * s.step + first;
      *reinterpret_cast<Lanes<kLanes>*>(to) = fold<kLanes>(sums);
      for (int64_t i = whole; i < s.size; i++) {
        for (int j = 0; j < kLanes; j++) to[j] += query[i] * keys[j * s.size + i];
      }
    }
  }
  for (; first < s.count; first++) {
    for (int64_t row = 0; row < s.rows; row++) {
      const float *query = s.query + row * s.size, *key = s.keys + first * s.size;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < s.size; i++) sum += query[i] * key[i];
      s.to[row * s.step + first] = sum;
    }
  }
}

struct Mixture {
  const float* weights;
  int64_t step, rows;
  const float* values;
  int64_t count, size;
  float* to;
};

// A tile of the result: its sums stay in registers.
template <int kLanes, int kRows, int kVectors>
EDGEX_INLINE void add_tile(const Mixture& m, int64_t row, int64_t column) {
  Lanes<kLanes> sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) sums[r][v] = lanes_at<kLanes>(m.to + (row + r) * m.size + column + v * kLanes);
  }
  const float* value = m.values + column;
  for (int64_t j = 0; j < m.count; j++, value += m.size) {
    Lanes<kLanes> parts[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) parts[v] = lanes_at<kLanes>(value + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const float weight = m.weights[(row + r) * m.step + j];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; v++) sums[r][v] += weight * parts[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      *reinterpret_cast<Lanes<kLanes>*>(m.to + (row + r) * m.size + column + v * kLanes) = sums[r][v];
    }
  }
}

template <int kLanes, int kRows>
EDGEX_INLINE void add_rows(const Mixture& m, int64_t row) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  int64_t column = 0;
  for (; column + kVectors * kLanes <= m.size; column += kVectors * kLanes) add_tile<kLanes, kRows, kVectors>(m, row, column);
  for (; column + kLanes <= m.size; column += kLanes) add_tile<kLanes, kRows, 1>(m, row, column);
  for (int64_t r = row; r < row + kRows; r++) {
    for (int64_t i = column; i < m.size; i++) {
      float sum = m.to[r * m.size + i];
      for (int64_t j = 0; j < m.count; j++) sum += m.weights[r * m.step + j] * m.values[j * m.size + i];
      m.to[r * m.size + i] = sum;
    }
  }
}

template <int kLanes>
EDGEX_INLINE void add_all(const Mixture& m) {
  int64_t row = 0;
  for (; row + kRowsAtOnce <= m.rows; row += kRowsAtOnce) add_rows<kLanes, kRowsAtOnce>(m, row);
  if (m.rows - row == 3) return add_rows<kLanes, 3>(m, row);
  if (m.rows - row == 2) return add_rows<kLanes, 2>(m, row);
  if (m.rows - row == 1) add_rows<kLanes, 1>(m, row);
}

struct Narrow {
  const int8_t* from;
  const float* scales;
  int64_t count, size;
  float* to;
};

// kLanes numbers at a time by `widen`, and the rest one by one.
template <int kLanes, typename Widen>
EDGEX_INLINE void widen_all(const Narrow& n, Widen widen) {
  const int64_t whole = n.size / kLanes * kLanes;
  const int8_t* from = n.from;
  float* to = n.to;
  for (int64_t row = 0; row < n.count; row++, from += n.size, to += n.size) {
    const float scale = n.scales[row];
    for (int64_t i = 0; i < n.size; i += kCacheLine) __builtin_prefetch(from + i + kAhead);
    for (int64_t i = 0; i < whole; i += kLanes) widen(from + i, scale, to + i);
    for (int64_t i = whole; i < n.size; i++) to[i] = static_cast<float>(from[i]) * scale;
  }
}

#if defined(__x86_64__)
// GCC makes of the conversion of a vector's bytes many shuffles.
__attribute__((target("avx512f"))) inline void widen_16(const int8_t* from, float scale, float* to) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), _mm512_set1_ps(scale)));
}

__attribute__((target("avx2,fma"))) inline void widen_8(const int8_t* from, float scale, float* to) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_set1_ps(scale)));
}

__attribute__((target("avx512f"))) void widen_avx512(const Narrow& n) { widen_all<16>(n, widen_16); }
__attribute__((target("avx2,fma"))) void widen_avx2(const Narrow& n) { widen_all<8>(n, widen_8); }
__attribute__((target("avx512f"))) void score_avx512(const Scores& s) { score_all<16>(s); }
__attribute__((target("avx2,fma"))) void score_avx2(const Scores& s) { score_all<8>(s); }
__attribute__((target("avx512f"))) void add_avx512(const Mixture& m) { add_all<16>(m); }
__attribute__((target("avx2,fma"))) void add_avx2(const Mixture& m) { add_all<8>(m); }
#endif
// Four lanes are a register of every processor's: SSE2's and NEON's.
void score_plain(const Scores& s) { score_all<4>(s); }
void add_plain(const Mixture& m) { add_all<4>(m); }
void widen_plain(const Narrow& n) {
  widen_all<1>(n, [](const int8_t* from, float scale, float* to) { *to = static_cast<float>(*from) * scale; });
}

struct Kernels {
  void (*score)(const Scores&);
  void (*add)(const Mixture&);
  void (*widen)(const Narrow&);
};

Kernels choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {score_avx512, add_avx512, widen_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {score_avx2, add_avx2, widen_avx2};
#endif
  return {score_plain, add_plain, widen_plain};
}

const Kernels& kernels() {
  static const Kernels chosen = choose();
  return chosen;
}

}  // namespace

void score_keys(const float* query, int64_t rows, const float* keys, int64_t count, int64_t size, float* scores,
                int64_t scores_step) {
  kernels().score({query, rows, keys, count, size, scores, scores_step});
}

void add_values(const float* weights, int64_t weights_step, int64_t rows, const float* values, int64_t count, int64_t size,
                float* to) {
  kernels().add({weights, weights_step, rows, values, count, size, to});
}

void widen_rows(const int8_t* from, const float* scales, int64_t count, int64_t size, float* to) {
  kernels().widen({from, scales, count, size, to});
}

}  // namespace edgex

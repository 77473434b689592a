#include "attention/product.h"

#include <algorithm>
#include <cstring>

#include "operators/numbers.h"

namespace edgex {

namespace {

// Columns of a panel: what four registers of AVX-512 hold.
constexpr int64_t kPanel = 4 * kLanes;
// With four registers of columns, 24 of the 32 hold sums.
constexpr int kTileRows = 6;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

// A tile of the result, kRows x (kVectors * kLanes): its sums stay in registers.
template <int kRows, int kVectors>
EDGEX_INLINE void multiply_tile(const float* from, int64_t from_step, const float* panel, int64_t width, int64_t depth,
                                float* to, int64_t to_step) {
  Lanes sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; k++, panel += width) {
    Lanes columns[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) columns[j] = *reinterpret_cast<const Lanes*>(panel + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; i++) {
      const float number = from[i * from_step + k];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; j++) sums[i][j] += number * columns[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i++) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) *reinterpret_cast<Lanes*>(to + i * to_step + j * kLanes) = sums[i][j];
  }
}

template <int kVectors>
EDGEX_INLINE void multiply_columns(const float* from, int64_t from_step, const float* panel, int64_t width, int64_t rows,
                                   int64_t depth, float* to, int64_t to_step) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) {
    multiply_tile<kTileRows, kVectors>(from + row * from_step, from_step, panel, width, depth, to + row * to_step, to_step);
  }
  for (; row + 2 <= rows; row += 2) {
    multiply_tile<2, kVectors>(from + row * from_step, from_step, panel, width, depth, to + row * to_step, to_step);
  }
  if (row < rows) {
    multiply_tile<1, kVectors>(from + row * from_step, from_step, panel, width, depth, to + row * to_step, to_step);
  }
}

struct Panels {
  const float* from;
  int64_t from_step;
  const float* panels;
  int64_t rows, depth, columns;
  float* to;
  int64_t to_step;
};

template <int kMostVectors>
EDGEX_INLINE void multiply_all(const Panels& p) {
  const int64_t end = pad_to_lanes(p.columns);
  for (int64_t first = 0; first < end; first += kPanel) {
    const int64_t width = std::min(kPanel, end - first);
    const float* panel = p.panels + first * p.depth;
    for (int64_t column = 0; column < width;) {
      const int64_t vectors = std::min<int64_t>(kMostVectors, (width - column) / kLanes);
      const float* at = panel + column;
      float* to = p.to + first + column;
      if constexpr (kMostVectors > 1) {
        if (vectors == 4) multiply_columns<4>(p.from, p.from_step, at, width, p.rows, p.depth, to, p.to_step);
        if (vectors == 3) multiply_columns<3>(p.from, p.from_step, at, width, p.rows, p.depth, to, p.to_step);
        if (vectors == 2) multiply_columns<2>(p.from, p.from_step, at, width, p.rows, p.depth, to, p.to_step);
      }
      if (vectors == 1) multiply_columns<1>(p.from, p.from_step, at, width, p.rows, p.depth, to, p.to_step);
      column += vectors * kLanes;
    }
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiply_avx512(const Panels& p) { multiply_all<4>(p); }
__attribute__((target("avx2,fma"))) void multiply_avx2(const Panels& p) { multiply_all<1>(p); }
#endif
void multiply_plain(const Panels& p) { multiply_all<1>(p); }

using Multiply = void (*)(const Panels&);

Multiply choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiply_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_plain;
}

}  // namespace

void pack_panels(const float* from, int64_t depth, int64_t columns, int64_t depth_step, int64_t column_step, float* to) {
  const int64_t end = pad_to_lanes(columns);
  for (int64_t first = 0; first < end; first += kPanel) {
    const int64_t width = std::min(kPanel, end - first), known = std::min(width, columns - first);
    float* panel = to + first * depth;
    const float* source = from + first * column_step;
    if (column_step == 1) {
      for (int64_t k = 0; k < depth; k++) {
        std::memcpy(panel + k * width, source + k * depth_step, static_cast<size_t>(known) * sizeof(float));
      }
    } else {
      for (int64_t i = 0; i < known; i++) {
        for (int64_t k = 0; k < depth; k++) panel[k * width + i] = source[i * column_step + k * depth_step];
      }
    }
    for (int64_t k = 0; known < width && k < depth; k++) {
      std::memset(panel + k * width + known, 0, static_cast<size_t>(width - known) * sizeof(float));
    }
  }
}

void multiply_panels(const float* from, int64_t from_step, const float* panels, int64_t rows, int64_t depth, int64_t columns,
                     float* to, int64_t to_step) {
  static const Multiply multiply = choose();
  multiply({from, from_step, panels, rows, depth, columns, to, to_step});
}

EDGEX_FOR_EACH_PROCESSOR void multiply_rows(const float* row, const float* matrix, int64_t count, int64_t size, int64_t step,
                                            float* to) {
  for (int64_t i = 0; i < count; i++, matrix += step) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < size; j++) sum += row[j] * matrix[j];
    to[i] = sum;
  }
}

EDGEX_FOR_EACH_PROCESSOR void mix_rows(const float* weights, const float* matrix, int64_t count, int64_t size, int64_t step,
                                       float* to) {
  std::memset(to, 0, static_cast<size_t>(size) * sizeof(float));
  for (int64_t i = 0; i < count; i++, matrix += step) {
    const float weight = weights[i];
#pragma omp simd
    for (int64_t j = 0; j < size; j++) to[j] += weight * matrix[j];
  }
}

}  // namespace edgex

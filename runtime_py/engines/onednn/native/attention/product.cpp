#include "attention/product.h"

#include <algorithm>
#include <cstring>

#include "operators/numbers.h"

namespace edgex {

namespace {

struct Panels {
  const float* from;
  int64_t from_step;
  const float* panels;
  int64_t rows, depth, columns;
  float* to;
  int64_t to_step;
};

// A tile of the result, kRows x (kVectors * kWidth): its sums stay in registers.
template <int kWidth, int kRows, int kVectors>
EDGEX_INLINE void multiply_tile(const Panels& p, const float* from, const float* panel, int64_t width, float* to) {
  using Vector = typename Register<kWidth>::Type;
  Vector sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < p.depth; k++, panel += width) {
    Vector columns[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) columns[j] = *reinterpret_cast<const Vector*>(panel + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; i++) {
      const float number = from[i * p.from_step + k];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; j++) sums[i][j] += number * columns[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i++) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) *reinterpret_cast<Vector*>(to + i * p.to_step + j * kWidth) = sums[i][j];
  }
}

// Rows `first` to before `end` of a panel's columns from `column` on, kRows at a time and columns as many as kVectors hold,
// those that are left by fewer.
template <int kWidth, int kRows, int kVectors>
EDGEX_INLINE void multiply_columns(const Panels& p, const float* panel, int64_t width, float* to, int64_t first, int64_t end,
                                   int64_t column = 0) {
  constexpr int kLeast = kLanes / kWidth;
  for (; column + kVectors * kWidth <= width; column += kVectors * kWidth) {
    for (int64_t row = first; row < end; row += kRows) {
      multiply_tile<kWidth, kRows, kVectors>(p, p.from + row * p.from_step, panel + column, width, to + row * p.to_step + column);
    }
  }
  if constexpr (kVectors > kLeast) multiply_columns<kWidth, kRows, kVectors - kLeast>(p, panel, width, to, first, end, column);
}

// A processor's register, and the tiles whose sums, columns and one number fit into its registers: of many rows, of two, of
// one, which needs as many sums to be computed at once.
template <int kRegister, int kTileRows, int kTile, int kPair, int kSingle>
EDGEX_INLINE void multiply_all(const Panels& p) {
  const int64_t end = pad_to_lanes(p.columns), whole = p.rows / kTileRows * kTileRows, paired = p.rows / 2 * 2;
  for (int64_t first = 0; first < end; first += kPanel) {
    const int64_t width = std::min(kPanel, end - first);
    const float* panel = p.panels + first * p.depth;
    multiply_columns<kRegister, kTileRows, kTile>(p, panel, width, p.to + first, 0, whole);
    multiply_columns<kRegister, 2, kPair>(p, panel, width, p.to + first, whole, paired);
    multiply_columns<kRegister, 1, kSingle>(p, panel, width, p.to + first, paired, p.rows);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiply_avx512(const Panels& p) { multiply_all<16, 6, 4, 4, 4>(p); }
__attribute__((target("avx2,fma"))) void multiply_avx2(const Panels& p) { multiply_all<8, 6, 2, 4, 8>(p); }
#endif
void multiply_plain(const Panels& p) { multiply_all<4, 2, 4, 4, 8>(p); }

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

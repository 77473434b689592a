#include "convolution/planes.h"

#include "operators/numbers.h"

namespace edgex {

namespace {

struct Group {
  const Planes& planes;
  int64_t inputs, outputs;
  const float *weights, *added;
  float* made;
  int64_t made_step;
};

// kOutputs of the group for kVectors vectors of windows: their sums stay in registers.
template <int kWidth, int kOutputs, int kVectors>
EDGEX_INLINE void convolve_tile(const Group& group, int64_t output, int64_t vector) {
  using Vector = typename Register<kWidth>::Type;
  const int64_t* const taps = group.planes.taps.data();
  const auto tap_count = static_cast<int64_t>(group.planes.taps.size());
  const int64_t weights_step = group.inputs * tap_count;
  Vector sums[kOutputs][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kOutputs; i++) {
    const Vector start = Vector{} + (group.added == nullptr ? 0.0f : group.added[output + i]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) sums[i][j] = start;
  }
  const float* windows[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; j++) windows[j] = group.planes.numbers + group.planes.places[static_cast<size_t>(vector + j)];
  const float* weights = group.weights + output * weights_step;
  for (int64_t input = 0; input < group.inputs; input++) {
    for (int64_t tap = 0; tap < tap_count; tap++, weights++) {
      const int64_t at = taps[tap];
      Vector numbers[kVectors];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; j++) numbers[j] = *reinterpret_cast<const Vector*>(windows[j] + at);
#pragma GCC unroll 8
      for (int i = 0; i < kOutputs; i++) {
        const float weight = weights[i * weights_step];
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; j++) sums[i][j] += numbers[j] * weight;
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) windows[j] += group.planes.step;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kOutputs; i++) {
    float* const to = group.made + (output + i) * group.made_step + vector * kWidth;
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) *reinterpret_cast<Vector*>(to + j * kWidth) = sums[i][j];
  }
}

template <int kWidth, int kOutputs, int kVectors>
EDGEX_INLINE void convolve_outputs(const Group& group, int64_t output) {
  const auto count = static_cast<int64_t>(group.planes.places.size());
  int64_t vector = 0;
  for (; vector + kVectors <= count; vector += kVectors) convolve_tile<kWidth, kOutputs, kVectors>(group, output, vector);
  for (; vector + 2 <= count; vector += 2) convolve_tile<kWidth, kOutputs, 2>(group, output, vector);
  if (vector < count) convolve_tile<kWidth, kOutputs, 1>(group, output, vector);
}

// A tile's sums, its numbers and one weight fit into the registers, of which AVX-512 has twice as many.
template <int kWidth>
EDGEX_INLINE void convolve(const Group& group) {
  int64_t output = 0;
  for (; output + 4 <= group.outputs; output += 4) convolve_outputs<kWidth, 4, 3>(group, output);
  for (; output + 2 <= group.outputs; output += 2) convolve_outputs<kWidth, 2, kWidth == 16 ? 8 : 5>(group, output);
  if (output < group.outputs) convolve_outputs<kWidth, 1, 7>(group, output);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void convolve_avx512(const Group& group) { convolve<16>(group); }
__attribute__((target("avx2,fma"))) void convolve_avx2(const Group& group) { convolve<8>(group); }
#endif
void convolve_plain(const Group& group) { convolve<4>(group); }

struct Form {
  int64_t lanes;
  void (*convolve)(const Group&);
};

Form choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {16, convolve_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {8, convolve_avx2};
#endif
  return {4, convolve_plain};
}

const Form& chosen() {
  static const Form form = choose();
  return form;
}

using Four = Register<4>::Type;
typedef int32_t Order __attribute__((vector_size(16)));

EDGEX_INLINE void transpose_four(const float* from, int64_t row_step, float* to, int64_t column_step) {
  Four rows[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) rows[i] = *reinterpret_cast<const Four*>(from + i * row_step);
  const Four low = __builtin_shuffle(rows[0], rows[1], Order{0, 4, 1, 5}), high = __builtin_shuffle(rows[0], rows[1], Order{2, 6, 3, 7});
  const Four low2 = __builtin_shuffle(rows[2], rows[3], Order{0, 4, 1, 5}), high2 = __builtin_shuffle(rows[2], rows[3], Order{2, 6, 3, 7});
  *reinterpret_cast<Four*>(to) = __builtin_shuffle(low, low2, Order{0, 1, 4, 5});
  *reinterpret_cast<Four*>(to + column_step) = __builtin_shuffle(low, low2, Order{2, 3, 6, 7});
  *reinterpret_cast<Four*>(to + 2 * column_step) = __builtin_shuffle(high, high2, Order{0, 1, 4, 5});
  *reinterpret_cast<Four*>(to + 3 * column_step) = __builtin_shuffle(high, high2, Order{2, 3, 6, 7});
}

}  // namespace

int64_t plane_lanes() { return chosen().lanes; }

void convolve_planes(const Planes& planes, int64_t inputs, int64_t outputs, const float* weights, const float* added, float* made,
                     int64_t made_step) {
  chosen().convolve({planes, inputs, outputs, weights, added, made, made_step});
}

void transpose(const float* from, int64_t rows, int64_t columns, int64_t row_step, float* to, int64_t column_step) {
  int64_t column = 0;
  for (; column + 4 <= columns; column += 4) {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      transpose_four(from + row * row_step + column, row_step, to + column * column_step + row, column_step);
    }
    for (; row < rows; row++) {
      for (int64_t i = column; i < column + 4; i++) to[i * column_step + row] = from[row * row_step + i];
    }
  }
  for (; column < columns; column++) {
    for (int64_t row = 0; row < rows; row++) to[column * column_step + row] = from[row * row_step + column];
  }
}

}  // namespace edgex

// Activations in 8 bits, row by row, with the numbers that PyTorch's recipes have.
#pragma once

#include <cstdint>

namespace edgex {

// (number - zero) * scale is what a quantized number of the row means.
struct RowEncoding {
  float scale, zero;
};

// to[i] = clamp(round(from[i] / scale) + zero, -128, 127) for `count` numbers that lie `step` apart, with the scale and zero
// of this row's smallest and largest number, 0 being between them. Numbers up to `padded` become 0. A row that holds
// something else than finite numbers gets a scale that is none.
RowEncoding quantize_row(const float* from, int64_t step, int64_t count, int64_t padded, int8_t* to);

// sums[g] = -8 * the sum of group g: what 4-bit weights that are stored 8 higher count too much.
void sum_groups(const int8_t* row, int64_t groups, int64_t group, int32_t* sums);

// Brings numbers from signed to unsigned: 128 is added.
void make_unsigned(int8_t* row, int64_t count);

}  // namespace edgex

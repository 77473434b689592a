// Products of 8-bit rows with weights in 4 and 8 bits, on the thread that calls.
#pragma once

#include <cstdint>

#include "lowbits/activations.h"

namespace edgex {

// Outputs of a block of weights, which lie side by side: what a register of AVX-512 has sums for.
constexpr int64_t kBlock = 16;
// Inputs whose products a processor sums at once.
constexpr int64_t kQuad = 4;

// result[r][o] = scale[r] * (sum over groups of scales[o][group] * (row[r] x weights[o] in the group) - zero[r] * sums[o])
// + bias[o]. Weights and scales are laid out as `packing.py` writes them.
struct LowBitProduct {
  const uint8_t* weights;
  const float *scales, *sums;
  const float* bias;               // null for none
  int64_t groups, group, outputs;  // `group`: inputs of one
  const int8_t* rows;              // [rows][groups * group]; of 8-bit weights unsigned
  const RowEncoding* encodings;    // of 8-bit weights, whose rows are 128 higher, `zero` as well
  const int32_t* row_sums;         // [rows][groups] of `sum_groups`; of 4-bit weights only
  float* const* results;           // a row each, of `outputs` numbers side by side
  int64_t count;                   // rows
};

// The outputs of the blocks from `first` to before `end`, for all rows.
void multiply_4bit(const LowBitProduct& product, int64_t first, int64_t end);
void multiply_8bit(const LowBitProduct& product, int64_t first, int64_t end);

}  // namespace edgex

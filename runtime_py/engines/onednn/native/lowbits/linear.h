// Linear layers with weights in 4 or 8 bits, whose inputs are quantized row by row.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// result = dequantized(quantized(x)) x dequantized(weights) + bias, the products of whole numbers. oneDNN 3.2 unpacks such
// weights to float32 before it multiplies. One copy of the weights, in the plan, serves all numbers of rows.
struct LowBitLayer {
  // x (..., in) float32; weights, scales and sums as `packing.py` writes them; bias (out) if there are five.
  std::vector<Strided> inputs;
  Strided result;
};

// Layers of one x, whose weights have as many groups of inputs, as large: x is quantized once for all. It is given the
// inputs of each, then the result of each. `kind`: kLinear4Bit or kLinear8Bit.
std::unique_ptr<OwnOperator> make_low_bit_linears(int kind, const std::vector<LowBitLayer>& layers);

}  // namespace edgex

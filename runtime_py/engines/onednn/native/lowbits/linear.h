// Linear layers with weights in 4 or 8 bits, whose inputs are quantized row by row.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// result = dequantized(quantized(x)) x dequantized(weights) + bias, the products of whole numbers. oneDNN 3.2 unpacks such
// weights to float32 before it multiplies. One copy of the weights, in the plan, serves all numbers of rows.
//
// inputs: x (..., in) float32; weights, scales and sums as `packing.py` writes them; bias (out) if there are five. `kind`:
// kLinear4Bit or kLinear8Bit.
std::unique_ptr<OwnOperator> make_low_bit_linear(int kind, const std::vector<Strided>& inputs, const Strided& result);

}  // namespace edgex

// Sums, products and the like of two tensors in any layouts.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

// result = left (kind) right, with each of them repeated to the result's shape. oneDNN 3.2 computes most repetitions with
// its reference kernel, one number at a time with all its indices: (1, 16, 4, 49, 49) + (1, 16, 1, 49, 49) takes 23 ms
// there. It has none where both are repeated. All are of the one type, kFloat32 or kBfloat16. `kind`: of the plan, kAdd to
// kMinimum.
std::unique_ptr<OwnOperator> make_binary(int kind, int dtype, const Strided& left, const Strided& right,
                                         const Strided& result);

// result = from, in another layout.
std::unique_ptr<OwnOperator> make_copy(int dtype, const Strided& from, const Strided& result);

}  // namespace edgex

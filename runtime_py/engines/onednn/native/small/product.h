// Products of small matrices and layers of few weights, on the thread that calls.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// Multiplications of a product.
int64_t count_products(const std::vector<Strided>& inputs, const Strided& result);

// float32: two tensors of matrices, the second one as (columns, depth) where it is `transposed`, and one number for each column
// to add if there are three inputs. `weights`: the second one's numbers where they never change, else null; the result brings
// them into its own order once. Null where the result's rows do not lie side by side.
std::unique_ptr<OwnOperator> make_product(const std::vector<Strided>& inputs, bool transposed, const float* weights,
                                          const Strided& result);

}  // namespace edgex

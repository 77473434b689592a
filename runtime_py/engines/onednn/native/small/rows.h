// Layer norms of few rows, on the thread that calls, and sums and means of rows.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

struct Operation;

// float32: the rows along the last dimension, with or without a scale and a shift. Null where rows do not lie side by side.
std::unique_ptr<OwnOperator> make_layer_norm(const Operation& operation, const std::vector<Strided>& inputs, const Strided& result);

// float32: a sum or a mean over the last dimensions. Null for others, and where they do not lie side by side.
std::unique_ptr<OwnOperator> make_reduction(const Operation& operation, const Strided& from, const Strided& result);

}  // namespace edgex

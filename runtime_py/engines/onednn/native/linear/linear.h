// Linear layers in float32 on processors for which oneDNN has no kernel that reads weights in an order of its own.
#pragma once

#include <memory>
#include <vector>

#include "linear/panels.h"
#include "operators/own_operator.h"

namespace edgex {

// Whether layers of so many rows, and weights of `depth` x `columns`, run here. oneDNN 3.2 brings weights into order in every
// call where there is no AVX-512: on a Zen 3, one thread, 1.05 to 1.9 times the time at 32 to 197 rows, 2 to 5 times at less
// than 16. A single row reads its weights once, so that large ones are bound by memory and need no second copy.
bool prefers_panels(int64_t rows, int64_t depth, int64_t columns);

// x (..., rows, depth), weights (depth, columns) or, `transposed`, (columns, depth), and one number a column to add if there
// are three inputs; `weights` are the second one's numbers, which never change. Null where the rows of x or of the result do
// not lie at one distance, each without gaps.
std::unique_ptr<OwnOperator> make_linear(const std::vector<Strided>& inputs, bool transposed, const float* weights,
                                         const Strided& result, PanelStore& store);

}  // namespace edgex

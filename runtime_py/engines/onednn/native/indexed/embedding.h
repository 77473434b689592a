// Rows of a table, taken by their numbers.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

// result[..., :] = table[indices[...], :]. oneDNN 3.2 has no such operator. With it a table lies in the region that multiplies
// by it too, once, as the last layer of a language model does.
//
// table: (rows, width); indices: (...), or (1) for a single one; result: (..., width). `index_dtype`: kInt32 or kInt64.
std::unique_ptr<OwnOperator> make_embedding(int dtype, int index_dtype, const Strided& table, const Strided& indices,
                                            const Strided& result);

}  // namespace edgex

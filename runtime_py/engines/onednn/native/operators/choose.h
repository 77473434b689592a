// Elements that a mask or numbers choose.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

// `mask`: a byte for each element, of `left` where it is not 0, else of `right`; all are repeated to the result's size.
std::unique_ptr<OwnOperator> make_where(int dtype, const Strided& mask, const Strided& left, const Strided& right,
                                        const Strided& result);

// result[.., i, ..] = table[.., indices[.., i, ..], ..] along `axis`; `indices` has the result's size, and the table at least
// that along all other dimensions. `index_dtype`: kInt32 or kInt64.
std::unique_ptr<OwnOperator> make_gather(int dtype, int index_dtype, size_t axis, const Strided& table, const Strided& indices,
                                         const Strided& result);

}  // namespace edgex

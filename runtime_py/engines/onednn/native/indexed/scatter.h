// Elements and rows that are added at the places that numbers name.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

// A copy of `x`, to which the elements of `source` are added along `axis`, in their order:
// kScatterAdd: result[.., indices[.., i, ..], ..] += source[.., i, ..]; `indices` has the source's size.
// kAddRows: `indices` has one dimension, a number for each place of the source along `axis`; one below 0 counts from the end.
// `index_dtype`: kInt32 or kInt64.
std::unique_ptr<OwnOperator> make_scatter(int kind, int dtype, int index_dtype, size_t axis, const Strided& x,
                                          const Strided& indices, const Strided& source, const Strided& result);

}  // namespace edgex

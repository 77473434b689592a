// Elements and rows that go to the places that numbers name.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

// A copy of `x`, to which the elements of `source` are added, or which they replace, along `axis`:
// kScatterAdd: result[.., indices[.., i, ..], ..] += source[.., i, ..]; `indices` has the source's size.
// kAddRows, kPutRows: `indices` has one dimension, a number for each place of the source along `axis`; one below 0 counts from
// the end. Of what goes to one place, the last stays, or all are added in their order.
// `index_dtype`: kInt32 or kInt64.
std::unique_ptr<OwnOperator> make_scatter(int kind, int dtype, int index_dtype, size_t axis, const Strided& x,
                                          const Strided& indices, const Strided& source, const Strided& result);

}  // namespace edgex

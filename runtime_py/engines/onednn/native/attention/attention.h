// Attention over many places in blocks of rows, so that its scores never leave the processor's cache.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

// softmax(query x key * scale + masks) x value. oneDNN 3.2 makes three partitions of it, between which all scores lie in
// memory: 54 MB for six heads over 1,500 places. Here each thread takes a block of a head's rows through all three. The
// scores are float32 in any case.
//
// query: (..., rows, size); key: (..., size, columns); value: (..., columns, width); result: (..., rows, width).
// masks: at most two, each repeated to (..., rows, columns). All are of the one type, kFloat32 or kBfloat16. Inputs stand in
// this order, the masks last. `kind`, of the plan, says what a row gives that may look at nothing. Throws OneDnnError where
// the shapes do not fit each other.
std::unique_ptr<OwnOperator> make_attention(int kind, int dtype, const Strided& query, const Strided& key,
                                            const Strided& value, const std::vector<Strided>& masks,
                                            const Strided& result, float scale);

}  // namespace edgex

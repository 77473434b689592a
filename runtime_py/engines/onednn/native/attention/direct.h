// Attention in float32 with products of our own: for all lengths of which a head's key and value fit into a cache.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// As `make_attention`, of float32.
std::unique_ptr<OwnOperator> make_direct_attention(int kind, const Strided& query, const Strided& key, const Strided& value,
                                                   const std::vector<Strided>& masks, const Strided& result, float scale);

}  // namespace edgex

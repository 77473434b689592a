// Attention over the filled part of a cache, which the same call writes first.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// key_cache[:, :, end - n : end] = keys, and the values likewise; then
// result[i] = softmax over the places j <= end - n + i of (scale * query[i] x key_cache[j]) x value_cache[j]
// and, with a window, j > end - n + i - window. What lies behind `end` is not read; nothing is written but the new places.
// All heads that share a key read it once, and scores are there for a block of places only.
//
// query: (1, heads, n, size); keys, values: (1, shared, n, ..), of which each serves heads / shared heads; caches:
// (1, shared, context, ..), in the order of their dimensions; end: one int64; result: (1, heads, n, width). Inputs stand
// in this order: query, keys, values, key cache, value cache, end. All but `end` are float32. Caches in 8 bits stand as
// key cache, value cache, scales of keys, scales of values, (1, shared, context, 1); see memory.h. A run throws WrongArgument
// where `end` is less than n or more than the context. `window`: 0 for none.
std::unique_ptr<OwnOperator> make_cached_attention(const std::vector<Strided>& inputs, const Strided& result, float scale,
                                                   int64_t window);

}  // namespace edgex

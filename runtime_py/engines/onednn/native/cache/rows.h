// The two products of attention for a few rows that read the same keys and values, and what makes float32 of keys and
// values in 8 bits, on the thread that calls.
#pragma once

#include <cstdint>

namespace edgex {

// scores[r * scores_step + j] = sum over i of query[r * size + i] * keys[j * size + i], for `rows` rows and `count` keys.
void score_keys(const float* query, int64_t rows, const float* keys, int64_t count, int64_t size, float* scores,
                int64_t scores_step);

// to[r * size + i] += sum over j of weights[r * weights_step + j] * values[j * size + i].
void add_values(const float* weights, int64_t weights_step, int64_t rows, const float* values, int64_t count, int64_t size,
                float* to);

// to[j * size + i] = from[j * size + i] * scales[j].
void widen_rows(const int8_t* from, const float* scales, int64_t count, int64_t size, float* to);

}  // namespace edgex

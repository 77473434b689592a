// What lies between the two products of attention, one row at a time: scale, mask, softmax.
#pragma once

#include <cstdint>

#include "operators/numbers.h"

namespace edgex {

// Rounds to nearest, halves to even; what is no number stays none.
void narrow(float from, float& to);
void narrow(float from, Bfloat16& to);

// to[i] = from[i] * factor.
void scale_row(const float* from, int64_t count, float factor, float* to);
void scale_row(const float* from, int64_t count, float factor, Bfloat16* to);

// scores[i] = scores[i] * scale + mask[i * mask_step].
void mask_row(float* scores, int64_t count, float scale, const float* mask, int64_t mask_step);
void mask_row(float* scores, int64_t count, float scale, const Bfloat16* mask, int64_t mask_step);

// -inf where there is none.
float find_largest(const float* scores, int64_t count);

// scores[i] = exp((scores[i] - largest) * scale), of which none is above 1 but for rounding, for a scale of 0 or more.
// Returns their sum.
float weigh_row(float* scores, int64_t count, float scale, float largest);

}  // namespace edgex

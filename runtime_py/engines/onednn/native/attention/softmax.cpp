#include "attention/softmax.h"

#include <limits>

namespace edgex {

namespace {

// 2^x for x <= 0, to 2 units in the last place; 0 below 2^-100, which is nothing beside the 1 that every row has: products
// with the smallest numbers take processors twenty times as long.
// The polynomial is the one of degree 5 with the smallest relative error (7.5e-8) for |fraction| <= 1/2, by Remez's
// exchange.
EDGEX_INLINE float power_of_two(float x) {
  constexpr float kLowest = -100.0f;
  // 1.5 * 2^23: added to a small number, it leaves the nearest integer in the lowest bits.
  constexpr float kRound = 12582912.0f;
  const bool nothing = x < kLowest;
  x = nothing ? kLowest : x;
  const float rounded = x + kRound;
  const float fraction = x - (rounded - kRound);
  float p = 1.327647199e-3f;
  p = p * fraction + 9.675541334e-3f;
  p = p * fraction + 5.550713273e-2f;
  p = p * fraction + 2.402211972e-1f;
  p = p * fraction + 6.931469671e-1f;
  p = p * fraction + 1.000000072f;
  // The integer is added to the exponent.
  const auto power = reinterpret<float>(reinterpret<uint32_t>(p) + (reinterpret<uint32_t>(rounded) << 23));
  return nothing ? 0.0f : power;
}

// What is no number is not larger.
EDGEX_INLINE float larger(float number, float than) { return number > than ? number : than; }

template <typename To>
EDGEX_INLINE void scale(const float* from, int64_t count, float factor, To* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) store(from[i] * factor, to[i]);
}

template <typename Mask>
EDGEX_INLINE void add_mask(float* scores, int64_t count, float scale, const Mask* mask, int64_t step) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) scores[i] = scores[i] * scale + to_float(mask[i]);
  } else {
    for (int64_t i = 0; i < count; i++) scores[i] = scores[i] * scale + to_float(mask[i * step]);
  }
}

}  // namespace

void narrow(float from, float& to) { store(from, to); }

void narrow(float from, Bfloat16& to) { store(from, to); }

EDGEX_FOR_EACH_PROCESSOR void scale_row(const float* from, int64_t count, float factor, float* to) {
  scale(from, count, factor, to);
}

EDGEX_FOR_EACH_PROCESSOR void scale_row(const float* from, int64_t count, float factor, Bfloat16* to) {
  scale(from, count, factor, to);
}

EDGEX_FOR_EACH_PROCESSOR void mask_row(float* scores, int64_t count, float scale, const float* mask, int64_t mask_step) {
  add_mask(scores, count, scale, mask, mask_step);
}

EDGEX_FOR_EACH_PROCESSOR void mask_row(float* scores, int64_t count, float scale, const Bfloat16* mask,
                                       int64_t mask_step) {
  add_mask(scores, count, scale, mask, mask_step);
}

EDGEX_FOR_EACH_PROCESSOR float find_largest(const float* scores, int64_t count) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  // Of four quarters at once: each comparison waits for the one before.
  const int64_t quarter = count / 4;
  const float *second = scores + quarter, *third = second + quarter, *fourth = third + quarter;
  float a = kNone, b = kNone, c = kNone, d = kNone;
#pragma omp simd reduction(max : a, b, c, d)
  for (int64_t i = 0; i < quarter; i++) {
    a = larger(scores[i], a);
    b = larger(second[i], b);
    c = larger(third[i], c);
    d = larger(fourth[i], d);
  }
  float largest = larger(larger(a, b), larger(c, d));
  for (int64_t i = 4 * quarter; i < count; i++) largest = larger(scores[i], largest);
  return largest;
}

EDGEX_FOR_EACH_PROCESSOR float weigh_row(float* scores, int64_t count, float scale, float largest) {
  constexpr float kLog2E = 1.44269504088896341f;
  const float factor = scale * kLog2E;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    // The difference first, which is 0 for the largest, however large: products would differ by their rounding.
    const float weight = power_of_two((scores[i] - largest) * factor);
    sum += weight;
    scores[i] = weight;
  }
  return sum;
}

}  // namespace edgex

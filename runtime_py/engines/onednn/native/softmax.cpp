#include "softmax.h"

#include <cstring>
#include <limits>

// The functions below are compiled for processors with AVX-512, with AVX2, and for all others; the loader takes what fits.
#define EDGEX_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#define EDGEX_INLINE inline __attribute__((always_inline))

namespace edgex {

namespace {

template <typename To, typename From>
EDGEX_INLINE To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

EDGEX_INLINE float to_float(float number) { return number; }
EDGEX_INLINE float to_float(Bfloat16 number) { return reinterpret<float>(static_cast<uint32_t>(number.bits) << 16); }

EDGEX_INLINE void store(float from, float& to) { to = from; }
EDGEX_INLINE void store(float from, Bfloat16& to) {
  const auto bits = reinterpret<uint32_t>(from);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  to.bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

// exp(x) for x <= 0, 1 to 2 units in the last place; what is below the smallest normal number gives about that number.
// The reduction to |r| <= ln(2) / 2 and the polynomial are those of `expf` in Moshier's Cephes library, 2.2 (1992).
EDGEX_INLINE float exponential(float x) {
  constexpr float kLowest = -87.33654f, kLog2E = 1.44269504088896341f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // 1.5 * 2^23: added to a small number, it leaves the nearest integer in the lowest bits.
  constexpr float kRound = 12582912.0f;
  x = x < kLowest ? kLowest : x;
  const float rounded = x * kLog2E + kRound;
  const float n = rounded - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * reinterpret<float>((reinterpret<uint32_t>(rounded) + 127u) << 23);
}

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

EDGEX_FOR_EACH_PROCESSOR float find_largest(const float* scores, int64_t count, float scale) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; i++) {
    const float score = scores[i] * scale;
    largest = score > largest ? score : largest;
  }
  return largest;
}

EDGEX_FOR_EACH_PROCESSOR float weigh_row(float* scores, int64_t count, float scale, float largest) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    const float weight = exponential(scores[i] * scale - largest);
    sum += weight;
    scores[i] = weight;
  }
  return sum;
}

}  // namespace edgex

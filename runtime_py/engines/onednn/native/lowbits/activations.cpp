#include "lowbits/activations.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "operators/numbers.h"

namespace edgex {

namespace {

// 1.5 * 2^23: added to a number below 2^22, it leaves the nearest integer, halves to even.
constexpr float kRound = 12582912.0f;

EDGEX_INLINE float nearest(float number) { return (number + kRound) - kRound; }

struct Range {
  float least, most;
  bool finite;
};

EDGEX_FOR_EACH_PROCESSOR Range find_range(const float* from, int64_t step, int64_t count) {
  float least = 0, most = 0, odd = 0;
  if (step == 1) {
#pragma omp simd reduction(min : least) reduction(max : most) reduction(+ : odd)
    for (int64_t i = 0; i < count; i++) {
      least = from[i] < least ? from[i] : least;
      most = from[i] > most ? from[i] : most;
      odd += from[i] - from[i];  // 0, but of what is infinite or no number
    }
  } else {
    for (int64_t i = 0; i < count; i++) {
      const float number = from[i * step];
      least = number < least ? number : least;
      most = number > most ? number : most;
      odd += number - number;
    }
  }
  return {least, most, odd == 0};
}

EDGEX_FOR_EACH_PROCESSOR void round_row(const float* from, int64_t step, int64_t count, float inverse, float zero, int8_t* to) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
      const float number = nearest(from[i] * inverse) + zero;
      to[i] = static_cast<int8_t>(static_cast<int32_t>(number < -128.0f ? -128.0f : number > 127.0f ? 127.0f : number));
    }
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    const float number = nearest(from[i * step] * inverse) + zero;
    to[i] = static_cast<int8_t>(static_cast<int32_t>(std::clamp(number, -128.0f, 127.0f)));
  }
}


}  // namespace

RowEncoding quantize_row(const float* from, int64_t step, int64_t count, int64_t padded, int8_t* to) {
  const Range range = find_range(from, step, count);
  std::memset(to + count, 0, static_cast<size_t>(padded - count));
  if (!range.finite) {
    std::memset(to, 0, static_cast<size_t>(count));
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  }
  const float scale = std::max((range.most - range.least) / 255.0f, std::numeric_limits<float>::min());
  const float zero = std::clamp(-128.0f - nearest(range.least / scale), -128.0f, 127.0f);
  round_row(from, step, count, 1.0f / scale, zero, to);
  return {scale, zero};
}

EDGEX_FOR_EACH_PROCESSOR void sum_groups(const int8_t* row, int64_t groups, int64_t group, int32_t* sums) {
  for (int64_t g = 0; g < groups; g++) {
    int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < group; i++) sum += row[g * group + i];
    sums[g] = -8 * sum;
  }
}

EDGEX_FOR_EACH_PROCESSOR void make_unsigned(int8_t* row, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) row[i] = static_cast<int8_t>(row[i] ^ -128);
}

}  // namespace edgex

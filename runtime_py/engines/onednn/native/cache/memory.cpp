#include "cache/memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cache/rows.h"

namespace edgex {

namespace {

// Of numbers in 8 bits; and the smallest range that has a scale, so that a row of zeros has one too.
constexpr float kLargest = 127.0f, kLeastRange = 1e-6f;
// Numbers in 8 bits that are brought to float32 at a time: 8 KB lie in every processor's nearest cache.
constexpr int64_t kNumbersAtOnce = 2048;

float narrow(const float* from, int64_t step, int64_t count, int8_t* to) {
  float largest = kLeastRange;
  for (int64_t i = 0; i < count; i++) largest = std::max(largest, std::fabs(from[i * step]));
  const float scale = largest / kLargest;
  for (int64_t i = 0; i < count; i++) {
    // What is no number becomes one of the ends.
    to[i] = static_cast<int8_t>(std::fmax(-kLargest, std::fmin(kLargest, std::nearbyint(from[i * step] / scale))));
  }
  return scale;
}

void copy(const float* from, int64_t step, int64_t count, float* to) {
  if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
  }
}

}  // namespace

CacheRows::CacheRows(const Strided& given, int64_t context, bool eight_bits)
    : given_(given), context_(context), size_(given.dims[3]), eight_bits_(eight_bits) {}

void CacheRows::write(const float* tokens, const CacheMemory& memory, int64_t start) const {
  const int64_t step = size_ == 1 ? 1 : given_.strides[3];
  for (int64_t head = 0; head < given_.dims[1]; head++) {
    for (int64_t token = 0; token < given_.dims[2]; token++) {
      const float* from = tokens + head * given_.strides[1] + token * given_.strides[2];
      const int64_t row = head * context_ + start + token;
      if (eight_bits_) {
        memory.scales[row] = narrow(from, step, size_, reinterpret_cast<int8_t*>(memory.rows) + row * size_);
      } else {
        copy(from, step, size_, reinterpret_cast<float*>(memory.rows) + row * size_);
      }
    }
  }
}

const float* CacheRows::read(const CacheMemory& memory, int64_t shared, int64_t first, int64_t count, float* buffer) const {
  const int64_t row = shared * context_ + first;
  if (!eight_bits_) return reinterpret_cast<const float*>(memory.rows) + row * size_;
  const int8_t* from = reinterpret_cast<const int8_t*>(memory.rows) + row * size_;
  widen_rows(from, memory.scales + row, count, size_, buffer);
  return buffer;
}

int64_t CacheRows::rows_at_once(int64_t count) const {
  // Whole registers of scores.
  return eight_bits_ ? std::min(count, std::max<int64_t>(16, kNumbersAtOnce / size_ / 16 * 16)) : count;
}

}  // namespace edgex

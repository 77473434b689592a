#include "data/values.h"

#include <cmath>
#include <cstring>

namespace edgex {

namespace {

template <typename Type>
double at(const Tensor& tensor, size_t index) {
  Type value;
  std::memcpy(&value, tensor.data.get() + index * sizeof value, sizeof value);
  return static_cast<double>(value);
}

double half_at(const Tensor& tensor, size_t index) {
  const auto bits = static_cast<uint16_t>(at<uint16_t>(tensor, index));
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023, sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024.0 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

double bfloat_at(const Tensor& tensor, size_t index) {
  const uint32_t bits = static_cast<uint32_t>(at<uint16_t>(tensor, index)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

double value_at(const Tensor& tensor, size_t index) {
  switch (tensor.dtype) {
    case Dtype::kFloat32: return at<float>(tensor, index);
    case Dtype::kFloat64: return at<double>(tensor, index);
    case Dtype::kFloat16: return half_at(tensor, index);
    case Dtype::kBfloat16: return bfloat_at(tensor, index);
    case Dtype::kInt8: return at<int8_t>(tensor, index);
    case Dtype::kInt16: return at<int16_t>(tensor, index);
    case Dtype::kInt32: return at<int32_t>(tensor, index);
    case Dtype::kInt64: return at<int64_t>(tensor, index);
    case Dtype::kUint8: return at<uint8_t>(tensor, index);
    case Dtype::kBool: return at<uint8_t>(tensor, index) != 0;
  }
  return 0;
}

}  // namespace edgex

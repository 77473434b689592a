#include "lowbits/images.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "oneapi/dnnl/dnnl_graph_types.h"

#include "operators/numbers.h"
#include "plan/operators.h"
#include "small/layout.h"

namespace edgex {

namespace {

// Places that are quantized at a time, and channels whose bytes of a place are put together before they are written.
constexpr int64_t kPlaces = 256, kTogether = 4;
// Fewer numbers are quantized before other threads have begun.
constexpr int64_t kNumbersForThreads = 32 << 10;
// Added and taken away again, it leaves of a number below 2^22 the nearest whole one, the even of two.
constexpr float kToWhole = 12582912.0f;

struct Encoding {
  float inverse, least, most;  // 1 / scale; the range without the zero point
  int32_t zero;
};

// NaN becomes the least.
EDGEX_INLINE uint32_t encode(float number, const Encoding& encoding) {
  float scaled = number * encoding.inverse;
  scaled = scaled >= encoding.least ? scaled : encoding.least;
  scaled = scaled <= encoding.most ? scaled : encoding.most;
  const float whole = (scaled + kToWhole) - kToWhole;
  return static_cast<uint32_t>(static_cast<int32_t>(whole) + encoding.zero) & 0xff;
}

// bytes[i] has the bytes of `channels` channels, 1 to 4, which lie `step` numbers apart, at place i.
EDGEX_FOR_EACH_PROCESSOR void put_together(const float* from, int64_t step, int64_t channels, int64_t places,
                                           const Encoding& given, uint32_t* bytes) {
  const Encoding encoding = given;
#pragma omp simd
  for (int64_t i = 0; i < places; i++) bytes[i] = encode(from[i], encoding);
  for (int64_t channel = 1; channel < channels; channel++) {
    const float* row = from + channel * step;
    const int shift = static_cast<int>(8 * channel);
#pragma omp simd
    for (int64_t i = 0; i < places; i++) bytes[i] |= encode(row[i], encoding) << shift;
  }
}

template <size_t kBytes>
void write_places(const uint32_t* bytes, int64_t places, int64_t step, uint8_t* to) {
  for (int64_t i = 0; i < places; i++) std::memcpy(to + i * step, bytes + i, kBytes);
}

class QuantizedImage final : public OwnOperator {
 public:
  QuantizedImage(const Encoding& encoding, const Strided& result) : encoding_(encoding) {
    images_ = result.dims[0];
    channels_ = result.dims[1];
    places_ = count_of(result.dims) / (images_ * channels_);
  }

  void run(std::byte* const* tensors, std::byte*) const override {
    const auto* from = reinterpret_cast<const float*>(tensors[0]);
    auto* to = reinterpret_cast<uint8_t*>(tensors[1]);
    const int64_t blocks = (places_ + kPlaces - 1) / kPlaces, tasks = images_ * blocks;
#pragma omp parallel for if (images_ * channels_ * places_ >= kNumbersForThreads && tasks > 1)
    for (int64_t task = 0; task < tasks; task++) {
      const int64_t image = task / blocks, first = task % blocks * kPlaces;
      const int64_t start = image * channels_ * places_;
      quantize(from + start + first, std::min(kPlaces, places_ - first), to + start + first * channels_);
    }
  }

 private:
  void quantize(const float* from, int64_t places, uint8_t* to) const {
    uint32_t bytes[kPlaces];
    for (int64_t channel = 0; channel < channels_; channel += kTogether) {
      const int64_t together = std::min(kTogether, channels_ - channel);
      put_together(from + channel * places_, places_, together, places, encoding_, bytes);
      uint8_t* const first = to + channel;
      if (together == 4) {
        write_places<4>(bytes, places, channels_, first);
      } else if (together == 3 && channels_ == 3) {
        // What a place writes of the next one, that writes after it.
        write_places<4>(bytes, places - 1, channels_, first);
        write_places<3>(bytes + places - 1, 1, channels_, first + (places - 1) * channels_);
      } else if (together == 3) {
        write_places<3>(bytes, places, channels_, first);
      } else if (together == 2) {
        write_places<2>(bytes, places, channels_, first);
      } else {
        write_places<1>(bytes, places, channels_, first);
      }
    }
  }

  Encoding encoding_;
  int64_t images_, channels_, places_;
};

// Whether elements lie without gaps, dimension 1 innermost and the others in their order.
bool lies_by_channels(const Strided& tensor) {
  int64_t expected = tensor.dims[1];
  if (tensor.dims[1] != 1 && tensor.strides[1] != 1) return false;
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    if (i == 1 || tensor.dims[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= tensor.dims[i];
  }
  return true;
}

}  // namespace

std::unique_ptr<OwnOperator> make_quantized_image(const Operation& operation, int dtype, const Strided& from,
                                                  const Strided& result) {
  if (operation.kind != dnnl_graph_op_quantize || result.dims.size() < 3 || count_of(result.dims) == 0) return nullptr;
  if (!is_row_major(from) || !lies_by_channels(result) || is_row_major(result)) return nullptr;
  const Attribute* scales = find_attribute(operation, dnnl_graph_op_attr_scales);
  const Attribute* zeros = find_attribute(operation, dnnl_graph_op_attr_zps);
  if (scales->floats.size() != 1) return nullptr;
  const auto zero = static_cast<int32_t>(zeros->integers[0]);
  const int32_t least = dtype == kInt8 ? std::numeric_limits<int8_t>::min() : 0;
  const int32_t most = dtype == kInt8 ? std::numeric_limits<int8_t>::max() : std::numeric_limits<uint8_t>::max();
  if (zero < least || zero > most || (dtype != kInt8 && dtype != kUint8)) return nullptr;
  const Encoding encoding{1.0f / scales->floats[0], static_cast<float>(least - zero), static_cast<float>(most - zero), zero};
  return std::make_unique<QuantizedImage>(encoding, result);
}

}  // namespace edgex

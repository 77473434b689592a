#include "convolution/grouped.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "convolution/planes.h"
#include "convolution/windows.h"
#include "library/onednn.h"
#include "oneapi/dnnl/dnnl_graph_types.h"
#include "plan/operators.h"
#include "small/layout.h"

namespace edgex {

namespace {

// Fewer multiplications are over before other threads have begun.
constexpr int64_t kWorkForThreads = 128 << 10;
// Numbers of a strip's planes: what is packed stays in the first cache while it is read.
constexpr int64_t kStrip = 10 << 10;
// Channels of a group from which on oneDNN's kernel is as fast, which goes by blocks; with AVX-512 from one block on.
constexpr int64_t kOfAKernel = 16, kBlock = 8;
// Channels that are packed at once: a cache line of what lies by channels.
constexpr int64_t kTogether = 16;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sizes of a bundle of groups over a strip of rows.
struct Bundle {
  int64_t groups, inputs, outputs;  // groups in all; inputs and outputs of one
  int64_t count;                   // groups at once
  int64_t strip;                    // rows of the result at once
  int64_t part;                     // numbers of a row that are one stride apart: its phases lie behind each other
  int64_t row;                      // numbers of a row
  int64_t plane;                    // numbers of a strip
  int64_t segments;                 // vectors of a row of the result
};

class Grouped final : public OwnOperator {
 public:
  Grouped(const ChannelWindow& window, const Bundle& sizes, const Strided& image, const Strided& result, bool added)
      : window_(window), bundle_(sizes), image_(image.strides), result_(result.strides), added_(added), batch_(image.dims[0]) {
    const int64_t lanes = plane_lanes();
    const Taps &rows = window.rows, &columns = window.columns;
    for (int64_t y = 0; y < rows.taps; y++) {
      for (int64_t x = 0; x < columns.taps; x++) {
        const int64_t along = x * columns.hole;
        taps_.push_back(y * rows.hole * sizes.row + along % columns.stride * sizes.part + along / columns.stride);
      }
    }
    for (int64_t y = 0; y < sizes.strip; y++) {
      for (int64_t i = 0; i < sizes.segments; i++) places_.push_back(y * rows.stride * sizes.row + i * lanes);
    }
    made_ = sizes.strip * sizes.segments * lanes;
    bundles_ = divide_up(sizes.groups, sizes.count);
    strips_ = divide_up(rows.made, sizes.strip);
    const int64_t work = batch_ * sizes.groups * sizes.outputs * sizes.inputs * rows.made * columns.made * rows.taps * columns.taps;
    threads_ = work >= kWorkForThreads ? omp_get_max_threads() : 1;
    numbers_ = divide_up(sizes.count * (sizes.inputs * sizes.plane + sizes.outputs * made_), 16) * 16;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * numbers_) * sizeof(float); }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    const int64_t tasks = batch_ * strips_ * bundles_;
#pragma omp parallel for num_threads(threads_) if (threads_ > 1)
    for (int64_t task = 0; task < tasks; task++) {
      const int64_t first = task % bundles_ * bundle_.count, strip = task / bundles_ % strips_, number = task / bundles_ / strips_;
      convolve(tensors, number, first, std::min(bundle_.count, bundle_.groups - first), strip * bundle_.strip,
               reinterpret_cast<float*>(scratch) + omp_get_thread_num() * numbers_);
    }
  }

 private:
  void convolve(std::byte* const* tensors, int64_t number, int64_t group, int64_t count, int64_t row, float* planes) const {
    const int64_t inputs = bundle_.inputs, outputs = bundle_.outputs;
    const auto* const image = reinterpret_cast<const float*>(tensors[0]);
    const auto* const weights = reinterpret_cast<const float*>(tensors[1]);
    const auto* const added = added_ ? reinterpret_cast<const float*>(tensors[2]) : nullptr;
    auto* const result = reinterpret_cast<float*>(tensors[added_ ? 3 : 2]);
    pack(image + number * image_[0] + group * inputs * image_[1], count * inputs, row, planes);
    float* const made = planes + bundle_.count * inputs * bundle_.plane;
    for (int64_t i = 0; i < count; i++) {
      const int64_t output = (group + i) * outputs;
      convolve_planes({planes + i * inputs * bundle_.plane, bundle_.plane, taps_, places_}, inputs, outputs,
                      weights + output * inputs * static_cast<int64_t>(taps_.size()), added == nullptr ? nullptr : added + output,
                      made + i * outputs * made_, made_);
    }
    unpack(made, count * outputs, row, result + number * result_[0] + group * outputs * result_[1]);
  }

  // The rows that a strip's windows read, with zeros around the image.
  void pack(const float* image, int64_t channels, int64_t row, float* planes) const {
    const Taps &rows = window_.rows, &columns = window_.columns;
    const int64_t first = row * rows.stride - rows.before, count = bundle_.plane / bundle_.row;
    const int64_t begin = std::clamp<int64_t>(-first, 0, count), end = std::clamp<int64_t>(rows.size - first, begin, count);
    const int64_t reached = columns.stride * bundle_.part - columns.before;
    const bool whole = begin == 0 && end == count && columns.before == 0 && columns.size >= reached;
    if (!whole) std::memset(planes, 0, static_cast<size_t>(channels * bundle_.plane) * sizeof(float));
    for (int64_t y = begin; y < end; y++) {
      for (int64_t phase = 0; phase < columns.stride; phase++) {
        // The first place of the phase that is no border.
        const int64_t ahead = std::max<int64_t>(0, divide_up(columns.before - phase, columns.stride));
        const int64_t from = ahead * columns.stride + phase - columns.before;
        const int64_t places = std::min(bundle_.part - ahead, divide_up(columns.size - from, columns.stride));
        if (places <= 0) continue;
        pack_row(image + (first + y) * rows.step + from * columns.step, channels, places, columns.stride * columns.step,
                 planes + y * bundle_.row + phase * bundle_.part + ahead);
      }
    }
  }

  void pack_row(const float* image, int64_t channels, int64_t places, int64_t step, float* to) const {
    if (image_[1] == 1) {
      transpose(image, places, channels, step, to, bundle_.plane);
      return;
    }
    for (int64_t channel = 0; channel < channels; channel++, image += image_[1], to += bundle_.plane) {
      if (step == 1) {
        std::memcpy(to, image, static_cast<size_t>(places) * sizeof(float));
      } else {
        for (int64_t i = 0; i < places; i++) to[i] = image[i * step];
      }
    }
  }

  void unpack(const float* made, int64_t channels, int64_t row, float* result) const {
    const Taps &rows = window_.rows, &columns = window_.columns;
    const int64_t end = std::min(bundle_.strip, rows.made - row), segment = made_ / bundle_.strip;
    for (int64_t y = 0; y < end; y++) {
      const float* const from = made + y * segment;
      float* const to = result + (row + y) * rows.result_step;
      if (result_[1] == 1) {
        transpose(from, channels, columns.made, made_, to, columns.result_step);
      } else {
        for (int64_t channel = 0; channel < channels; channel++) {
          std::memcpy(to + channel * result_[1], from + channel * made_, static_cast<size_t>(columns.made) * sizeof(float));
        }
      }
    }
  }

  ChannelWindow window_;
  Bundle bundle_;
  std::vector<int64_t> image_, result_;  // strides
  bool added_;
  int64_t batch_, made_, bundles_, strips_, numbers_;
  int threads_;
  std::vector<int64_t> taps_, places_;
};

// Channels or places lie side by side: what is moved goes by rows of these.
bool is_plain(const Strided& tensor) { return tensor.strides[1] == 1 || tensor.strides.back() == 1; }

Bundle bundle_of(const ChannelWindow& window, int64_t groups, int64_t inputs, int64_t outputs) {
  const Taps &rows = window.rows, &columns = window.columns;
  Bundle sizes{};
  sizes.groups = groups;
  sizes.inputs = inputs;
  sizes.outputs = outputs;
  sizes.count = std::clamp<int64_t>(kTogether / std::max(inputs, outputs), 1, groups);
  sizes.segments = divide_up(columns.made, plane_lanes());
  sizes.part = sizes.segments * plane_lanes() + (columns.taps - 1) * columns.hole / columns.stride + 1;
  sizes.row = columns.stride * sizes.part;
  const int64_t reach = (rows.taps - 1) * rows.hole + 1;
  const int64_t read = kStrip / (sizes.count * inputs * sizes.row);
  // At least as many rows as are read once more for the next strip.
  sizes.strip = std::clamp<int64_t>((read - reach) / rows.stride + 1, std::min(reach, rows.made), rows.made);
  sizes.plane = ((sizes.strip - 1) * rows.stride + reach) * sizes.row;
  return sizes;
}

}  // namespace

bool prefers_planes(const Operation& convolution, const std::vector<int64_t>& image, const std::vector<int64_t>& weights) {
  if (image.size() != 3 && image.size() != 4) return false;
  const int64_t groups = find_attribute(convolution, dnnl_graph_op_attr_groups)->integers[0];
  const int64_t inputs = weights[1], outputs = weights[0] / groups;
  const int64_t least = has_wide_kernels() ? kBlock : kOfAKernel;
  const auto has_kernel = [&](int64_t channels) { return channels >= least && channels % kBlock == 0; };
  return groups > 1 && (inputs > 1 || outputs > 1) && !(has_kernel(inputs) && has_kernel(outputs));
}

std::unique_ptr<OwnOperator> make_grouped(const Operation& convolution, const std::vector<Strided>& inputs, const Strided& result) {
  const Strided &image = inputs[0], &kernel = inputs[1];
  const bool added = inputs.size() > 2;
  if (!is_plain(image) || !is_plain(result) || !is_row_major(kernel)) return nullptr;
  if (added && inputs[2].strides.back() != 1) return nullptr;
  const ChannelWindow window = window_of(convolution, inputs, result);
  const int64_t groups = find_attribute(convolution, dnnl_graph_op_attr_groups)->integers[0];
  const Bundle sizes = bundle_of(window, groups, kernel.dims[1], kernel.dims[0] / groups);
  return std::make_unique<Grouped>(window, sizes, image, result, added);
}

}  // namespace edgex

#include "convolution/depthwise.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "convolution/rows.h"
#include "library/onednn.h"
#include "oneapi/dnnl/dnnl_graph_types.h"
#include "plan/operators.h"

namespace edgex {

namespace {

// Fewer multiplications are over before other threads have begun.
constexpr int64_t kWorkForThreads = 128 << 10;
constexpr int64_t kManyTaps = 81;

class Depthwise final : public OwnOperator {
 public:
  Depthwise(const ChannelWindow& window, int64_t batch, int64_t channels, int64_t image_step, int64_t result_step,
            std::shared_ptr<const Panels> panels, bool added)
      : window_(window), batch_(batch), channels_(channels), image_step_(image_step), result_step_(result_step),
        panels_(std::move(panels)), added_(added), panel_count_((channels + kPanel - 1) / kPanel) {
    tasks_ = batch_ * window_.rows.made * panel_count_;
    const int64_t work = batch_ * channels_ * window_.rows.made * window_.columns.made * window_.rows.taps * window_.columns.taps;
    threaded_ = work >= kWorkForThreads && omp_get_max_threads() > 1;
  }

  bool has_packed() const override { return true; }

  void run(std::byte* const* tensors, std::byte*) const override {
    const auto* const image = reinterpret_cast<const float*>(tensors[0]);
    const auto* const added = added_ ? reinterpret_cast<const float*>(tensors[2]) : nullptr;
    auto* const result = reinterpret_cast<float*>(tensors[added_ ? 3 : 2]);
#pragma omp parallel for if (threaded_)
    for (int64_t task = 0; task < tasks_; task++) {
      // Rows of one image's channels follow each other: they read the same.
      const int64_t row = task % window_.rows.made, panel = task / window_.rows.made % panel_count_;
      const int64_t number = task / window_.rows.made / panel_count_, first = panel * kPanel;
      convolve_row(window_, row, std::min(kPanel, channels_ - first), image + number * image_step_ + first,
                   panels_->numbers() + first * window_.rows.taps * window_.columns.taps,
                   added == nullptr ? nullptr : added + first, result + number * result_step_ + first);
    }
  }

 private:
  ChannelWindow window_;
  int64_t batch_, channels_, image_step_, result_step_;
  std::shared_ptr<const Panels> panels_;
  bool added_;
  int64_t panel_count_, tasks_;
  bool threaded_;
};

const std::vector<int64_t>& integers_of(const Operation& operation, int code) {
  return find_attribute(operation, code)->integers;
}

}  // namespace

bool prefers_channels(const Operation& convolution, const std::vector<int64_t>& image, const std::vector<int64_t>& weights) {
  if (image.size() != 3 && image.size() != 4) return false;
  const int64_t groups = integers_of(convolution, dnnl_graph_op_attr_groups)[0];
  if (groups == 1 || image[1] != groups || weights[0] != groups || weights[1] != 1) return false;
  const std::vector<int64_t>& holes = integers_of(convolution, dnnl_graph_op_attr_dilations);
  const bool has_holes = std::any_of(holes.begin(), holes.end(), [](int64_t hole) { return hole > 1; });
  return image.size() == 3 || has_holes || (!has_wide_kernels() && weights[2] * weights[3] >= kManyTaps);
}

std::unique_ptr<OwnOperator> make_depthwise(const Operation& convolution, const std::vector<Strided>& inputs,
                                            const float* weights, const Strided& result, PanelStore& store) {
  const Strided &image = inputs[0], &kernel = inputs[1];
  if (image.strides[1] != 1 || result.strides[1] != 1) return nullptr;
  if (inputs.size() > 2 && inputs[2].strides.back() != 1) return nullptr;
  const ChannelWindow window = window_of(convolution, inputs, result);
  const size_t last = kernel.dims.size() - 1;
  const int64_t tap_step = kernel.strides[last];
  const bool even = last < 3 || kernel.dims[2] == 1 || kernel.strides[2] == tap_step * kernel.dims[last];
  if (!even) return nullptr;
  auto panels = store.find(weights, window.rows.taps * window.columns.taps, kernel.dims[0], tap_step, kernel.strides[0]);
  return std::make_unique<Depthwise>(window, image.dims[0], image.dims[1], image.strides[0], result.strides[0],
                                     std::move(panels), inputs.size() > 2);
}

}  // namespace edgex

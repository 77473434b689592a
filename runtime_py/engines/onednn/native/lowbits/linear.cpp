#include "lowbits/linear.h"

#include <omp.h>

#include <algorithm>
#include <array>

#include "library/onednn.h"
#include "lowbits/products.h"
#include "plan/plan.h"

namespace edgex {

namespace {

constexpr size_t kAlignment = 64;
// Fewer bytes of weights, or multiplications, are over before other threads have begun; a task has at least as many bytes.
constexpr int64_t kBytesForThreads = 32 << 10, kWorkForThreads = 256 << 10;
// Tasks, of which a thread that was held up does fewer.
constexpr int64_t kMostTasks = 16;
// Each has four inputs at least, and a result.
constexpr size_t kMostLayers = kMostOwnTensors / 5;

int64_t round_up(int64_t bytes) { return (bytes + static_cast<int64_t>(kAlignment) - 1) / static_cast<int64_t>(kAlignment) * static_cast<int64_t>(kAlignment); }

// Where the rows along the last dimension begin.
std::vector<int64_t> row_starts(const Strided& tensor) {
  std::vector<int64_t> starts{0};
  for (size_t dim = 0; dim + 1 < tensor.dims.size(); dim++) {
    std::vector<int64_t> next;
    for (int64_t start : starts) {
      for (int64_t i = 0; i < tensor.dims[dim]; i++) next.push_back(start + i * tensor.strides[dim]);
    }
    starts = std::move(next);
  }
  return starts;
}

// What is a layer's own.
class Layer {
 public:
  // `first`: its first input among the operator's tensors; `result`: its result.
  Layer(const LowBitLayer& layer, size_t first, size_t result)
      : first_(first), result_(result), biased_(layer.inputs.size() == 5), to_(row_starts(layer.result)) {
    outputs_ = layer.result.dims.back();
    output_step_ = outputs_ == 1 ? 1 : layer.result.strides.back();
    blocks_ = layer.inputs[1].dims[0];
  }

  int64_t blocks() const { return blocks_; }
  int64_t outputs() const { return outputs_; }
  // Numbers whose places lie apart, and are computed elsewhere first.
  int64_t apart() const { return output_step_ == 1 ? 0 : static_cast<int64_t>(to_.size()) * outputs_; }

  // `product` has what layers share; gives it what this one has. `results`: room for one of each row.
  void describe(std::byte* const* tensors, float** results, float* apart, LowBitProduct& product) const {
    float* const to = numbers(tensors, result_);
    for (size_t row = 0; row < to_.size(); row++) {
      results[row] = output_step_ == 1 ? to + to_[row] : apart + static_cast<int64_t>(row) * outputs_;
    }
    product.weights = reinterpret_cast<const uint8_t*>(tensors[first_ + 1]);
    product.scales = numbers(tensors, first_ + 2);
    product.sums = numbers(tensors, first_ + 3);
    product.bias = biased_ ? numbers(tensors, first_ + 4) : nullptr;
    product.outputs = outputs_;
    product.results = results;
  }

  void spread(std::byte* const* tensors, const float* apart) const {
    if (output_step_ == 1) return;
    float* const to = numbers(tensors, result_);
    for (int64_t start : to_) {
      for (int64_t i = 0; i < outputs_; i++) to[start + i * output_step_] = *apart++;
    }
  }

 private:
  static float* numbers(std::byte* const* tensors, size_t i) { return reinterpret_cast<float*>(tensors[i]); }

  size_t first_, result_;
  bool biased_;
  std::vector<int64_t> to_;
  int64_t outputs_, output_step_, blocks_;
};

class LowBitLinears final : public OwnOperator {
 public:
  LowBitLinears(int kind, const std::vector<LowBitLayer>& layers)
      : four_(kind == kLinear4Bit), from_(row_starts(layers[0].inputs[0])) {
    const Strided &x = layers[0].inputs[0], &weights = layers[0].inputs[1];
    inputs_ = x.dims.back();
    input_step_ = inputs_ == 1 ? 1 : x.strides.back();
    groups_ = weights.dims[1];
    group_ = weights.dims[2] / (four_ ? kBlock / 2 : kBlock);
    depth_ = groups_ * group_;
    const auto rows = static_cast<int64_t>(from_.size());
    size_t first = 0, result = 0;
    for (const LowBitLayer& layer : layers) result += layer.inputs.size();
    int64_t outputs = 0, apart = 0;
    for (const LowBitLayer& layer : layers) {
      layers_.emplace_back(layer, first, result++);
      first += layer.inputs.size();
      blocks_ += layers_.back().blocks();
      outputs += layers_.back().outputs();
      apart += layers_.back().apart();
    }
    const int64_t bytes = blocks_ * groups_ * weights.dims[2];
    const bool threaded = bytes >= kBytesForThreads && rows * outputs * depth_ >= kWorkForThreads;
    tasks_ = threaded ? std::clamp<int64_t>(bytes / kBytesForThreads, 1, std::min(kMostTasks, blocks_)) : 1;
    int64_t end = 0;
    const auto next = [&](int64_t size) {
      const int64_t start = end;
      end += round_up(size);
      return static_cast<size_t>(start);
    };
    const auto count = static_cast<int64_t>(layers.size());
    rows_at_ = next(rows * depth_);
    encodings_at_ = next(rows * static_cast<int64_t>(sizeof(RowEncoding)));
    sums_at_ = next(four_ ? rows * groups_ * static_cast<int64_t>(sizeof(int32_t)) : 0);
    results_at_ = next(count * rows * static_cast<int64_t>(sizeof(float*)));
    numbers_at_ = next(apart * static_cast<int64_t>(sizeof(float)));
    bytes_ = static_cast<size_t>(end);
  }

  size_t scratch_bytes() const override { return bytes_; }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    const auto* const x = reinterpret_cast<const float*>(tensors[0]);
    auto* const rows = reinterpret_cast<int8_t*>(scratch + rows_at_);
    auto* const encodings = reinterpret_cast<RowEncoding*>(scratch + encodings_at_);
    auto* const sums = reinterpret_cast<int32_t*>(scratch + sums_at_);
    auto* results = reinterpret_cast<float**>(scratch + results_at_);
    auto* const apart = reinterpret_cast<float*>(scratch + numbers_at_);
    const auto count = static_cast<int64_t>(from_.size());
    std::array<LowBitProduct, kMostLayers> products;
    float* room = apart;
    for (size_t i = 0; i < layers_.size(); i++, results += count) {
      products[i] = {nullptr, nullptr, nullptr, nullptr, groups_, group_, 0, rows, encodings, sums, nullptr, count};
      layers_[i].describe(tensors, results, room, products[i]);
      room += layers_[i].apart();
    }
    const auto prepare = [&](int64_t row) {
      int8_t* const quantized = rows + row * depth_;
      RowEncoding& encoding = encodings[row];
      encoding = quantize_row(x + from_[static_cast<size_t>(row)], input_step_, inputs_, depth_, quantized);
      if (four_) return sum_groups(quantized, groups_, group_, sums + row * groups_);
      make_unsigned(quantized, depth_);
      encoding.zero += 128;
    };
    // Its share of the blocks of all layers, one layer's behind the other's.
    const auto multiply = [&](int64_t task) {
      int64_t first = blocks_ * task / tasks_, end = blocks_ * (task + 1) / tasks_;
      for (size_t i = 0; i < layers_.size() && end > 0; i++) {
        const int64_t blocks = layers_[i].blocks(), last = std::min(end, blocks);
        if (first < last) (four_ ? multiply_4bit : multiply_8bit)(products[i], first, last);
        first = std::max<int64_t>(first - blocks, 0);
        end -= blocks;
      }
    };
    if (count == 1) prepare(0);
    if (tasks_ == 1) {
      for (int64_t row = count == 1 ? 1 : 0; row < count; row++) prepare(row);
      multiply(0);
    } else {
#pragma omp parallel
      {
        if (count > 1) {
#pragma omp for
          for (int64_t row = 0; row < count; row++) prepare(row);
#pragma omp for schedule(dynamic) nowait
          for (int64_t task = 0; task < tasks_; task++) multiply(task);
        } else {
          // Over in microseconds: threads that ask each other for tasks would take a fifth more.
#pragma omp for schedule(static) nowait
          for (int64_t task = 0; task < tasks_; task++) multiply(task);
        }
      }
    }
    room = apart;
    for (const Layer& layer : layers_) {
      layer.spread(tensors, room);
      room += layer.apart();
    }
  }

 private:
  bool four_;
  std::vector<int64_t> from_;
  std::vector<Layer> layers_;
  int64_t inputs_, input_step_, groups_, group_, depth_, tasks_, blocks_ = 0;
  size_t rows_at_, encodings_at_, sums_at_, results_at_, numbers_at_, bytes_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_low_bit_linears(int kind, const std::vector<LowBitLayer>& layers) {
  return std::make_unique<LowBitLinears>(kind, layers);
}

}  // namespace edgex

#include "lowbits/linear.h"

#include <omp.h>

#include <algorithm>

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

class LowBitLinear final : public OwnOperator {
 public:
  LowBitLinear(int kind, const std::vector<Strided>& inputs, const Strided& result)
      : four_(kind == kLinear4Bit), biased_(inputs.size() == 5), from_(row_starts(inputs[0])), to_(row_starts(result)) {
    inputs_ = inputs[0].dims.back();
    input_step_ = inputs_ == 1 ? 1 : inputs[0].strides.back();
    outputs_ = result.dims.back();
    output_step_ = outputs_ == 1 ? 1 : result.strides.back();
    blocks_ = inputs[1].dims[0];
    groups_ = inputs[1].dims[1];
    group_ = inputs[1].dims[2] / (four_ ? kBlock / 2 : kBlock);
    depth_ = groups_ * group_;
    const auto rows = static_cast<int64_t>(from_.size());
    const int64_t bytes = blocks_ * groups_ * inputs[1].dims[2];
    threaded_ = bytes >= kBytesForThreads && rows * outputs_ * depth_ >= kWorkForThreads;
    tasks_ = threaded_ ? std::clamp<int64_t>(bytes / kBytesForThreads, 1, std::min(kMostTasks, blocks_)) : 1;
    int64_t end = 0;
    const auto next = [&](int64_t size) {
      const int64_t start = end;
      end += round_up(size);
      return static_cast<size_t>(start);
    };
    rows_at_ = next(rows * depth_);
    encodings_at_ = next(rows * static_cast<int64_t>(sizeof(RowEncoding)));
    sums_at_ = next(four_ ? rows * groups_ * static_cast<int64_t>(sizeof(int32_t)) : 0);
    results_at_ = next(rows * static_cast<int64_t>(sizeof(float*)));
    numbers_at_ = next(output_step_ == 1 ? 0 : rows * outputs_ * static_cast<int64_t>(sizeof(float)));
    bytes_ = static_cast<size_t>(end);
  }

  size_t scratch_bytes() const override { return bytes_; }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    const auto numbers = [&](size_t i) { return reinterpret_cast<float*>(tensors[i]); };
    auto* const rows = reinterpret_cast<int8_t*>(scratch + rows_at_);
    auto* const encodings = reinterpret_cast<RowEncoding*>(scratch + encodings_at_);
    auto* const sums = reinterpret_cast<int32_t*>(scratch + sums_at_);
    auto* const results = reinterpret_cast<float**>(scratch + results_at_);
    auto* const apart = reinterpret_cast<float*>(scratch + numbers_at_);
    float* const to = numbers(biased_ ? 5 : 4);
    const auto count = static_cast<int64_t>(from_.size());
    for (int64_t row = 0; row < count; row++) {
      results[row] = output_step_ == 1 ? to + to_[static_cast<size_t>(row)] : apart + row * outputs_;
    }
    const LowBitProduct product{reinterpret_cast<const uint8_t*>(tensors[1]), numbers(2), numbers(3),
                                biased_ ? numbers(4) : nullptr, groups_, group_, outputs_, rows, encodings, sums, results,
                                count};
    const auto prepare = [&](int64_t row) {
      int8_t* const quantized = rows + row * depth_;
      RowEncoding& encoding = encodings[row];
      encoding = quantize_row(numbers(0) + from_[static_cast<size_t>(row)], input_step_, inputs_, depth_, quantized);
      if (four_) return sum_groups(quantized, groups_, group_, sums + row * groups_);
      make_unsigned(quantized, depth_);
      encoding.zero += 128;
    };
    const auto multiply = [&](int64_t task) {
      const int64_t first = blocks_ * task / tasks_, end = blocks_ * (task + 1) / tasks_;
      if (four_) return multiply_4bit(product, first, end);
      multiply_8bit(product, first, end);
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
        }
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tasks_; task++) multiply(task);
      }
    }
    if (output_step_ == 1) return;
    for (int64_t row = 0; row < count; row++) {
      for (int64_t i = 0; i < outputs_; i++) to[to_[static_cast<size_t>(row)] + i * output_step_] = results[row][i];
    }
  }

 private:
  bool four_, biased_, threaded_;
  std::vector<int64_t> from_, to_;
  int64_t inputs_, input_step_, outputs_, output_step_, blocks_, groups_, group_, depth_, tasks_;
  size_t rows_at_, encodings_at_, sums_at_, results_at_, numbers_at_, bytes_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_low_bit_linear(int kind, const std::vector<Strided>& inputs, const Strided& result) {
  return std::make_unique<LowBitLinear>(kind, inputs, result);
}

}  // namespace edgex

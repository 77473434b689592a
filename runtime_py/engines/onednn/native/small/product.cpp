#include "small/product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "attention/product.h"
#include "linear/stacks.h"
#include "operators/numbers.h"
#include "small/layout.h"

namespace edgex {

namespace {

// So many rows are multiplied with a matrix as it lies: to bring it into panels would cost as much.
constexpr int64_t kFewRows = 2;

EDGEX_FOR_EACH_PROCESSOR void add_to_rows(const float* from, int64_t from_step, const float* added, int64_t rows, int64_t columns,
                                          float* to, int64_t to_step) {
  for (int64_t row = 0; row < rows; row++, from += from_step, to += to_step) {
    if (added == nullptr) {
      std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
    } else {
#pragma omp simd
      for (int64_t i = 0; i < columns; i++) to[i] = from[i] + added[i];
    }
  }
}

class SmallProduct final : public OwnOperator {
 public:
  SmallProduct(const Strided& left, const Strided& right, bool added, const float* weights, const Strided& result)
      : left_(left, batch_of(result)), right_(right, batch_of(result)), result_(result, batch_of(result)), added_(added) {
    require_fit(left_.columns == right_.rows && left_.rows == result_.rows && right_.columns == result_.columns);
    const bool shared = std::all_of(right_.starts.begin(), right_.starts.end(), [](int64_t start) { return start == 0; });
    if (left_.rows == 1) {
      step_by_stack(left_);
      step_by_stack(result_);
    }
    if (shared && follow(left_) && follow(result_)) {
      left_.rows = result_.rows *= static_cast<int64_t>(result_.starts.size());
      for (Matrices* stack : {&left_, &right_, &result_}) stack->starts.resize(1);
    }
    const int64_t width = pad_to_lanes(right_.columns);
    if (weights != nullptr && shared) {
      panels_.resize(static_cast<size_t>(right_.rows * width));
      pack_panels(weights, right_.rows, right_.columns, right_.row_step, right_.column_step, panels_.data());
    }
    // A step of 0 stands for a single row or column.
    as_it_lies_ = panels_.empty() && left_.rows <= kFewRows && (right_.columns == 1 || right_.column_step == 1);
    direct_ = width == right_.columns || as_it_lies_;
    dense_left_ = left_.columns == 1 || left_.column_step == 1;
    left_at_ = panels_.empty() && !as_it_lies_ ? round_to_lanes(right_.rows * width) : 0;
    result_at_ = left_at_ + (dense_left_ ? 0 : round_to_lanes(left_.rows * left_.columns));
    numbers_ = result_at_ + (direct_ ? 0 : left_.rows * width);
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(numbers_) * sizeof(float); }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    const auto numbers = [&](size_t i) { return reinterpret_cast<float*>(tensors[i]); };
    float* const memory = reinterpret_cast<float*>(scratch);
    const float* added = added_ ? numbers(2) : nullptr;
    for (size_t i = 0; i < result_.starts.size(); i++) {
      multiply(numbers(0) + left_.starts[i], numbers(1) + right_.starts[i], added, numbers(added_ ? 3 : 2) + result_.starts[i], memory);
    }
  }

 private:
  static int64_t round_to_lanes(int64_t numbers) { return pad_to_lanes(numbers); }

  void multiply(const float* left, const float* right, const float* added, float* result, float* memory) const {
    int64_t left_step = left_.row_step;
    if (!dense_left_) {
      float* const rows = memory + left_at_;
      for (int64_t i = 0; i < left_.rows; i++) {
        for (int64_t k = 0; k < left_.columns; k++) rows[i * left_.columns + k] = left[i * left_.row_step + k * left_.column_step];
      }
      left = rows;
      left_step = left_.columns;
    }
    float* const to = direct_ ? result : memory + result_at_;
    const int64_t to_step = direct_ ? result_.row_step : pad_to_lanes(right_.columns);
    if (as_it_lies_) {
      for (int64_t i = 0; i < left_.rows; i++) {
        mix_rows(left + i * left_step, right, right_.rows, right_.columns, right_.row_step, to + i * to_step);
      }
    } else {
      if (panels_.empty()) pack_panels(right, right_.rows, right_.columns, right_.row_step, right_.column_step, memory);
      multiply_panels(left, left_step, panels_.empty() ? memory : panels_.data(), left_.rows, right_.rows, right_.columns, to, to_step);
    }
    if (direct_ && added == nullptr) return;
    add_to_rows(to, to_step, added, left_.rows, right_.columns, result, result_.row_step);
  }

  Matrices left_, right_, result_;
  bool added_, as_it_lies_, direct_, dense_left_;
  std::vector<float> panels_;  // of weights that never change
  int64_t left_at_, result_at_, numbers_;
};

}  // namespace

int64_t count_products(const std::vector<Strided>& inputs, const Strided& result) {
  return count_of(result.dims) * inputs[0].dims.back();
}

std::unique_ptr<OwnOperator> make_product(const std::vector<Strided>& inputs, bool transposed, const float* weights,
                                          const Strided& result) {
  if (result.dims.back() > 1 && result.strides.back() != 1) return nullptr;
  if (inputs.size() > 2 && inputs[2].dims.back() > 1 && inputs[2].strides.back() != 1) return nullptr;
  return std::make_unique<SmallProduct>(inputs[0], as_depth_by_columns(inputs[1], transposed), inputs.size() > 2, weights, result);
}

}  // namespace edgex

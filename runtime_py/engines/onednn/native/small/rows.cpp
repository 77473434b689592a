#include "small/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "oneapi/dnnl/dnnl_graph_types.h"
#include "operators/loops.h"
#include "operators/numbers.h"
#include "plan/operators.h"
#include "small/layout.h"

namespace edgex {

namespace {

constexpr int64_t kMostChunks = 64;

EDGEX_INLINE float sum_row(const float* row, int64_t size) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; i++) sum += row[i];
  return sum;
}

struct NormRows {
  const float *from, *scale, *shift;  // the last two are null together
  float* to;
  int64_t rows, size;
  float epsilon;
};

EDGEX_FOR_EACH_PROCESSOR void normalize_rows(const NormRows& n) {
  const auto size = static_cast<float>(n.size);
  for (int64_t row = 0; row < n.rows; row++) {
    const float* from = n.from + row * n.size;
    float* to = n.to + row * n.size;
    const float mean = sum_row(from, n.size) / size;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n.size; i++) squares += (from[i] - mean) * (from[i] - mean);
    const float factor = 1 / std::sqrt(squares / size + n.epsilon);
    if (n.scale == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < n.size; i++) to[i] = (from[i] - mean) * factor;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n.size; i++) to[i] = (from[i] - mean) * factor * n.scale[i] + n.shift[i];
    }
  }
}

EDGEX_FOR_EACH_PROCESSOR void sum_rows(const float* from, int64_t rows, int64_t size, float divisor, float* to) {
  for (int64_t row = 0; row < rows; row++) to[row] = sum_row(from + row * size, size) / divisor;
}

class LayerNorm final : public OwnOperator {
 public:
  LayerNorm(int64_t rows, int64_t size, float epsilon, bool scaled) : rows_(rows), size_(size), epsilon_(epsilon), scaled_(scaled) {}

  void run(std::byte* const* tensors, std::byte*) const override {
    const auto numbers = [&](size_t i) { return reinterpret_cast<float*>(tensors[i]); };
    normalize_rows({numbers(0), scaled_ ? numbers(1) : nullptr, scaled_ ? numbers(2) : nullptr, numbers(scaled_ ? 3 : 1), rows_,
                    size_, epsilon_});
  }

 private:
  int64_t rows_, size_;
  float epsilon_;
  bool scaled_;
};

class Sum final : public OwnOperator {
 public:
  Sum(int64_t rows, int64_t size, float divisor) : rows_(rows), size_(size), divisor_(divisor) {}

  void run(std::byte* const* tensors, std::byte*) const override {
    const auto* const from = reinterpret_cast<const float*>(tensors[0]);
    auto* const to = reinterpret_cast<float*>(tensors[1]);
    const int64_t chunks = rows_ * size_ < kElementsForThreads ? 1 : std::min<int64_t>(rows_, kMostChunks);
    if (chunks == 1) return sum_rows(from, rows_, size_, divisor_, to);
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const int64_t first = rows_ * chunk / chunks, end = rows_ * (chunk + 1) / chunks;
      sum_rows(from + first * size_, end - first, size_, divisor_, to + first);
    }
  }

 private:
  int64_t rows_, size_;
  float divisor_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_layer_norm(const Operation& operation, const std::vector<Strided>& inputs, const Strided& result) {
  const int64_t size = result.dims.back();
  if (size == 1 || result.strides.back() != 1 || !lie_alike(inputs[0], result)) return nullptr;
  for (size_t i = 1; i < inputs.size(); i++) {
    if (inputs[i].strides.back() != 1) return nullptr;
  }
  const float epsilon = find_attribute(operation, dnnl_graph_op_attr_epsilon)->floats[0];
  return std::make_unique<LayerNorm>(count_of(result.dims) / size, size, epsilon, inputs.size() > 1);
}

std::unique_ptr<OwnOperator> make_reduction(const Operation& operation, const Strided& from, const Strided& result) {
  const auto& axes = find_attribute(operation, dnnl_graph_op_attr_axes)->integers;
  const auto kept = static_cast<int64_t>(from.dims.size() - axes.size());
  int64_t size = 1;
  for (int64_t axis : axes) {
    if (axis < kept) return nullptr;
    size *= from.dims[static_cast<size_t>(axis)];
  }
  if (!is_row_major(from) || !is_row_major(result)) return nullptr;
  const bool mean = operation.kind == dnnl_graph_op_reduce_mean;
  return std::make_unique<Sum>(count_of(result.dims), size, mean ? static_cast<float>(size) : 1.0f);
}

}  // namespace edgex

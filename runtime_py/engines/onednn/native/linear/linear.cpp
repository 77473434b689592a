#include "linear/linear.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "attention/product.h"
#include "library/onednn.h"
#include "linear/stacks.h"
#include "operators/numbers.h"

namespace edgex {

namespace {

// Fewer multiplications are over before other threads have begun.
constexpr int64_t kWorkForThreads = 256 << 10;
// Tasks for a thread, of which one that was held up does fewer.
constexpr int64_t kTasksOfThread = 4;
// Rows of a task: a multiple of what a product computes at once, and enough that its panel is read from the nearest cache.
constexpr int64_t kFewestRows = 24;
constexpr int64_t kCachedBytes = 4 << 20;

EDGEX_FOR_EACH_PROCESSOR void add_to_each(const float* added, int64_t rows, int64_t columns, float* to, int64_t step) {
  for (int64_t row = 0; row < rows; row++, to += step) {
#pragma omp simd
    for (int64_t i = 0; i < columns; i++) to[i] += added[i];
  }
}

class Linear final : public OwnOperator {
 public:
  Linear(const Matrices& left, const Matrices& result, std::shared_ptr<const Panels> panels, bool added)
      : panels_(std::move(panels)), rows_(left.rows), depth_(left.columns), columns_(result.columns),
        left_step_(left.row_step), result_step_(result.row_step), added_(added) {
    const int64_t panel_count = (columns_ + kPanel - 1) / kPanel;
    if (rows_ * depth_ * columns_ >= kWorkForThreads) {
      const int64_t wanted = kTasksOfThread * omp_get_max_threads();
      const int64_t parts = std::clamp<int64_t>((wanted + panel_count - 1) / panel_count, 1, std::max<int64_t>(rows_ / kFewestRows, 1));
      task_rows_ = ((rows_ + parts - 1) / parts + kFewestRows - 1) / kFewestRows * kFewestRows;
      threaded_ = omp_get_max_threads() > 1;
    } else {
      task_rows_ = rows_;
    }
    row_tasks_ = (rows_ + task_rows_ - 1) / task_rows_;
    tasks_ = panel_count * row_tasks_;
  }

  bool has_packed() const override { return true; }

  // Of the last panel's, which is as wide as whole registers are.
  size_t scratch_bytes() const override {
    return columns_ % kLanes == 0 ? 0 : static_cast<size_t>(rows_ * last_width()) * sizeof(float);
  }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    const auto* const x = reinterpret_cast<const float*>(tensors[0]);
    const auto* const added = added_ ? reinterpret_cast<const float*>(tensors[2]) : nullptr;
    auto* const to = reinterpret_cast<float*>(tensors[added_ ? 3 : 2]);
    auto* const spare = reinterpret_cast<float*>(scratch);
#pragma omp parallel for schedule(dynamic) if (threaded_)
    for (int64_t task = 0; task < tasks_; task++) multiply(task, x, added, to, spare);
  }

 private:
  int64_t last_first() const { return (columns_ - 1) / kPanel * kPanel; }
  int64_t last_width() const { return pad_to_lanes(columns_ - last_first()); }

  // Rows of one panel's columns; tasks of one panel follow each other.
  void multiply(int64_t task, const float* x, const float* added, float* to, float* spare) const {
    const int64_t first = task / row_tasks_ * kPanel, row = task % row_tasks_ * task_rows_;
    const int64_t known = std::min(kPanel, columns_ - first), rows = std::min(task_rows_, rows_ - row);
    const bool direct = known % kLanes == 0;
    float* const result = to + row * result_step_ + first;
    float* const made = direct ? result : spare + row * last_width();
    const int64_t step = direct ? result_step_ : last_width();
    multiply_panels(x + row * left_step_, left_step_, panels_->numbers() + first * depth_, rows, depth_, known, made, step);
    for (int64_t i = 0; i < rows && !direct; i++) std::copy_n(made + i * step, known, result + i * result_step_);
    if (added != nullptr) add_to_each(added + first, rows, known, result, result_step_);
  }

  std::shared_ptr<const Panels> panels_;
  int64_t rows_, depth_, columns_, left_step_, result_step_;
  bool added_, threaded_ = false;
  int64_t task_rows_, row_tasks_, tasks_;
};

}  // namespace

bool prefers_panels(int64_t rows, int64_t depth, int64_t columns) {
  return !has_wide_kernels() && (rows > 1 || depth * columns * static_cast<int64_t>(sizeof(float)) <= kCachedBytes);
}

std::unique_ptr<OwnOperator> make_linear(const std::vector<Strided>& inputs, bool transposed, const float* weights,
                                         const Strided& result, PanelStore& store) {
  const std::vector<int64_t> batch = batch_of(result);
  Matrices x(inputs[0], batch), to(result, batch);
  const Matrices right(as_depth_by_columns(inputs[1], transposed), batch);
  if (x.rows == 1) {
    step_by_stack(x);
    step_by_stack(to);
  }
  const bool shared = std::all_of(right.starts.begin(), right.starts.end(), [](int64_t start) { return start == 0; });
  if (!shared || !follow(x) || !follow(to)) return nullptr;
  if ((x.columns > 1 && x.column_step != 1) || (to.columns > 1 && to.column_step != 1)) return nullptr;
  if (inputs.size() > 2 && (inputs[2].dims.back() != to.columns || (to.columns > 1 && inputs[2].strides.back() != 1))) return nullptr;
  x.rows = to.rows *= static_cast<int64_t>(to.starts.size());
  if (!prefers_panels(to.rows, x.columns, to.columns)) return nullptr;
  auto panels = store.find(weights, right.rows, right.columns, right.row_step, right.column_step);
  return std::make_unique<Linear>(x, to, std::move(panels), inputs.size() > 2);
}

}  // namespace edgex

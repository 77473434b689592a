#include "plan/measure.h"

#include <algorithm>
#include <utility>

#include "plan/operators.h"

namespace edgex {

namespace {

// A size is an int32, as ExecuTorch's are; and with 4 TB of numbers in each of kMostValues values, bytes still add up.
constexpr int64_t kMostSize = INT32_MAX, kMostElements = int64_t{1} << 40;

int64_t number(const Plan& plan, Size size, const std::vector<int64_t>& symbols) {
  int64_t result;
  require_sound(evaluate(plan, size, symbols, result), "the input's sizes lead to impossible ones");
  return result;
}

int64_t count_elements(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  return count;
}

// Elements from the first to the last one touched, plus one.
int64_t extent(const Shape& shape) {
  int64_t extent = 1;
  for (size_t i = 0; i < shape.dims.size(); i++) extent += (shape.dims[i] - 1) * shape.strides[i];
  return extent;
}

Shape measure_value(const Plan& plan, const Value& value, const std::vector<int64_t>& symbols) {
  Shape shape;
  int64_t elements = 1, end = 1;
  for (size_t i = 0; i < value.dims.size(); i++) {
    const int64_t size = number(plan, value.dims[i], symbols), stride = number(plan, value.strides[i], symbols);
    int64_t step;
    const bool possible = size >= 1 && size <= kMostSize && stride >= 0 && stride <= kMostElements &&
                          !__builtin_mul_overflow(elements, size, &elements) && elements <= kMostElements &&
                          !__builtin_mul_overflow(size - 1, stride, &step) && !__builtin_add_overflow(end, step, &end) &&
                          end <= kMostElements;
    require_sound(possible, "a tensor of impossible size");
    shape.dims.push_back(size);
    shape.strides.push_back(stride);
  }
  shape.offset = number(plan, value.offset, symbols);
  require_sound(shape.offset >= 0 && shape.offset <= kMostElements, "a tensor of impossible size");
  return shape;
}

// A permuted view keeps odd steps along dimensions of size 1, which no element uses. oneDNN 3.2 takes them for another
// layout than a dense one: its binary operators then give wrong numbers, or run in a reference kernel. The first dimension
// gets the step behind all others, so that a single image with its channels innermost looks like one of several.
void smooth(const std::vector<int64_t>& dims, std::vector<int64_t>& strides) {
  for (size_t i = dims.size() - 1; i-- > 0;) {
    if (dims[i] != 1 || strides[i] == 0) continue;
    strides[i] = dims[i + 1] * std::max<int64_t>(strides[i + 1], 1);
    if (i > 0) continue;
    for (size_t j = 1; j < dims.size(); j++) strides[0] = std::max(strides[0], dims[j] * strides[j]);
  }
}

void check_operations(const Plan& plan, const std::vector<Shape>& shapes) {
  for (const Operation& operation : plan.operations) {
    std::vector<const Dims*> inputs;
    for (uint32_t id : operation.inputs) {
      const Shape& shape = shapes[id];
      inputs.push_back(&shape.dims);
      // Some of oneDNN's kernels take rows to lie side by side, whatever strides say.
      require_sound(may_repeat(operation) || count_elements(shape.dims) <= extent(shape), "an operator of repeated elements");
    }
    check_sizes(operation, inputs, shapes[operation.outputs[0]].dims);
  }
}

}  // namespace

bool is_dense(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (size_t i = 0; i < dims.size(); i++) {
    if (dims[i] > 1) steps.emplace_back(strides[i], dims[i]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : steps) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

size_t extent_bytes(const Shape& shape, int dtype) { return static_cast<size_t>(extent(shape)) * element_bytes(dtype); }

std::vector<Shape> measure(const Plan& plan, const std::vector<int64_t>& symbols) {
  std::vector<Shape> shapes;
  shapes.reserve(plan.values.size());
  for (const Value& value : plan.values) {
    shapes.push_back(measure_value(plan, value, symbols));
    Shape& shape = shapes.back();
    if (value.storage == Storage::kAlias) {
      require_sound(shape.offset + extent(shape) <= extent(shapes[value.index]), "a view that reaches outside of its tensor");
      smooth(shape.dims, shape.strides);
    } else {
      require_sound(shape.offset == 0 && is_dense(shape.dims, shape.strides), "a tensor whose memory has gaps");
    }
  }
  for (int64_t id : plan.args) {
    if (id < 0) continue;
    // The caller's tensor has the view's sizes, and what lies in its memory those of the root.
    const Shape &view = shapes[static_cast<size_t>(id)], &root = shapes[root_of(plan, static_cast<uint32_t>(id))];
    require_sound(view.offset == 0 && is_dense(view.dims, view.strides) && count_elements(view.dims) == count_elements(root.dims),
                  "a value that is larger than its argument");
  }
  check_operations(plan, shapes);
  return shapes;
}

}  // namespace edgex

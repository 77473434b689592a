// Partitions of oneDNN's that the same operators here run faster: those whose tensors are so small that its call costs more
// than their work, sums of rows, and layers that it has no good kernel for on this processor.
#include <algorithm>
#include <map>
#include <utility>

#include "convolution/depthwise.h"
#include "convolution/grouped.h"
#include "linear/linear.h"
#include "operators/binary.h"
#include "operators/concat.h"
#include "plan/operators.h"
#include "run/executable.h"
#include "small/activation.h"
#include "small/chain.h"
#include "small/layout.h"
#include "small/product.h"
#include "small/rows.h"

namespace edgex {

namespace {

// A call of a compiled partition takes 0.6 to 1.2 microseconds on a Zen 4, of an operator here 0.1. Beyond so many elements
// that do not lie side by side, oneDNN's compiled copies win, and beyond so many multiplications its products.
constexpr int64_t kMostScattered = 2048, kMostProducts = 128 << 10;

// Ours for an operator of oneDNN's; -1 where there is none.
int find_own(int kind) {
  switch (kind) {
    case dnnl_graph_op_add:
      return kAdd;
    case dnnl_graph_op_subtract:
      return kSubtract;
    case dnnl_graph_op_multiply:
    case dnnl_graph_op_square:
      return kMultiply;
    case dnnl_graph_op_divide:
      return kDivide;
    default:  // of a maximum, oneDNN's larger ones drop NaN where ours keep it: one operator does one thing
      return -1;
  }
}

// Whether tensors that are only moved or combined place by place are few, or lie side by side along the result's innermost
// dimension.
bool moves_quickly(const std::vector<Strided>& inputs, const Strided& result) {
  if (count_of(result.dims) <= kMostScattered) return true;
  const size_t rank = result.dims.size();
  size_t innermost = rank - 1;
  for (size_t dim = rank; dim-- > 0;) {
    if (result.dims[innermost] == 1 || (result.dims[dim] != 1 && result.strides[dim] < result.strides[innermost])) innermost = dim;
  }
  const auto is_dense = [&](const Strided& tensor) {
    const size_t missing = rank - tensor.dims.size();
    return innermost < missing || tensor.dims[innermost - missing] == 1 || tensor.strides[innermost - missing] == 1;
  };
  return is_dense(result) && std::all_of(inputs.begin(), inputs.end(), is_dense);
}

// Of rows: oneDNN 3.2 takes 260 ns for one of 36 numbers on a Zen 3.
bool is_sum(int kind) { return kind == dnnl_graph_op_reduce_mean || kind == dnnl_graph_op_reduce_sum; }

bool is_transposed(const Operation& operation) {
  const Attribute* flag = find_attribute(operation, dnnl_graph_op_attr_transpose_b);
  return flag != nullptr && flag->integers[0] != 0;
}

}  // namespace

// Whether a group is one operator that runs faster here at all sizes, and what is done to each number of its result.
bool Executable::is_led_by_own(const Group& group) const {
  size_t leaders = 0;
  for (size_t index : group.operations) {
    const Operation& operation = plan_.operations[index];
    if (is_elementwise(operation.kind)) continue;
    if (!is_sum(operation.kind) && !is_linear_layer(operation) && !is_own_convolution(operation)) return false;
    leaders++;
  }
  return leaders == 1;
}

bool Executable::is_own_convolution(const Operation& operation) const {
  if (operation.kind != dnnl_graph_op_convolution) return false;
  const auto is_float = [&](uint32_t id) { return plan_.values[id].dtype == kFloat32; };
  if (plan_.values[root(operation.inputs[1])].storage != Storage::kConstant) return false;
  const std::vector<int64_t>&image = shapes_[operation.inputs[0]].dims, &weights = shapes_[operation.inputs[1]].dims;
  return std::all_of(operation.inputs.begin(), operation.inputs.end(), is_float) &&
         (prefers_channels(operation, image, weights) || prefers_planes(operation, image, weights));
}

bool Executable::is_linear_layer(const Operation& operation) const {
  if (operation.kind != dnnl_graph_op_matmul) return false;
  const std::vector<int64_t>& read = shapes_[operation.inputs[0]].dims;
  const std::vector<int64_t>& made = shapes_[operation.outputs[0]].dims;
  if (plan_.values[root(operation.inputs[1])].storage != Storage::kConstant || read.size() < 2 || made.size() < 2) return false;
  return prefers_panels(count_of(made) / made.back(), read.back(), made.back());
}

// `any_order`: wherever its tensors lie.
std::unique_ptr<OwnOperator> Executable::make_small_operator(const Operation& operation, bool small, bool any_order) const {
  const auto tensor = [&](uint32_t id) { return Strided{shapes_[id].dims, shapes_[id].strides}; };
  std::vector<Strided> inputs;
  std::transform(operation.inputs.begin(), operation.inputs.end(), std::back_inserter(inputs), tensor);
  const Strided result = tensor(operation.outputs[0]);
  const int dtype = plan_.values[operation.outputs[0]].dtype;
  if (const int kind = find_own(operation.kind); kind >= 0) {
    return any_order || moves_quickly(inputs, result) ? make_binary(kind, dtype, inputs.front(), inputs.back(), result) : nullptr;
  }
  switch (operation.kind) {
    case dnnl_graph_op_reorder:
      return moves_quickly(inputs, result) ? make_copy(dtype, inputs[0], result) : nullptr;
    case dnnl_graph_op_concat: {
      const auto axis = static_cast<size_t>(find_attribute(operation, dnnl_graph_op_attr_axis)->integers[0]);
      return moves_quickly(inputs, result) ? make_concat(dtype, axis, inputs, result) : nullptr;
    }
    default:
      break;
  }
  if (dtype != kFloat32) return nullptr;  // a fused partition rounds its result alone
  const bool weighs = operation.kind == dnnl_graph_op_matmul || operation.kind == dnnl_graph_op_convolution;
  const uint32_t weighing = operation.inputs.size() > 1 ? operation.inputs[1] : 0;
  const bool constant = weighs && plan_.values[root(weighing)].storage == Storage::kConstant;
  const float* const weights = constant ? reinterpret_cast<const float*>(address(weighing)) : nullptr;
  switch (operation.kind) {
    case dnnl_graph_op_convolution:
      if (!is_own_convolution(operation)) return nullptr;
      return prefers_channels(operation, inputs[0].dims, inputs[1].dims)
                 ? make_depthwise(operation, inputs, weights, result, panels_)
                 : make_grouped(operation, inputs, result);
    case dnnl_graph_op_matmul: {
      const bool transposed = is_transposed(operation);
      if (small && count_products(inputs, result) <= kMostProducts) return make_product(inputs, transposed, weights, result);
      return constant && inputs[0].dims.size() > 1 ? make_linear(inputs, transposed, weights, result, panels_) : nullptr;
    }
    case dnnl_graph_op_layer_norm:
      return make_layer_norm(operation, inputs, result);
    case dnnl_graph_op_reduce_mean:
    case dnnl_graph_op_reduce_sum:
      return make_reduction(operation, inputs[0], result);
    default:
      return make_activation(operation, inputs[0], result);
  }
}

bool Executable::lies_as(uint32_t one, uint32_t other) const {
  return shapes_[one].dims == shapes_[other].dims && shapes_[one].strides == shapes_[other].strides;
}

// Place in the group of the last operator that reads a value.
size_t Executable::last_reader(const Group& group, uint32_t value) const {
  size_t last = 0;
  for (size_t i = 0; i < group.operations.size(); i++) {
    const std::vector<uint32_t>& inputs = plan_.operations[group.operations[i]].inputs;
    if (std::count(inputs.begin(), inputs.end(), value) > 0) last = i;
  }
  return last;
}

// Null where one of its operators has no place here, or too much to do.
std::unique_ptr<OwnOperator> Executable::make_small(const Group& group, std::vector<uint32_t>& values) const {
  const bool small = is_small(group);
  if (!small && !is_led_by_own(group)) return nullptr;
  std::map<uint32_t, size_t> numbers;
  values.clear();
  const auto give = [&](uint32_t id) {
    if (numbers.try_emplace(id, values.size()).second) values.push_back(id);
  };
  std::for_each(group.inputs.begin(), group.inputs.end(), give);
  std::for_each(group.outputs.begin(), group.outputs.end(), give);
  if (values.size() > kMostOwnTensors) return nullptr;
  std::vector<size_t> made_bytes;
  std::vector<Link> links;
  const bool convolves = std::any_of(group.operations.begin(), group.operations.end(),
                                     [&](size_t number) { return is_own_convolution(plan_.operations[number]); });
  size_t held_until = 0;  // the operator that reads last what lies in the memory of the group's result
  for (size_t i = 0; i < group.operations.size(); i++) {
    const Operation& operation = plan_.operations[group.operations[i]];
    const uint32_t result = operation.outputs[0];
    const int dtype = plan_.values[result].dtype;
    // Of several in bfloat16, a fused partition rounds the last result alone.
    if (dtype != kFloat32 && (dtype != kBfloat16 || group.operations.size() > 1)) return nullptr;
    for (uint32_t input : operation.inputs) {
      if (plan_.values[input].dtype != dtype) return nullptr;
    }
    Link link{make_small_operator(operation, small, convolves), {}};
    if (link.own == nullptr) return nullptr;
    // Large results on the way lie where the last one will: what is done to each number is done in place.
    if (!small && group.outputs.size() == 1 && held_until <= i && numbers.count(result) == 0 && lies_as(result, group.outputs[0])) {
      numbers[result] = numbers.at(group.outputs[0]);
      held_until = last_reader(group, result);
    }
    if (numbers.try_emplace(result, values.size() + made_bytes.size()).second) made_bytes.push_back(argument_bytes(result));
    for (uint32_t input : operation.inputs) link.tensors.push_back(numbers.at(input));
    // Operators of two tensors, which copies and squares are made of.
    const bool single = operation.kind == dnnl_graph_op_reorder || operation.kind == dnnl_graph_op_square;
    if (single) link.tensors.push_back(link.tensors[0]);
    link.tensors.push_back(numbers.at(result));
    links.push_back(std::move(link));
  }
  return make_chain(std::move(links), values.size(), made_bytes);
}

}  // namespace edgex

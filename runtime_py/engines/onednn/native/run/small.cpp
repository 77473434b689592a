// Partitions of oneDNN's whose tensors are so small that its call costs more than their work: the same operators here.
#include <algorithm>
#include <map>
#include <utility>

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

bool is_dense_row(const Strided& tensor) {
  return tensor.dims.empty() || tensor.dims.back() == 1 || tensor.strides.back() == 1;
}

// Whether tensors that are only moved or combined place by place are few or lie well.
bool moves_quickly(const std::vector<Strided>& inputs, const Strided& result) {
  return count_of(result.dims) <= kMostScattered || (is_dense_row(result) && std::all_of(inputs.begin(), inputs.end(), is_dense_row));
}

bool is_transposed(const Operation& operation) {
  const Attribute* flag = find_attribute(operation, dnnl_graph_op_attr_transpose_b);
  return flag != nullptr && flag->integers[0] != 0;
}

}  // namespace

std::unique_ptr<OwnOperator> Executable::make_small_operator(const Operation& operation) const {
  const auto tensor = [&](uint32_t id) { return Strided{shapes_[id].dims, shapes_[id].strides}; };
  std::vector<Strided> inputs;
  std::transform(operation.inputs.begin(), operation.inputs.end(), std::back_inserter(inputs), tensor);
  const Strided result = tensor(operation.outputs[0]);
  const int dtype = plan_.values[operation.outputs[0]].dtype;
  if (const int kind = find_own(operation.kind); kind >= 0) {
    return moves_quickly(inputs, result) ? make_binary(kind, dtype, inputs.front(), inputs.back(), result) : nullptr;
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
  switch (operation.kind) {
    case dnnl_graph_op_matmul: {
      if (count_products(inputs, result) > kMostProducts) return nullptr;
      const uint32_t weights = operation.inputs[1];
      const bool constant = plan_.values[root(weights)].storage == Storage::kConstant;
      return make_product(inputs, is_transposed(operation), constant ? reinterpret_cast<const float*>(address(weights)) : nullptr,
                          result);
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

// Null where one of its operators has no place here, or too much to do.
std::unique_ptr<OwnOperator> Executable::make_small(const Group& group, std::vector<uint32_t>& values) const {
  if (!is_small(group)) return nullptr;
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
  for (size_t index : group.operations) {
    const Operation& operation = plan_.operations[index];
    const uint32_t result = operation.outputs[0];
    const int dtype = plan_.values[result].dtype;
    // Of several in bfloat16, a fused partition rounds the last result alone.
    if (dtype != kFloat32 && (dtype != kBfloat16 || group.operations.size() > 1)) return nullptr;
    for (uint32_t input : operation.inputs) {
      if (plan_.values[input].dtype != dtype) return nullptr;
    }
    Link link{make_small_operator(operation), {}};
    if (link.own == nullptr) return nullptr;
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

// Groups that run here: operators of our own, and single ones of oneDNN's on tensors so small that its call costs more
// than its work.
#include <algorithm>

#include "attention/attention.h"
#include "operators/binary.h"
#include "operators/concat.h"
#include "operators/embedding.h"
#include "plan/operators.h"
#include "run/executable.h"

namespace edgex {

namespace {

// A call of a compiled partition takes 0.6 to 0.8 microseconds on a Zen 4, of an operator here 0.1. Beyond so many elements
// that do not lie side by side, oneDNN's compiled copies win.
constexpr int64_t kMostScattered = 2048;

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

bool may_block(int kind) {
  return kind == dnnl_graph_op_convolution || kind == dnnl_graph_op_conv_transpose || kind == dnnl_graph_op_max_pool ||
         kind == dnnl_graph_op_avg_pool || kind == dnnl_graph_op_batch_norm_inference || kind == dnnl_graph_op_interpolate;
}

size_t read_axis(const Operation& operation) {
  return static_cast<size_t>(find_attribute(operation, dnnl_graph_op_attr_axis)->integers[0]);
}

bool is_dense_row(const Shape& shape) { return shape.dims.empty() || shape.dims.back() == 1 || shape.strides.back() == 1; }

// Of a dense tensor whose elements along `axis` lie side by side, the other dimensions in their order.
std::vector<int64_t> strides_of_rows(const std::vector<int64_t>& dims, size_t axis) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = dims[axis];
  for (size_t i = dims.size(); i-- > 0;) {
    if (i == axis) continue;
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

}  // namespace

// Whether a partition is one simple operator, on little data.
bool Executable::is_simple(const Group& group) const {
  if (group.operations.size() != 1 || group.outputs.size() != 1) return false;
  const Operation& operation = plan_.operations[group.operations[0]];
  const bool moves = operation.kind == dnnl_graph_op_reorder || operation.kind == dnnl_graph_op_concat;
  if (!moves && find_own(operation.kind) < 0) return false;
  if (operation.inputs.size() + 1 > kMostOwnTensors) return false;
  const uint32_t result = operation.outputs[0];
  const int dtype = plan_.values[result].dtype;
  if (dtype != kFloat32 && dtype != kBfloat16) return false;
  bool dense = is_dense_row(shapes_[result]);
  int64_t count = 1;
  for (int64_t size : shapes_[result].dims) count *= size;
  for (uint32_t input : operation.inputs) {
    if (plan_.values[input].dtype != dtype) return false;
    dense = dense && is_dense_row(shapes_[input]);
  }
  return is_small(group) && (dense || count <= kMostScattered);
}

// What such partitions read and write is laid out by strides, unless a convolution would have to bring it into its blocks.
void Executable::find_own_groups(const std::vector<Group>& groups) {
  std::set<uint32_t> blocked;
  for (const Group& group : groups) {
    const bool blocks = std::any_of(group.operations.begin(), group.operations.end(),
                                    [&](size_t number) { return may_block(plan_.operations[number].kind); });
    if (!blocks) continue;
    blocked.insert(group.inputs.begin(), group.inputs.end());
    blocked.insert(group.outputs.begin(), group.outputs.end());
  }
  const auto is_blocked = [&](uint32_t value) { return plan_.values[value].opaque && blocked.count(value) > 0; };
  for (const Group& group : groups) {
    bool own = group.partition == nullptr;
    if (!own && is_simple(group)) {
      own = !is_blocked(group.outputs[0]) && std::none_of(group.inputs.begin(), group.inputs.end(), is_blocked);
      if (own) plain_.insert(group.outputs[0]);
      if (own) plain_.insert(group.inputs.begin(), group.inputs.end());
    }
    own_.push_back(own);
  }
}

// A concatenation along the dimension that is innermost in what oneDNN made before it, whatever size it has. Such layouts of
// oneDNN's own are known once what computes them is compiled, and are the same as strides then.
bool Executable::compile_rows(const Group& group, Call& call) {
  if (group.operations.size() != 1) return false;
  const Operation& operation = plan_.operations[group.operations[0]];
  const uint32_t result = operation.outputs[0];
  const int dtype = plan_.values[result].dtype;
  if (operation.kind != dnnl_graph_op_concat || operation.inputs.size() + 1 > kMostOwnTensors) return false;
  if (dtype != kFloat32 && dtype != kBfloat16) return false;
  const size_t axis = read_axis(operation);
  std::vector<Strided> tensors;
  call.values = operation.inputs;
  call.values.push_back(result);
  for (uint32_t id : call.values) {
    const std::vector<int64_t>& dims = shapes_[id].dims;
    tensors.push_back({dims, is_opaque(id) ? strides_of_rows(dims, axis) : shapes_[id].strides});
    if (!is_opaque(id) || id == result) continue;
    const dnnl_graph_logical_tensor_t rows = strided(id, tensors.back().strides);
    uint8_t same;
    check(dnnl_graph_logical_tensor_is_equal(&logical_[id], &rows, &same), "comparing layouts");
    if (!same) return false;
  }
  const Strided made = tensors.back();
  tensors.pop_back();
  if (!joins_rows(axis, tensors, made)) return false;
  if (is_opaque(result)) logical_[result] = strided(result, made.strides);
  call.own = make_concat(dtype, axis, tensors, made);
  return true;
}

void Executable::compile_own(const Group& group, Call& call) const {
  // A partition lists an input that is read twice once.
  const Operation* single = group.partition == nullptr ? nullptr : &plan_.operations[group.operations[0]];
  const int kind = single == nullptr ? group.kind : single->kind;
  call.values = single == nullptr ? group.inputs : single->inputs;
  if (kind == dnnl_graph_op_square || kind == dnnl_graph_op_reorder) call.values.push_back(call.values[0]);
  call.values.push_back(group.outputs.at(0));
  std::vector<Strided> tensors;
  std::vector<int> dtypes;
  for (uint32_t id : call.values) {
    if (is_opaque(id)) throw OneDnnError("an operator of our own in a layout of oneDNN's");
    tensors.push_back({shapes_[id].dims, shapes_[id].strides});
    dtypes.push_back(plan_.values[id].dtype);
  }
  const CompileClock clock;
  if (kind == kEmbedding) {
    call.own = make_embedding(dtypes[0], dtypes[1], tensors[0], tensors[1], tensors[2]);
  } else if (kind == dnnl_graph_op_reorder) {
    call.own = make_copy(dtypes[0], tensors[0], tensors[2]);
  } else if (kind == dnnl_graph_op_concat) {
    const Strided result = tensors.back();
    tensors.pop_back();
    call.own = make_concat(dtypes[0], read_axis(*single), tensors, result);
  } else if (single != nullptr || is_own_binary(kind)) {
    call.own = make_binary(single == nullptr ? kind : find_own(kind), dtypes[0], tensors[0], tensors[1], tensors[2]);
  } else {
    const std::vector<Strided> masks(tensors.begin() + 3, tensors.end() - 1);
    call.own =
        make_attention(kind, dtypes[0], tensors[0], tensors[1], tensors[2], masks, tensors.back(), group.scale);
  }
}

}  // namespace edgex

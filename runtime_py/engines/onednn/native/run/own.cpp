// Groups that run here, outside of oneDNN.
#include <algorithm>

#include "attention/attention.h"
#include "cache/attention.h"
#include "indexed/embedding.h"
#include "indexed/scatter.h"
#include "operators/binary.h"
#include "operators/choose.h"
#include "operators/concat.h"
#include "lowbits/images.h"
#include "lowbits/linear.h"
#include "plan/operators.h"
#include "run/executable.h"
#include "small/activation.h"
#include "small/layout.h"

namespace edgex {

namespace {

bool may_block(int kind) {
  return kind == dnnl_graph_op_convolution || kind == dnnl_graph_op_conv_transpose || kind == dnnl_graph_op_max_pool ||
         kind == dnnl_graph_op_avg_pool || kind == dnnl_graph_op_batch_norm_inference || kind == dnnl_graph_op_interpolate;
}

size_t read_axis(const Operation& operation) {
  return static_cast<size_t>(find_attribute(operation, dnnl_graph_op_attr_axis)->integers[0]);
}

}  // namespace

// Lays channels innermost in what groups led by a convolution of ours read and make, where the plan leaves that open: in
// images, that is, and in what is computed place by place ahead of them. Returns which groups these are.
std::set<size_t> Executable::lay_by_channels(const std::vector<Group>& groups) {
  const auto has = [&](const Group& group, const auto& is_wanted) {
    return std::any_of(group.operations.begin(), group.operations.end(),
                       [&](size_t number) { return is_wanted(plan_.operations[number]); });
  };
  std::set<size_t> own;
  std::set<uint32_t> images;
  for (size_t i = 0; i < groups.size(); i++) {
    const Group& group = groups[i];
    if (group.partition == nullptr) continue;
    const bool ours = has(group, [&](const Operation& operation) { return is_own_convolution(operation); });
    if (ours && is_led_by_own(group)) own.insert(i);
    const bool moves = has(group, [](const Operation& operation) { return !is_elementwise(operation.kind); });
    const bool blocks = has(group, [](const Operation& operation) { return may_block(operation.kind); });
    const auto is_image = [&](uint32_t id) { return !is_opaque(id) || images.count(id) > 0; };
    if (blocks || (!moves && std::all_of(group.inputs.begin(), group.inputs.end(), is_image))) {
      images.insert(group.outputs.begin(), group.outputs.end());
    }
  }
  const auto lay = [&](uint32_t id, bool made_here) {
    if (!is_opaque(id) || shapes_[id].dims.size() < 3) return;
    if (made_here || images.count(id) > 0) shapes_[id].strides = strides_of_rows(shapes_[id].dims, 1);
    logical_[id] = strided(id, shapes_[id].strides);
    plain_.insert(id);
  };
  for (size_t i = groups.size(); i-- > 0;) {
    const Group& group = groups[i];
    const auto is_laid = [&](uint32_t id) { return plan_.values[id].opaque && plain_.count(id) > 0; };
    const bool moves = has(group, [](const Operation& operation) { return !is_elementwise(operation.kind); });
    const bool follows = group.partition != nullptr && !moves && std::any_of(group.outputs.begin(), group.outputs.end(), is_laid);
    if (own.count(i) == 0 && !follows) continue;
    for (uint32_t id : group.inputs) lay(id, false);
    for (size_t number : group.operations) {
      for (uint32_t id : plan_.operations[number].outputs) lay(id, true);
    }
  }
  return own;
}

// What small partitions read and write is laid out by strides, unless a convolution would have to bring it into its blocks.
void Executable::find_own_groups(const std::vector<Group>& groups) {
  const std::set<size_t> by_channels = lay_by_channels(groups);
  std::set<uint32_t> blocked;
  for (size_t i = 0; i < groups.size(); i++) {
    const Group& group = groups[i];
    if (by_channels.count(i) > 0) continue;
    const bool blocks = std::any_of(group.operations.begin(), group.operations.end(),
                                    [&](size_t number) { return may_block(plan_.operations[number].kind); });
    if (!blocks) continue;
    blocked.insert(group.inputs.begin(), group.inputs.end());
    blocked.insert(group.outputs.begin(), group.outputs.end());
  }
  const auto is_blocked = [&](uint32_t value) { return is_opaque(value) && blocked.count(value) > 0; };
  for (const Group& group : groups) {
    Call call;
    const bool plain = !std::any_of(group.inputs.begin(), group.inputs.end(), is_blocked) &&
                       !std::any_of(group.outputs.begin(), group.outputs.end(), is_blocked);
    if (group.partition != nullptr && plain) call.own = make_small(group, call.values);
    if (call.own != nullptr) {
      plain_.insert(group.outputs.begin(), group.outputs.end());
      plain_.insert(group.inputs.begin(), group.inputs.end());
    }
    calls_.push_back(std::move(call));
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

// An image that is quantized and becomes one by channels, as convolutions of 8 bits read it. Where oneDNN may choose how the
// result lies, it would choose so for a convolution.
bool Executable::compile_image(const Group& group, const std::vector<Group>& groups, Call& call) {
  if (group.operations.size() != 1) return false;
  const Operation& operation = plan_.operations[group.operations[0]];
  if (operation.kind != dnnl_graph_op_quantize) return false;
  const uint32_t from = operation.inputs[0], result = operation.outputs[0];
  if (shapes_[result].dims.size() < 3 || plan_.values[from].dtype != kFloat32) return false;
  const auto convolves = [&](const Group& reader) {
    const auto is_convolution = [&](size_t number) { return plan_.operations[number].kind == dnnl_graph_op_convolution; };
    return std::count(reader.inputs.begin(), reader.inputs.end(), result) > 0 &&
           std::any_of(reader.operations.begin(), reader.operations.end(), is_convolution);
  };
  if (is_opaque(result) && std::none_of(groups.begin(), groups.end(), convolves)) return false;
  if (is_opaque(from)) {
    const dnnl_graph_logical_tensor_t rows = strided(from, shapes_[from].strides);
    uint8_t same;
    check(dnnl_graph_logical_tensor_is_equal(&logical_[from], &rows, &same), "comparing layouts");
    if (!same) return false;
  }
  const Strided made{shapes_[result].dims, is_opaque(result) ? strides_of_rows(shapes_[result].dims, 1) : shapes_[result].strides};
  call.own = make_quantized_image(operation, plan_.values[result].dtype, {shapes_[from].dims, shapes_[from].strides}, made);
  if (call.own == nullptr) return false;
  if (is_opaque(result)) logical_[result] = strided(result, made.strides);
  call.values = {from, result};
  return true;
}

// Each layer's tensors as the joint operator takes them.
std::unique_ptr<OwnOperator> Executable::make_linears(const Group& group, std::vector<Strided> tensors) const {
  std::vector<LowBitLayer> layers;
  size_t at = 0;
  for (size_t number : group.operations) {
    const size_t count = plan_.operations[number].inputs.size();
    const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(at);
    layers.push_back({{begin, begin + static_cast<std::ptrdiff_t>(count)}, tensors[group.inputs.size() + layers.size()]});
    at += count;
  }
  return make_low_bit_linears(group.kind, layers);
}

void Executable::compile_own(const Group& group, Call& call) const {
  call.values = group.inputs;
  call.values.insert(call.values.end(), group.outputs.begin(), group.outputs.end());
  std::vector<Strided> tensors;
  std::vector<int> dtypes;
  for (uint32_t id : call.values) {
    if (is_opaque(id)) throw OneDnnError("an operator of our own in a layout of oneDNN's");
    tensors.push_back({shapes_[id].dims, shapes_[id].strides});
    dtypes.push_back(plan_.values[id].dtype);
  }
  const CompileClock clock;
  if (group.kind == kEmbedding) {
    call.own = make_embedding(dtypes[0], dtypes[1], tensors[0], tensors[1], tensors[2]);
  } else if (group.kind == kWhere) {
    call.own = make_where(dtypes[1], tensors[0], tensors[1], tensors[2], tensors[3]);
  } else if (group.kind == kGather) {
    call.own = make_gather(dtypes[0], dtypes[1], group.axis, tensors[0], tensors[1], tensors[2]);
  } else if (is_scatter(group.kind)) {
    call.own = make_scatter(group.kind, dtypes[0], dtypes[1], group.axis, tensors[0], tensors[1], tensors[2], tensors[3]);
  } else if (is_cached_attention(group.kind)) {
    const Strided result = tensors.back();
    tensors.pop_back();
    call.own = make_cached_attention(tensors, result, group.scale, group.window);
  } else if (group.kind == kLinear4Bit || group.kind == kLinear8Bit) {
    call.own = make_linears(group, std::move(tensors));
  } else if (group.kind == kConcat) {
    const Strided result = tensors.back();
    tensors.pop_back();
    call.own = make_concat(dtypes.back(), group.axis, tensors, result);
  } else if (is_own_binary(group.kind)) {
    call.own = make_binary(group.kind, dtypes[0], tensors[0], tensors[1], tensors[2]);
  } else if (is_own_unary(group.kind)) {
    call.own = make_activation(plan_.operations[group.operations[0]], tensors[0], tensors[1]);
    if (call.own == nullptr) throw OneDnnError("a result with gaps between its numbers");
  } else {
    const std::vector<Strided> masks(tensors.begin() + 3, tensors.end() - 1);
    call.own =
        make_attention(group.kind, dtypes[0], tensors[0], tensors[1], tensors[2], masks, tensors.back(), group.scale);
  }
}

}  // namespace edgex

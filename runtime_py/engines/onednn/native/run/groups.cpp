// From operators to partitions: which of them are fused is oneDNN's decision.
#include <algorithm>

#include "run/executable.h"

namespace edgex {

namespace {

// Sizes that a plan leaves open are unknown until a partition is compiled.
dnnl_graph_logical_tensor_t describe(const Value& value, size_t id) {
  dnnl_dims_t dims;
  for (size_t i = 0; i < value.dims.size(); i++) dims[i] = value.dims[i] < 0 ? DNNL_GRAPH_UNKNOWN_DIM : value.dims[i];
  const bool constant = value.storage == Storage::kConstant;
  dnnl_graph_logical_tensor_t tensor;
  check(dnnl_graph_logical_tensor_init_with_dims(
            &tensor, id, static_cast<dnnl_data_type_t>(value.dtype), static_cast<int32_t>(value.dims.size()), dims,
            dnnl_graph_layout_type_undef,
            constant ? dnnl_graph_tensor_property_constant : dnnl_graph_tensor_property_variable),
        "describing a tensor");
  return tensor;
}

void set_attribute(dnnl_graph_op_t op, const Attribute& attribute) {
  const auto code = static_cast<dnnl_graph_op_attr_t>(attribute.code);
  dnnl_status_t status = dnnl_invalid_arguments;
  switch (attribute.type) {
    case Attribute::Type::kFloat:
    case Attribute::Type::kFloats:
      status = dnnl_graph_op_set_attr_f32(op, code, attribute.floats.data(), attribute.floats.size());
      break;
    case Attribute::Type::kInteger:
    case Attribute::Type::kIntegers:
      status = dnnl_graph_op_set_attr_s64(op, code, attribute.integers.data(), attribute.integers.size());
      break;
    case Attribute::Type::kBool: {
      const uint8_t flag = attribute.integers[0] != 0;
      status = dnnl_graph_op_set_attr_bool(op, code, &flag, 1);
      break;
    }
    case Attribute::Type::kString:
      status = dnnl_graph_op_set_attr_str(op, code, attribute.text.c_str(), attribute.text.size());
      break;
    case Attribute::Type::kCount:
      break;
  }
  check(status, "setting an attribute");
}

void add_operation(dnnl_graph_graph_t graph, size_t id, dnnl_graph_op_kind_t kind, const std::string& name,
                   const std::vector<dnnl_graph_logical_tensor_t>& inputs,
                   const std::vector<dnnl_graph_logical_tensor_t>& outputs, const std::vector<Attribute>& attributes) {
  dnnl_graph_op_t made;
  check(dnnl_graph_op_create(&made, id, kind, name.c_str()), "making an operator");
  const OpOwner op(made);
  for (const auto& input : inputs) check(dnnl_graph_op_add_input(made, &input), "adding an input");
  for (const auto& output : outputs) check(dnnl_graph_op_add_output(made, &output), "adding an output");
  for (const Attribute& attribute : attributes) set_attribute(made, attribute);
  check(dnnl_graph_add_op(graph, made), ("adding " + name).c_str());
}

// The ports of a partition as values of the plan.
template <typename Count, typename Get>
std::vector<uint32_t> ports(dnnl_graph_partition_t partition, const Count& count, const Get& get) {
  size_t number;
  check(count(partition, &number), "counting ports");
  std::vector<dnnl_graph_logical_tensor_t> tensors(number);
  check(get(partition, number, tensors.data()), "reading ports");
  std::vector<uint32_t> values;
  for (const auto& tensor : tensors) values.push_back(static_cast<uint32_t>(tensor.id));
  return values;
}

bool is_own(const Operation& operation) { return operation.kind >= kFirstOwn; }

Group own_group(const Plan& plan, size_t number) {
  const Operation& operation = plan.operations[number];
  Group group;
  group.operations = {number};
  group.kind = operation.kind;
  group.name = operation.name;
  group.handles = std::to_string(operation.debug_handle);
  group.inputs = operation.inputs;
  group.outputs = operation.outputs;
  for (const Attribute& attribute : operation.attributes) {
    if (attribute.code == dnnl_graph_op_attr_alpha && !attribute.floats.empty()) group.scale = attribute.floats[0];
    if (attribute.code == kWindow) group.window = attribute.integers[0];
    if (attribute.code == dnnl_graph_op_attr_axis) group.axis = static_cast<size_t>(attribute.integers[0]);
  }
  return group;
}

// Takes groups whose inputs are there, until none is left.
std::vector<Group> order(const Plan& plan, std::vector<Group> waiting) {
  std::vector<bool> missing(plan.values.size());
  for (const Group& group : waiting) {
    for (uint32_t output : group.outputs) missing[output] = true;
  }
  const auto is_missing = [&](uint32_t input) {
    const Value& value = plan.values[input];
    return missing[value.storage == Storage::kAlias ? value.index : input];
  };
  std::vector<Group> ordered;
  while (!waiting.empty()) {
    const auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const Group& group) {
      return std::none_of(group.inputs.begin(), group.inputs.end(), is_missing);
    });
    if (ready == waiting.end()) throw OneDnnError("oneDNN's partitions wait for each other");
    for (uint32_t output : ready->outputs) missing[output] = false;
    ordered.push_back(std::move(*ready));
    waiting.erase(ready);
  }
  return ordered;
}

bool is_linear(const Group& group) { return group.kind == kLinear4Bit || group.kind == kLinear8Bit; }

bool may_join(const Plan& plan, const Group& group, const Group& other) {
  if (other.kind != group.kind || other.inputs[0] != group.inputs[0]) return false;
  const std::vector<Size>&weights = plan.values[group.inputs[1]].dims, &others = plan.values[other.inputs[1]].dims;
  if (weights.size() != 3 || others.size() != 3) return false;
  const size_t tensors = group.inputs.size() + group.outputs.size() + other.inputs.size() + other.outputs.size();
  return weights[1] == others[1] && weights[2] == others[2] && tensors <= kMostOwnTensors;
}

// Linear layers in few bits that read the same rows run as one: the rows are quantized once, and threads meet once. All
// else that the later ones read is constant.
std::vector<Group> join_linears(const Plan& plan, std::vector<Group> groups) {
  std::vector<Group> joined;
  std::map<uint32_t, size_t> first;
  for (Group& group : groups) {
    if (is_linear(group)) {
      const auto [found, fresh] = first.try_emplace(group.inputs[0], joined.size());
      if (!fresh && may_join(plan, joined[found->second], group)) {
        Group& all = joined[found->second];
        all.name += "+" + group.name;
        all.handles += "," + group.handles;
        all.inputs.insert(all.inputs.end(), group.inputs.begin(), group.inputs.end());
        all.outputs.insert(all.outputs.end(), group.outputs.begin(), group.outputs.end());
        all.operations.insert(all.operations.end(), group.operations.begin(), group.operations.end());
        continue;
      }
      found->second = joined.size();
    }
    joined.push_back(std::move(group));
  }
  return joined;
}

}  // namespace

std::vector<Group> form_groups(const Plan& plan) {
  dnnl_graph_graph_t made;
  check(dnnl_graph_graph_create(&made, dnnl_cpu), "making a graph");
  const GraphOwner graph(made);
  const size_t count = plan.operations.size();
  for (size_t i = 0; i < count; i++) {
    const Operation& operation = plan.operations[i];
    if (is_own(operation)) continue;
    std::vector<dnnl_graph_logical_tensor_t> inputs, outputs;
    for (uint32_t value : operation.inputs) inputs.push_back(describe(plan.values[value], value));
    for (uint32_t value : operation.outputs) outputs.push_back(describe(plan.values[value], value));
    add_operation(made, i, static_cast<dnnl_graph_op_kind_t>(operation.kind), operation.name, inputs, outputs,
                  operation.attributes);
  }
  // oneDNN must not fuse away a value that is needed outside of the graph it sees: what leaves the region, what other
  // operators read through a view, and what the plan says.
  std::vector<bool> needed(plan.values.size());
  for (const Value& value : plan.values) {
    if (value.storage == Storage::kAlias) needed[value.index] = true;
  }
  for (size_t i = 0; i < plan.values.size(); i++) {
    if (plan.values[i].storage == Storage::kArgument) needed[i] = true;
  }
  for (const Operation& operation : plan.operations) {
    if (!is_own(operation)) continue;
    for (uint32_t value : operation.inputs) needed[value] = true;
  }
  // A conversion is a partition of its own: oneDNN 3.2 fuses one into the convolution, sum and relu before it, for which
  // it has a reference kernel only, 400 times slower than the convolution alone.
  for (const Operation& operation : plan.operations) {
    if (operation.kind != dnnl_graph_op_type_cast) continue;
    for (uint32_t value : operation.inputs) needed[value] = true;
    for (uint32_t value : operation.outputs) needed[value] = true;
  }
  size_t ends = 0;
  for (const Operation& operation : plan.operations) {
    if (is_own(operation)) continue;
    for (uint32_t value : operation.outputs) {
      if (!needed[value] && !operation.alone) continue;
      add_operation(made, count + ends, dnnl_graph_op_end, "end" + std::to_string(ends),
                    {describe(plan.values[value], value)}, {}, {});
      ends++;
    }
  }
  check(dnnl_graph_graph_finalize(made), "finishing the graph");
  check(dnnl_graph_graph_filter(made, dnnl_graph_partition_policy_fusion), "partitioning");
  size_t partitions;
  check(dnnl_graph_graph_get_partition_num(made, &partitions), "counting partitions");
  std::vector<dnnl_graph_partition_t> handles(partitions);
  // A region may hold nothing but operators of our own.
  if (partitions > 0) check(dnnl_graph_graph_get_partitions(made, partitions, handles.data()), "reading partitions");
  std::vector<PartitionOwner> owned(handles.begin(), handles.end());
  std::vector<Group> groups;
  for (PartitionOwner& partition : owned) {
    size_t size;
    check(dnnl_graph_partition_get_op_num(partition.get(), &size), "counting operators");
    std::vector<size_t> ids(size);
    check(dnnl_graph_partition_get_ops(partition.get(), size, ids.data()), "reading operators");
    if (std::all_of(ids.begin(), ids.end(), [&](size_t id) { return id >= count; })) continue;  // an end
    std::sort(ids.begin(), ids.end());
    Group group;
    for (size_t id : ids) {
      if (id >= count) continue;
      const Operation& operation = plan.operations[id];
      group.operations.push_back(id);
      // A product dequantizes both factors: said once.
      const bool again = operation.kind == dnnl_graph_op_dequantize && group.name.find(operation.name) != group.name.npos;
      if (again) continue;
      group.name += (group.name.empty() ? "" : "+") + operation.name;
      group.handles += (group.handles.empty() ? "" : ",") + std::to_string(operation.debug_handle);
    }
    uint8_t supported;
    check(dnnl_graph_partition_is_supported(partition.get(), &supported), "asking for support");
    if (!supported) throw OneDnnError("this oneDNN does not run " + group.name);
    group.inputs =
        ports(partition.get(), dnnl_graph_partition_get_input_ports_num, dnnl_graph_partition_get_input_ports);
    group.outputs =
        ports(partition.get(), dnnl_graph_partition_get_output_ports_num, dnnl_graph_partition_get_output_ports);
    group.partition = std::move(partition);
    groups.push_back(std::move(group));
  }
  for (size_t i = 0; i < count; i++) {
    if (is_own(plan.operations[i])) groups.push_back(own_group(plan, i));
  }
  return join_linears(plan, order(plan, std::move(groups)));
}

}  // namespace edgex

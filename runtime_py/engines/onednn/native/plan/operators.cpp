#include "plan/operators.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>

#include "oneapi/dnnl/dnnl_graph_types.h"

namespace edgex {

namespace {

// As ExecuTorch's: a size is an int32.
constexpr int64_t kMostSize = INT32_MAX;
// As many as `run_own` has places for, but the result.
constexpr uint32_t kMostConcatenated = 4096, kMostOwnConcatenated = 63;
using Type = Attribute::Type;

// What a kind does with the element types of its tensors.
enum class Types { kAlike, kFloat32, kOfNorm, kQuantize, kDequantize, kCast, kEmbedding, kWhere, kScatter, kCache, kCache8, kLinear4Bit, kLinear8Bit };

struct AttributeRule {
  int code;
  Type type;
  int64_t least = 0, most = 0;          // of integers
  std::vector<const char*> texts = {};  // of a string, those that edgex writes
  bool optional = false;
};

struct Rule {
  uint32_t fewest, most;  // inputs
  Types types;
  std::vector<AttributeRule> attributes;
};

AttributeRule number(int code) { return {code, Type::kFloat}; }
AttributeRule flag(int code, bool optional = false) { return {code, Type::kBool, 0, 0, {}, optional}; }
AttributeRule sizes(int code, int64_t least) { return {code, Type::kIntegers, least, kMostSize}; }
AttributeRule text(int code, std::vector<const char*> texts) { return {code, Type::kString, 0, 0, std::move(texts)}; }
AttributeRule dimension(int code, bool optional = false) {
  return {code, Type::kInteger, 0, static_cast<int64_t>(kMaxRank) - 1, {}, optional};
}

// Operators by number, those with attributes last.
constexpr int kOfOne[] = {dnnl_graph_op_abs,     dnnl_graph_op_exp,  dnnl_graph_op_gelu, dnnl_graph_op_hard_swish,
                          dnnl_graph_op_log,     dnnl_graph_op_mish, dnnl_graph_op_relu, dnnl_graph_op_sigmoid,
                          dnnl_graph_op_sqrt,    dnnl_graph_op_square, dnnl_graph_op_tanh};
constexpr int kOfTwo[] = {dnnl_graph_op_add,     dnnl_graph_op_divide,   dnnl_graph_op_maximum,
                          dnnl_graph_op_minimum, dnnl_graph_op_multiply, dnnl_graph_op_subtract};
constexpr int kWithNumbers[] = {dnnl_graph_op_round,      dnnl_graph_op_clamp,    dnnl_graph_op_elu,
                                dnnl_graph_op_leaky_relu, dnnl_graph_op_softplus, dnnl_graph_op_hard_sigmoid};

std::unordered_map<int, Rule> make_rules() {
  std::unordered_map<int, Rule> rules;
  for (int kind : kOfOne) rules[kind] = {1, 1, Types::kAlike, {}};
  rules[dnnl_graph_op_reorder] = {1, 1, Types::kAlike, {}};
  for (int kind : kOfTwo) rules[kind] = {2, 2, Types::kAlike, {}};
  for (int kind : {dnnl_graph_op_reduce_max, dnnl_graph_op_reduce_mean, dnnl_graph_op_reduce_min,
                   dnnl_graph_op_reduce_prod, dnnl_graph_op_reduce_sum}) {
    const AttributeRule axes{dnnl_graph_op_attr_axes, Type::kIntegers, 0, static_cast<int64_t>(kMaxRank) - 1};
    rules[kind] = {1, 1, Types::kAlike, {axes, flag(dnnl_graph_op_attr_keep_dims)}};
  }
  for (int kind : {dnnl_graph_op_softmax, dnnl_graph_op_log_softmax}) {
    rules[kind] = {1, 1, Types::kAlike, {dimension(dnnl_graph_op_attr_axis)}};
  }
  rules[dnnl_graph_op_round] = {1, 1, Types::kFloat32, {}};
  rules[dnnl_graph_op_clamp] = {
      1, 1, Types::kAlike, {number(dnnl_graph_op_attr_min), number(dnnl_graph_op_attr_max)}};
  rules[dnnl_graph_op_elu] = {1, 1, Types::kAlike, {number(dnnl_graph_op_attr_alpha)}};
  rules[dnnl_graph_op_leaky_relu] = {1, 1, Types::kAlike, {number(dnnl_graph_op_attr_alpha)}};
  rules[dnnl_graph_op_softplus] = {1, 1, Types::kAlike, {number(dnnl_graph_op_attr_beta)}};
  rules[dnnl_graph_op_hard_sigmoid] = {
      1, 1, Types::kAlike, {number(dnnl_graph_op_attr_alpha), number(dnnl_graph_op_attr_beta)}};
  rules[dnnl_graph_op_type_cast] = {1, 1, Types::kCast, {}};
  rules[dnnl_graph_op_concat] = {1, kMostConcatenated, Types::kAlike, {dimension(dnnl_graph_op_attr_axis)}};
  rules[dnnl_graph_op_matmul] = {2, 3, Types::kAlike, {flag(dnnl_graph_op_attr_transpose_b, true)}};

  const AttributeRule images = text(dnnl_graph_op_attr_data_format, {"NCX"});
  const AttributeRule strides = sizes(dnnl_graph_op_attr_strides, 1), dilations = sizes(dnnl_graph_op_attr_dilations, 1),
                      begin = sizes(dnnl_graph_op_attr_pads_begin, 0), end = sizes(dnnl_graph_op_attr_pads_end, 0),
                      kernel = sizes(dnnl_graph_op_attr_kernel, 1);
  const AttributeRule groups{dnnl_graph_op_attr_groups, Type::kInteger, 1, kMostSize};
  rules[dnnl_graph_op_convolution] = {
      2, 3, Types::kAlike,
      {strides, begin, end, dilations, groups, images, text(dnnl_graph_op_attr_weights_format, {"OIX"})}};
  rules[dnnl_graph_op_conv_transpose] = {
      2, 3, Types::kAlike,
      {strides, begin, end, dilations, groups, images, text(dnnl_graph_op_attr_weights_format, {"IOX"}),
       sizes(dnnl_graph_op_attr_output_padding, 0)}};
  rules[dnnl_graph_op_max_pool] = {1, 1, Types::kAlike,
                                   {kernel, strides, begin, end, dilations, images,
                                    text(dnnl_graph_op_attr_rounding_type, {"floor", "ceil"})}};
  rules[dnnl_graph_op_avg_pool] = {1, 1, Types::kAlike,
                                   {kernel, strides, begin, end, images, flag(dnnl_graph_op_attr_exclude_pad),
                                    text(dnnl_graph_op_attr_rounding_type, {"floor"})}};
  rules[dnnl_graph_op_interpolate] = {
      1, 1, Types::kAlike,
      {sizes(dnnl_graph_op_attr_sizes, 1), text(dnnl_graph_op_attr_mode, {"nearest", "bilinear"}),
       text(dnnl_graph_op_attr_coordinate_transformation_mode, {"half_pixel"}), images}};
  rules[dnnl_graph_op_batch_norm_inference] = {5, 5, Types::kOfNorm, {number(dnnl_graph_op_attr_epsilon), images}};
  const AttributeRule last{dnnl_graph_op_attr_begin_norm_axis, Type::kInteger, -1, -1};
  rules[dnnl_graph_op_layer_norm] = {1, 3, Types::kOfNorm,
                                     {number(dnnl_graph_op_attr_epsilon), flag(dnnl_graph_op_attr_keep_stats),
                                      flag(dnnl_graph_op_attr_use_affine), last}};
  // The zero points of unsigned integers are 128 higher.
  const std::vector<AttributeRule> encoding = {text(dnnl_graph_op_attr_qtype, {"per_tensor", "per_channel"}),
                                               dimension(dnnl_graph_op_attr_axis, true),
                                               {dnnl_graph_op_attr_scales, Type::kFloats},
                                               {dnnl_graph_op_attr_zps, Type::kIntegers, -128, 255}};
  rules[dnnl_graph_op_quantize] = {1, 1, Types::kQuantize, encoding};
  rules[dnnl_graph_op_dequantize] = {1, 1, Types::kDequantize, encoding};

  rules[kAttention] = {3, 4, Types::kAlike, {number(dnnl_graph_op_attr_alpha)}};
  for (int kind : {kGuardedAttention, kSoftmaxAttention}) {
    rules[kind] = {3, 5, Types::kAlike, {number(dnnl_graph_op_attr_alpha)}};
  }
  for (int kind = kAdd; kind <= kMinimum; kind++) rules[kind] = {2, 2, Types::kAlike, {}};
  for (int kind : {kSine, kCosine}) rules[kind] = {1, 1, Types::kFloat32, {}};
  rules[kEmbedding] = {2, 2, Types::kEmbedding, {}};
  rules[kWhere] = {3, 3, Types::kWhere, {}};
  rules[kConcat] = {1, kMostOwnConcatenated, Types::kAlike, {dimension(dnnl_graph_op_attr_axis)}};
  rules[kLinear4Bit] = {4, 5, Types::kLinear4Bit, {}};
  rules[kLinear8Bit] = {4, 5, Types::kLinear8Bit, {}};
  const std::vector<AttributeRule> of_text = {number(dnnl_graph_op_attr_alpha), {kWindow, Type::kInteger, 0, kMostSize}};
  rules[kCachedAttention] = {6, 6, Types::kCache, of_text};
  rules[kCachedAttention8] = {8, 8, Types::kCache8, of_text};
  rules[kGather] = {2, 2, Types::kEmbedding, {dimension(dnnl_graph_op_attr_axis)}};
  for (int kind : {kScatterAdd, kAddRows}) {
    rules[kind] = {3, 3, Types::kScatter, {dimension(dnnl_graph_op_attr_axis)}};
  }
  return rules;
}

const Rule& find_rule(int kind) {
  static const std::unordered_map<int, Rule> rules = make_rules();
  const auto found = rules.find(kind);
  require_sound(found != rules.end(), "an unknown kind of operator");
  return found->second;
}

bool is_float(int dtype) { return dtype == kFloat32 || dtype == kBfloat16; }

bool is_int8(int dtype) { return dtype == kInt8 || dtype == kUint8; }

bool fits(Types types, const std::vector<int>& inputs, int result) {
  const auto all = [&](int dtype) {
    return std::all_of(inputs.begin(), inputs.end(), [&](int input) { return input == dtype; });
  };
  switch (types) {
    case Types::kAlike:
      return is_float(result) && all(result);
    case Types::kFloat32:
      return result == kFloat32 && all(kFloat32);
    case Types::kOfNorm:  // its parameters are float32 in any case
      return is_float(result) && inputs[0] == result &&
             std::all_of(inputs.begin() + 1, inputs.end(), [](int input) { return input == kFloat32; });
    case Types::kQuantize:
      return is_int8(result) && inputs[0] == kFloat32;
    case Types::kDequantize:
      return result == kFloat32 && is_int8(inputs[0]);
    case Types::kCast:
      return is_float(result) && is_float(inputs[0]);
    case Types::kEmbedding:
      return is_float(result) && inputs[0] == result && (inputs[1] == kInt32 || inputs[1] == kInt64);
    case Types::kScatter:
      return is_float(result) && inputs[0] == result && (inputs[1] == kInt32 || inputs[1] == kInt64) && inputs[2] == result;
    case Types::kLinear4Bit:
    case Types::kLinear8Bit:
      for (size_t i = 0; i < inputs.size(); i++) {
        const int weights = types == Types::kLinear4Bit ? kUint8 : kInt8;
        if (inputs[i] != (i == 1 ? weights : kFloat32)) return false;
      }
      return result == kFloat32;
    case Types::kCache:
      return result == kFloat32 && inputs[5] == kInt64 &&
             std::all_of(inputs.begin(), inputs.begin() + 5, [](int input) { return input == kFloat32; });
    case Types::kCache8: {
      const std::vector<int> expected = {kFloat32, kFloat32, kFloat32, kInt8, kInt8, kFloat32, kFloat32, kInt64};
      return result == kFloat32 && inputs == expected;
    }
    case Types::kWhere:
      return is_float(result) && inputs[0] == kBool && inputs[1] == result && inputs[2] == result;
  }
  return false;
}

void check_value(const AttributeRule& rule, const Attribute& attribute) {
  require_sound(attribute.type == rule.type, "an attribute of another type");
  const bool bounded = rule.code == dnnl_graph_op_attr_min || rule.code == dnnl_graph_op_attr_max;
  for (float value : attribute.floats) {
    require_sound(bounded ? !std::isnan(value) : std::isfinite(value), "an attribute that is no number");
    require_sound(rule.type == Type::kFloat || value > 0, "a scale that is not above 0");
  }
  if (rule.type == Type::kInteger || rule.type == Type::kIntegers) {
    for (int64_t value : attribute.integers) {
      require_sound(value >= rule.least && value <= rule.most, "an attribute outside of its range");
    }
  }
  if (rule.type == Type::kString) {
    require_sound(std::find(rule.texts.begin(), rule.texts.end(), attribute.text) != rule.texts.end(),
                  "an attribute with an unknown text");
  }
}

// What several attributes of one operator must be together.
void check_together(const Operation& operation) {
  const auto find = [&](int code) { return find_attribute(operation, code); };
  switch (operation.kind) {
    case dnnl_graph_op_clamp:
      require_sound(find(dnnl_graph_op_attr_min)->floats[0] <= find(dnnl_graph_op_attr_max)->floats[0],
                    "a clamp between nothing");
      break;
    case dnnl_graph_op_softplus:
      require_sound(find(dnnl_graph_op_attr_beta)->floats[0] > 0, "a softplus that falls");
      break;
    case dnnl_graph_op_layer_norm: {
      const bool affine = find(dnnl_graph_op_attr_use_affine)->integers[0] != 0;
      require_sound(operation.inputs.size() == (affine ? 3 : 1), "a layer norm of other inputs");
      require_sound(find(dnnl_graph_op_attr_keep_stats)->integers[0] == 0, "a layer norm that keeps its statistics");
      break;
    }
    case dnnl_graph_op_quantize:
    case dnnl_graph_op_dequantize: {
      const bool by_channel = find(dnnl_graph_op_attr_qtype)->text == "per_channel";
      const size_t scales = find(dnnl_graph_op_attr_scales)->floats.size();
      require_sound(find(dnnl_graph_op_attr_zps)->integers.size() == scales, "other zero points than scales");
      require_sound(by_channel ? find(dnnl_graph_op_attr_axis) != nullptr : scales == 1, "scales of no channels");
      break;
    }
    default:
      break;
  }
  for (int code : {dnnl_graph_op_attr_axes, dnnl_graph_op_attr_keep_dims}) {
    const Attribute* attribute = find(code);
    if (attribute == nullptr) continue;
    const auto& numbers = attribute->integers;
    const std::set<int64_t> distinct(numbers.begin(), numbers.end());
    const bool sound = code == dnnl_graph_op_attr_axes ? !numbers.empty() && distinct.size() == numbers.size()
                                                       : numbers[0] == 1;
    require_sound(sound, "a reduction of other dimensions than edgex writes");
  }
}

// Of a constant, whose sizes are known: whether its elements lie in the order of its dimensions.
bool lies_in_order(const Value& value) {
  int64_t expected = 1;
  for (size_t i = value.dims.size(); i-- > 0;) {
    if (value.dims[i] != 1 && value.strides[i] != expected) return false;
    expected *= value.dims[i];
  }
  return true;
}

}  // namespace

bool is_elementwise(int kind) {
  const auto is_among = [&](const auto& kinds) { return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds); };
  return is_among(kOfOne) || is_among(kOfTwo) || is_among(kWithNumbers);
}

const Attribute* find_attribute(const Operation& operation, int code) {
  const auto found = std::find_if(operation.attributes.begin(), operation.attributes.end(),
                                  [&](const Attribute& attribute) { return attribute.code == code; });
  return found == operation.attributes.end() ? nullptr : &*found;
}

bool may_repeat(const Operation& operation) {
  return operation.kind == dnnl_graph_op_reorder || is_own_attention(operation.kind) || is_own_binary(operation.kind) ||
         is_own_unary(operation.kind) || operation.kind == kWhere || operation.kind == kGather || is_scatter(operation.kind) ||
         is_cached_attention(operation.kind) || operation.kind == kConcat || operation.kind == kLinear4Bit || operation.kind == kLinear8Bit;
}

void check_operation(const Plan& plan, const Operation& operation) {
  const Rule& rule = find_rule(operation.kind);
  require_sound(operation.inputs.size() >= rule.fewest && operation.inputs.size() <= rule.most &&
                    operation.outputs.size() == 1,
                "an operator with another number of tensors");
  std::vector<int> inputs;
  for (uint32_t input : operation.inputs) inputs.push_back(plan.values[input].dtype);
  require_sound(fits(rule.types, inputs, plan.values[operation.outputs[0]].dtype), "an operator of other element types");
  size_t known = 0;
  for (const AttributeRule& attribute : rule.attributes) {
    const Attribute* found = find_attribute(operation, attribute.code);
    require_sound(found != nullptr || attribute.optional, "an operator without an attribute that it needs");
    if (found == nullptr) continue;
    check_value(attribute, *found);
    known++;
  }
  // No other one, and none twice.
  require_sound(known == operation.attributes.size(), "an operator with an attribute that it has not");
  check_together(operation);
}

void check_memory(const Plan& plan) {
  std::vector<uint32_t> reads(plan.values.size());
  std::vector<bool> viewed(plan.values.size());
  for (const Operation& operation : plan.operations) {
    for (uint32_t input : operation.inputs) reads[input]++;
  }
  for (const Value& value : plan.values) {
    if (value.storage == Storage::kAlias) viewed[value.index] = true;
  }
  for (const Operation& operation : plan.operations) {
    if (operation.kind == kLinear4Bit || operation.kind == kLinear8Bit) {
      for (size_t i = 1; i < operation.inputs.size(); i++) {
        const Value& value = plan.values[operation.inputs[i]];
        require_sound(value.storage == Storage::kConstant && lies_in_order(value), "weights that are no constants");
      }
    }
    if (!is_cached_attention(operation.kind)) continue;
    for (size_t i = 3; i + 1 < operation.inputs.size(); i++) {
      const uint32_t id = operation.inputs[i];
      const Value& cache = plan.values[id];
      require_sound(cache.storage == Storage::kArgument && cache.index < plan.input_count, "a cache that is no input");
      require_sound(reads[id] == 1 && !viewed[id], "a cache that something else reads");
    }
  }
}

}  // namespace edgex

// How the sizes of an operator's tensors hang together, for every kind that a plan may hold.
#include <algorithm>
#include <string>

#include "oneapi/dnnl/dnnl_graph_types.h"
#include "plan/operators.h"

namespace edgex {

namespace {

using Inputs = std::vector<const Dims*>;

void require_fit(bool condition) { require_sound(condition, "an operator whose sizes do not fit each other"); }

const std::vector<int64_t>& integers(const Operation& operation, int code) {
  return find_attribute(operation, code)->integers;
}

// Of an attribute with one number for each dimension of an image.
const std::vector<int64_t>& spatial(const Operation& operation, int code, size_t count) {
  const std::vector<int64_t>& numbers = integers(operation, code);
  require_fit(numbers.size() == count);
  return numbers;
}

bool repeats_to(int64_t size, int64_t result) { return size == 1 || size == result; }

// The second is repeated to the first, which is the result's size.
void check_of_two(const Inputs& inputs, const Dims& result) {
  const Dims& other = *inputs[1];
  require_fit(*inputs[0] == result && other.size() <= result.size());
  const size_t missing = result.size() - other.size();
  for (size_t i = 0; i < other.size(); i++) require_fit(repeats_to(other[i], result[missing + i]));
}

void check_concat(const Operation& operation, const Inputs& inputs, const Dims& result) {
  const auto axis = static_cast<size_t>(integers(operation, dnnl_graph_op_attr_axis)[0]);
  require_fit(axis < result.size());
  int64_t sum = 0;
  for (const Dims* input : inputs) {
    require_fit(input->size() == result.size());
    for (size_t i = 0; i < result.size(); i++) require_fit(i == axis || (*input)[i] == result[i]);
    sum += (*input)[axis];
  }
  require_fit(sum == result[axis]);
}

void check_matmul(const Operation& operation, const Inputs& inputs, const Dims& result) {
  const Dims &left = *inputs[0], &right = *inputs[1];
  const size_t rank = result.size();
  require_fit(rank >= 2 && left.size() == rank && (right.size() == rank || right.size() == 2));
  const Attribute* flag = find_attribute(operation, dnnl_graph_op_attr_transpose_b);
  const bool transposed = flag != nullptr && flag->integers[0] != 0;
  const int64_t rows = right[right.size() - (transposed ? 1 : 2)], columns = right[right.size() - (transposed ? 2 : 1)];
  require_fit(left[rank - 1] == rows && left[rank - 2] == result[rank - 2] && columns == result[rank - 1]);
  for (size_t i = 0; i + 2 < rank; i++) {
    const int64_t other = right.size() == rank ? right[i] : 1;
    require_fit(repeats_to(left[i], result[i]) && repeats_to(other, result[i]));
    require_fit(left[i] == result[i] || other == result[i]);
  }
  if (inputs.size() == 3) require_fit(*inputs[2] == Dims{columns});
}

void check_convolution(const Operation& operation, const Inputs& inputs, const Dims& result) {
  const bool transposed = operation.kind == dnnl_graph_op_conv_transpose;
  const Dims &image = *inputs[0], &weight = *inputs[1];
  const size_t rank = result.size(), count = rank - 2;
  require_fit((rank == 3 || rank == 4) && image.size() == rank && weight.size() == rank);
  const int64_t groups = integers(operation, dnnl_graph_op_attr_groups)[0];
  const int64_t read = image[1], made = result[1];
  require_fit(read % groups == 0 && made % groups == 0 && image[0] == result[0]);
  require_fit(transposed ? weight[0] == read && weight[1] == made / groups : weight[0] == made && weight[1] == read / groups);
  const auto& strides = spatial(operation, dnnl_graph_op_attr_strides, count);
  const auto& dilations = spatial(operation, dnnl_graph_op_attr_dilations, count);
  const auto& begin = spatial(operation, dnnl_graph_op_attr_pads_begin, count);
  const auto& end = spatial(operation, dnnl_graph_op_attr_pads_end, count);
  for (size_t i = 0; i < count; i++) {
    // Each is below 2^31, so that no product overflows.
    const int64_t reach = dilations[i] * (weight[2 + i] - 1), padding = begin[i] + end[i];
    if (transposed) {
      const int64_t more = spatial(operation, dnnl_graph_op_attr_output_padding, count)[i];
      require_fit(more < std::max(strides[i], dilations[i]));
      require_fit((image[2 + i] - 1) * strides[i] - padding + reach + more + 1 == result[2 + i]);
    } else {
      const int64_t room = image[2 + i] + padding - reach - 1;
      require_fit(room >= 0 && room / strides[i] + 1 == result[2 + i]);
    }
  }
  if (inputs.size() == 3) require_fit(*inputs[2] == Dims{made});
}

void check_pool(const Operation& operation, const Dims& image, const Dims& result) {
  require_fit(image.size() == 4 && result.size() == 4 && image[0] == result[0] && image[1] == result[1]);
  const auto& kernel = spatial(operation, dnnl_graph_op_attr_kernel, 2);
  const auto& strides = spatial(operation, dnnl_graph_op_attr_strides, 2);
  const auto& begin = spatial(operation, dnnl_graph_op_attr_pads_begin, 2);
  const auto& end = spatial(operation, dnnl_graph_op_attr_pads_end, 2);
  const bool ceil = find_attribute(operation, dnnl_graph_op_attr_rounding_type)->text == "ceil";
  for (size_t i = 0; i < 2; i++) {
    const int64_t step = operation.kind == dnnl_graph_op_max_pool ? spatial(operation, dnnl_graph_op_attr_dilations, 2)[i] : 1;
    const int64_t reach = step * (kernel[i] - 1), size = image[2 + i];
    const int64_t room = size + begin[i] + end[i] - reach - 1;
    // Every window has an element of the image.
    require_fit(room >= 0 && begin[i] <= reach && end[i] <= reach);
    int64_t windows = room / strides[i] + 1;
    if (ceil && room % strides[i] != 0 && windows * strides[i] < size + begin[i]) windows++;
    require_fit(windows == result[2 + i]);
  }
}

void check_reduction(const Operation& operation, const Dims& from, const Dims& result) {
  require_fit(from.size() == result.size());
  const auto& axes = integers(operation, dnnl_graph_op_attr_axes);
  for (int64_t axis : axes) require_fit(static_cast<size_t>(axis) < from.size());
  for (size_t i = 0; i < from.size(); i++) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    require_fit(result[i] == (reduced ? 1 : from[i]));
  }
}

void check_interpolation(const Operation& operation, const Dims& from, const Dims& result) {
  require_fit(from.size() == 4 && result.size() == 4 && from[0] == result[0] && from[1] == result[1]);
  const auto& sizes = spatial(operation, dnnl_graph_op_attr_sizes, 2);
  require_fit(sizes[0] == result[2] && sizes[1] == result[3]);
}

void check_norm(const Operation& operation, const Inputs& inputs, const Dims& result) {
  const bool by_channel = operation.kind == dnnl_graph_op_batch_norm_inference;
  require_fit(*inputs[0] == result && result.size() >= (by_channel ? 3 : 2));
  for (size_t i = 1; i < inputs.size(); i++) require_fit(*inputs[i] == Dims{by_channel ? result[1] : result.back()});
}

void check_encoding(const Operation& operation, const Dims& from, const Dims& result) {
  require_fit(from == result);
  if (find_attribute(operation, dnnl_graph_op_attr_qtype)->text != "per_channel") return;
  const auto axis = static_cast<size_t>(integers(operation, dnnl_graph_op_attr_axis)[0]);
  const auto scales = static_cast<int64_t>(find_attribute(operation, dnnl_graph_op_attr_scales)->floats.size());
  require_fit(axis < result.size() && scales == result[axis]);
}

void check_attention(const Inputs& inputs, const Dims& result) {
  const size_t rank = result.size();
  require_fit(rank >= 2);
  for (const Dims* input : inputs) {
    require_fit(input->size() >= 2 && input->size() <= rank);
    for (size_t i = 0; i + 2 < input->size(); i++) require_fit(repeats_to((*input)[i], result[rank - input->size() + i]));
  }
  const auto rows = [](const Dims& dims) { return dims[dims.size() - 2]; };
  const Dims &query = *inputs[0], &key = *inputs[1], &value = *inputs[2];
  require_fit(rows(query) == rows(result) && query.back() == rows(key) && key.back() == rows(value) &&
              value.back() == result.back());
  for (size_t mask = 3; mask < inputs.size(); mask++) {
    require_fit(repeats_to(rows(*inputs[mask]), rows(query)) && repeats_to(inputs[mask]->back(), key.back()));
  }
}

void check_repeated(const Inputs& inputs, const Dims& result) {
  for (const Dims* input : inputs) {
    require_fit(input->size() <= result.size());
    for (size_t i = 0; i < input->size(); i++) require_fit(repeats_to((*input)[i], result[result.size() - input->size() + i]));
  }
}

void check_embedding(const Inputs& inputs, const Dims& result) {
  const Dims &table = *inputs[0], &indices = *inputs[1];
  require_fit(table.size() == 2 && table[1] == result.back());
  const bool single = result.size() == 1 && indices == Dims{1};
  require_fit(single || std::equal(indices.begin(), indices.end(), result.begin(), result.end() - 1));
}

void check_gather(const Operation& operation, const Inputs& inputs, const Dims& result) {
  const Dims &table = *inputs[0], &indices = *inputs[1];
  const auto axis = static_cast<size_t>(integers(operation, dnnl_graph_op_attr_axis)[0]);
  require_fit(indices == result && table.size() == result.size() && axis < result.size());
  for (size_t i = 0; i < result.size(); i++) require_fit(i == axis || result[i] <= table[i]);
}

void check_scatter(const Operation& operation, const Inputs& inputs, const Dims& result) {
  const Dims &indices = *inputs[1], &source = *inputs[2];
  const auto axis = static_cast<size_t>(integers(operation, dnnl_graph_op_attr_axis)[0]);
  require_fit(*inputs[0] == result && source.size() == result.size() && axis < result.size());
  const bool elements = operation.kind == kScatterAdd;
  require_fit(elements ? indices == source : indices == Dims{source[axis]});
  for (size_t i = 0; i < result.size(); i++) {
    require_fit(i == axis || (elements ? source[i] <= result[i] : source[i] == result[i]));
  }
}

void check_low_bit_linear(const Operation& operation, const Inputs& inputs, const Dims& result) {
  // As `packing.py` has it: blocks of 16 outputs, groups of inputs, of 4 at a time or 8.
  constexpr int64_t kOutputs = 16, kMostInputs = 1 << 16;
  const bool four = operation.kind == kLinear4Bit;
  const int64_t each = four ? kOutputs / 2 : kOutputs;
  const Dims &x = *inputs[0], &weights = *inputs[1];
  require_fit(weights.size() == 3 && x.size() == result.size() && std::equal(x.begin(), x.end() - 1, result.begin()));
  const int64_t blocks = weights[0], groups = weights[1], group = weights[2] / each;
  require_fit(weights[2] % each == 0 && group % (four ? 8 : 4) == 0 && group <= kMostInputs);
  const int64_t depth = groups * group, outputs = result.back();
  require_fit(groups == 1 ? x.back() <= depth && x.back() > depth - 4 : x.back() == depth);
  require_fit(outputs <= blocks * kOutputs && outputs > (blocks - 1) * kOutputs);
  require_fit(*inputs[2] == Dims({blocks, groups, kOutputs}) && *inputs[3] == Dims({blocks, kOutputs}));
  if (inputs.size() == 5) require_fit(*inputs[4] == Dims{outputs});
}

void check_cached_attention(const Inputs& inputs, const Dims& result) {
  for (size_t i = 0; i < 5; i++) require_fit(inputs[i]->size() == 4 && (*inputs[i])[0] == 1);
  const Dims &query = *inputs[0], &keys = *inputs[1], &values = *inputs[2], &cache = *inputs[3], &other = *inputs[4];
  require_fit(query[2] == keys[2] && query[2] == values[2] && query[3] == keys[3] && query[1] % keys[1] == 0);
  require_fit(keys[1] == values[1] && cache == Dims({1, keys[1], cache[2], keys[3]}) && query[2] <= cache[2]);
  require_fit(other == Dims({1, keys[1], cache[2], values[3]}));
  for (size_t i = 5; i + 1 < inputs.size(); i++) require_fit(*inputs[i] == Dims({1, keys[1], cache[2], 1}));
  require_fit(*inputs.back() == Dims{1} && result == Dims({1, query[1], query[2], values[3]}));
}

}  // namespace

void check_sizes(const Operation& operation, const Inputs& inputs, const Dims& result) {
  switch (operation.kind) {
    case dnnl_graph_op_add:
    case dnnl_graph_op_divide:
    case dnnl_graph_op_maximum:
    case dnnl_graph_op_minimum:
    case dnnl_graph_op_multiply:
    case dnnl_graph_op_subtract:
      return check_of_two(inputs, result);
    case dnnl_graph_op_concat:
    case kConcat:
      return check_concat(operation, inputs, result);
    case dnnl_graph_op_matmul:
      return check_matmul(operation, inputs, result);
    case dnnl_graph_op_convolution:
    case dnnl_graph_op_conv_transpose:
      return check_convolution(operation, inputs, result);
    case dnnl_graph_op_max_pool:
    case dnnl_graph_op_avg_pool:
      return check_pool(operation, *inputs[0], result);
    case dnnl_graph_op_reduce_max:
    case dnnl_graph_op_reduce_mean:
    case dnnl_graph_op_reduce_min:
    case dnnl_graph_op_reduce_prod:
    case dnnl_graph_op_reduce_sum:
      return check_reduction(operation, *inputs[0], result);
    case dnnl_graph_op_interpolate:
      return check_interpolation(operation, *inputs[0], result);
    case dnnl_graph_op_batch_norm_inference:
    case dnnl_graph_op_layer_norm:
      return check_norm(operation, inputs, result);
    case dnnl_graph_op_quantize:
    case dnnl_graph_op_dequantize:
      return check_encoding(operation, *inputs[0], result);
    case dnnl_graph_op_softmax:
    case dnnl_graph_op_log_softmax:
      require_fit(static_cast<size_t>(integers(operation, dnnl_graph_op_attr_axis)[0]) < result.size());
      return require_fit(*inputs[0] == result);
    case kAttention:
    case kGuardedAttention:
    case kSoftmaxAttention:
      return check_attention(inputs, result);
    case kLinear4Bit:
    case kLinear8Bit:
      return check_low_bit_linear(operation, inputs, result);
    case kCachedAttention:
    case kCachedAttention8:
      return check_cached_attention(inputs, result);
    case kAdd:
    case kSubtract:
    case kMultiply:
    case kDivide:
    case kMaximum:
    case kMinimum:
      return check_repeated(inputs, result);
    case kWhere:
      return check_repeated(inputs, result);
    case kGather:
      return check_gather(operation, inputs, result);
    case kScatterAdd:
    case kAddRows:
      return check_scatter(operation, inputs, result);
    case kEmbedding:
      return check_embedding(inputs, result);
    default:  // element by element
      return require_fit(*inputs[0] == result);
  }
}

}  // namespace edgex

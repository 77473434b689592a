#include "convolution/windows.h"

#include "oneapi/dnnl/dnnl_graph_types.h"
#include "plan/operators.h"

namespace edgex {

namespace {

Taps taps_along(const Operation& convolution, const std::vector<Strided>& inputs, const Strided& result, size_t from_last) {
  const auto attribute = [&](int code, size_t at) { return find_attribute(convolution, code)->integers[at]; };
  const size_t spatial = result.dims.size() - 2;
  if (from_last >= spatial) return {1, 1, 1, 1, 1, 0, 0, 0};
  const size_t at = spatial - 1 - from_last;
  return {inputs[0].dims[at + 2],
          result.dims[at + 2],
          inputs[1].dims[at + 2],
          attribute(dnnl_graph_op_attr_strides, at),
          attribute(dnnl_graph_op_attr_dilations, at),
          attribute(dnnl_graph_op_attr_pads_begin, at),
          inputs[0].strides[at + 2],
          result.strides[at + 2]};
}

}  // namespace

ChannelWindow window_of(const Operation& convolution, const std::vector<Strided>& inputs, const Strided& result) {
  return {taps_along(convolution, inputs, result, 1), taps_along(convolution, inputs, result, 0)};
}

}  // namespace edgex

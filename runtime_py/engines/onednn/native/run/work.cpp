// How much a group computes, and whether that is worth the threads' time.
#include "run/executable.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace edgex {

namespace {

// In multiplications, of which a core does this many in some microseconds: about what handing work to other threads costs
// while these wait for it. Where other programs have the cores, a thread that was waited for came milliseconds later.
constexpr double kSmallWork = 256 << 10;
// What an element costs that is written, with a function of it, and one that is read.
constexpr double kWritten = 8, kRead = 2;

double elements(const std::vector<int64_t>& dims, size_t first = 0) {
  return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(std::min(first, dims.size())), dims.end(), 1.0,
                         std::multiplies<>());
}

}  // namespace

bool Executable::is_small(const Group& group) const {
  double work = 0;
  for (uint32_t input : group.inputs) work += kRead * elements(shapes_[input].dims);
  for (size_t number : group.operations) {
    const Operation& operation = plan_.operations[number];
    for (uint32_t output : operation.outputs) work += kWritten * elements(shapes_[output].dims);
    if (operation.inputs.size() < 2 || operation.outputs.empty()) continue;
    const std::vector<int64_t>& read = shapes_[operation.inputs[0]].dims;
    const std::vector<int64_t>& weights = shapes_[operation.inputs[1]].dims;
    const std::vector<int64_t>& made = shapes_[operation.outputs[0]].dims;
    // Each result of a convolution is as many products as an output channel has weights; transposed, each input is read so
    // often. Of a product of matrices, the longer side of the first one is at least what is summed over.
    if (operation.kind == dnnl_graph_op_convolution) work += elements(made) * elements(weights, 1);
    if (operation.kind == dnnl_graph_op_conv_transpose) work += elements(read) * elements(weights, 1);
    if (operation.kind == dnnl_graph_op_matmul && !read.empty()) {
      const int64_t rows = read.size() > 1 ? read[read.size() - 2] : 1;
      work += elements(made) * static_cast<double>(std::max(rows, read.back()));
    }
  }
  return work < kSmallWork;
}

}  // namespace edgex

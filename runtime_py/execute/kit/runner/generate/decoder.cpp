#include "generate/decoder.h"

#include <algorithm>

namespace edgex {

namespace {

Tensor make_whole(const InputSpec& spec, std::vector<int64_t> sizes, const std::vector<int64_t>& values) {
  Tensor tensor{spec.name, spec.dtype, std::move(sizes), nullptr};
  tensor.allocate();
  for (size_t at = 0; at < values.size(); at++) {
    if (spec.dtype == Dtype::kInt32)
      reinterpret_cast<int32_t*>(tensor.data.get())[at] = static_cast<int32_t>(values[at]);
    else
      reinterpret_cast<int64_t*>(tensor.data.get())[at] = values[at];
  }
  return tensor;
}

}  // namespace

Decoder::Decoder(Model& model, const GenerateOptions& options) : model_(model), options_(options) {}

Tensor Decoder::run(const std::vector<int64_t>& ids, int64_t position) {
  const auto total = static_cast<int64_t>(ids.size());
  Tensor scores;
  for (int64_t at = 0; at < total; at += options_.chunk())
    scores = run_part(ids.data() + at, std::min(options_.chunk(), total - at), position + at);
  return scores;
}

Tensor Decoder::run_part(const int64_t* ids, int64_t count, int64_t position) {
  const std::vector<InputSpec>& specs = options_.program.specs;
  std::vector<Tensor> inputs{make_whole(specs[0], {1, count}, {ids, ids + count})};
  if (specs.size() == 2) {
    // A scalar or [1] is the first token's position; [n] are all of them.
    const std::vector<Bound>& dims = specs[1].dims;
    const bool each = !dims.empty() && !dims[0].name.empty();
    std::vector<int64_t> places(each ? static_cast<size_t>(count) : 1);
    for (size_t at = 0; at < places.size(); at++) places[at] = position + static_cast<int64_t>(at);
    std::vector<int64_t> sizes;
    if (!dims.empty()) sizes.push_back(static_cast<int64_t>(places.size()));
    inputs.push_back(make_whole(specs[1], std::move(sizes), places));
  }
  check_inputs(specs, inputs);
  model_.prepare(inputs);
  model_.run();
  std::vector<Tensor> outputs = model_.outputs();
  if (outputs.size() != 1 || outputs[0].sizes.empty() || outputs[0].sizes.back() != options_.vocabulary ||
      outputs[0].count() == 0)
    throw EngineFailure("generate: the model does not give scores of " + std::to_string(options_.vocabulary) + " ids", 0);
  return std::move(outputs[0]);
}

}  // namespace edgex

#include "interface/options.h"

#include <map>

#include "interface/flags.h"

namespace edgex {

const char kUsage[] =
    "edgex-runner --model model.pte --inputs in.tensors [flags]; edgex-runner generate --help is about language models\n"
    "  --case KIND:STEPS:NAME  repeated; KIND is run, expect, quantized or refuse; default: run:1:\n"
    "                          expect@DB and quantized@DB have a limit of their own\n"
    "  --outputs FILE          outputs of the cases of kind run\n"
    "  --expected FILE         outputs that the cases of kind expect and quantized are compared with\n"
    "  --min-sqnr DB --atol X --rtol X --min-equal SHARE\n"
    "                          how near cases of kind expect must be; whole numbers: the share that must be equal\n"
    "  --quantized-min-sqnr DB, --quantized-atol X, --quantized-rtol X, --quantized-min-equal SHARE\n"
    "                          the same for cases of kind quantized\n"
    "  --input NAME:DTYPE:DIMS repeated, in order: 1,3,8,8 or batch=1..8,6 or scalar; checked before each run\n"
    "  --output NAME           repeated, in order\n"
    "  --state NAME            repeated: buffers that the model keeps, put back before each case\n"
    "  --threads N --warmup N|auto --runs N|auto\n"
    "  --plugin FILE           repeated, in order: libraries to load first\n"
    "  --sha256 HEX            of the model, checked before it is loaded; --no-hash does not compute it\n"
    "  --etdump FILE           record events of every run\n"
    "  --run-id ID             comes back in the answer\n"
    "The answer is JSON on stdout, an object a line. Exit code: 0; 2 flags or inputs; 4 outputs differ; 6 the engine.\n";

namespace {

Case parse_case(const std::string& text) {
  const size_t first = text.find(':');
  const size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) throw BadInput("--case " + text + ": expected KIND:STEPS:NAME");
  Case found{text.substr(0, first), text.substr(second + 1),
             parse_count("--case", text.substr(first + 1, second - first - 1)), {}};
  if (const size_t at = found.kind.find('@'); at != std::string::npos) {
    found.min_sqnr_db = parse_real("--case " + text, found.kind.substr(at + 1));
    found.kind.resize(at);
  }
  if (found.kind != "run" && !found.is_compared() && found.kind != "refuse")
    throw BadInput("--case " + text + ": the kind is run, expect, quantized or refuse");
  if (found.min_sqnr_db && !found.is_compared()) throw BadInput("--case " + text + ": nothing is compared");
  if (found.steps < 1) throw BadInput("--case " + text + ": at least one step");
  return found;
}

// Whether the flag, after the prefix, is one of a tolerance's; then it is set.
bool parse_tolerance(const std::string& flag, const std::string& prefix, const std::string& value, Tolerance& into) {
  if (flag == prefix + "min-sqnr") into.min_sqnr_db = parse_real(flag, value);
  else if (flag == prefix + "atol") into.atol = parse_real(flag, value);
  else if (flag == prefix + "rtol") into.rtol = parse_real(flag, value);
  else if (flag == prefix + "min-equal") into.min_equal = parse_real(flag, value);
  else return false;
  return true;
}

}  // namespace

Options parse_options(int count, char** arguments) {
  Options options;
  for (int at = 1; at < count; at++) {
    const std::string flag = arguments[at];
    if (flag == "--no-hash") {
      options.hash = false;
      continue;
    }
    if (flag.rfind("--", 0) != 0) throw BadInput("unknown argument: " + flag);
    if (at + 1 == count) throw BadInput(flag + " is unknown, or lacks its value");
    const std::string value = arguments[++at];
    if (parse_program_flag(flag, value, options)) continue;
    else if (flag == "--inputs") options.inputs = value;
    else if (flag == "--outputs") options.outputs = value;
    else if (flag == "--expected") options.expected = value;
    else if (flag == "--etdump") options.etdump = value;
    else if (flag == "--state") options.state.push_back(value);
    else if (flag == "--case") options.cases.push_back(parse_case(value));
    else if (flag == "--warmup") options.warmup = parse_count(flag, value);
    else if (flag == "--runs") options.runs = parse_count(flag, value);
    else if (parse_tolerance(flag, "--", value, options.tolerance)) continue;
    else if (Tolerance quantized = options.quantized_tolerance.value_or(Tolerance{});
             parse_tolerance(flag, "--quantized-", value, quantized))
      options.quantized_tolerance = quantized;
    else throw BadInput("unknown flag: " + flag);
  }
  check_program_flags(options);
  if (options.inputs.empty()) throw BadInput("--inputs is missing");
  for (const Case& one : options.cases) {
    if (one.is_compared() && options.expected.empty()) throw BadInput("--expected is missing");
    if (one.kind == "quantized" && !options.quantized_tolerance)
      throw BadInput("--quantized-min-sqnr is missing: there is a case of kind quantized");
  }
  if (options.cases.empty()) options.cases.push_back({"run", "", 1, {}});
  return options;
}

void check_inputs(const std::vector<InputSpec>& specs, const std::vector<Tensor>& tensors) {
  if (specs.empty()) return;
  if (specs.size() != tensors.size())
    throw BadInput(std::to_string(tensors.size()) + " inputs given, " + std::to_string(specs.size()) + " expected");
  std::map<std::string, int64_t> shared;
  for (size_t index = 0; index < specs.size(); index++) {
    const InputSpec& spec = specs[index];
    const Tensor& tensor = tensors[index];
    const std::string who = "input " + spec.name;
    if (tensor.dtype != spec.dtype) throw BadInput(who + " is " + name_of(tensor.dtype) + ", not " + name_of(spec.dtype));
    if (tensor.sizes.size() != spec.dims.size()) throw BadInput(who + " has another number of dimensions");
    for (size_t axis = 0; axis < spec.dims.size(); axis++) {
      const Bound& dim = spec.dims[axis];
      const int64_t size = tensor.sizes[axis];
      if (size < dim.min || size > dim.max)
        throw BadInput(who + " has size " + std::to_string(size) + " in dimension " + std::to_string(axis) +
                       ", outside " + std::to_string(dim.min) + ".." + std::to_string(dim.max));
      if (dim.name.empty()) continue;
      const auto [first, is_new] = shared.emplace(dim.name, size);
      if (!is_new && first->second != size)
        throw BadInput("dimension " + dim.name + " is " + std::to_string(first->second) + " and " +
                       std::to_string(size));
    }
  }
}

}  // namespace edgex

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tensors.h"

namespace edgex {

// One dimension of an input: a size, or a name with bounds. Dimensions of one name have one size.
struct Bound {
  std::string name;
  int64_t min = 0, max = 0;
};

struct InputSpec {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  std::vector<Bound> dims;
};

// Runs in a row from the initial state. `run`: outputs are written; `expect`: they are compared with those of the file
// --expected; `quantized`: likewise, by the tolerance of quantized programs; either with `@DB` behind it: by that SQNR
// alone; `refuse`: the sizes are outside the bounds, and must be refused.
struct Case {
  std::string kind, name;
  int64_t steps = 1;
  std::optional<double> min_sqnr_db;

  bool is_compared() const { return kind == "expect" || kind == "quantized"; }
};

struct Tolerance {
  double min_sqnr_db = 80.0;
  std::optional<double> atol, rtol;
  double min_equal = 1.0;  // share of the elements of whole numbers that must be equal
};

struct Options {
  std::string model, method = "forward", sha256, run_id;
  std::string inputs, outputs, expected, etdump;
  std::vector<std::string> plugins, state, output_names;
  std::vector<InputSpec> specs;
  std::vector<Case> cases;
  Tolerance tolerance;
  std::optional<Tolerance> quantized_tolerance;  // of cases of kind quantized
  int64_t threads = 0;          // 0: one for each core that may be used
  int64_t warmup = -1;          // -1: until the latency settles
  int64_t runs = 0;             // samples; -1: about three seconds' worth
  bool hash = true;
};

// Throws BadInput with a sentence for people.
Options parse_options(int count, char** arguments);

// Throws BadInput when the tensors do not fit the inputs that --input declares.
void check_inputs(const std::vector<InputSpec>& specs, const std::vector<Tensor>& tensors);

extern const char kUsage[];

}  // namespace edgex

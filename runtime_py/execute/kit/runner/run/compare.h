#pragma once

#include <optional>
#include <string>

#include "data/tensors.h"
#include "interface/options.h"

namespace edgex {

struct Verdict {
  std::string verdict, reason;  // pass, fail or inconclusive
  std::optional<double> max_abs_error, sqnr_db, reference_max;
};

// The rules of edgex.runtime.session.numerics: floats by SQNR and largest error, integers and booleans exactly, NaN and Inf at
// the same places; a constant reference proves nothing. `floor_rms` is the output's ordinary root mean square, 0 where
// none counts: the steps of a quantized output do not shrink with its values.
Verdict compare_output(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance, double floor_rms);

// Root mean square of a float tensor's finite values; 0 for others.
double root_mean_square(const Tensor& tensor);

}  // namespace edgex

#include "run/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "data/values.h"

namespace edgex {

namespace {

constexpr double kExactSqnrDb = 300.0;
constexpr double kVacuousRms = 1e-6;

bool is_float(Dtype dtype) {
  return dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64 || dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16;
}

std::string format(const char* pattern, double first, double second = 0) {
  char text[120];
  std::snprintf(text, sizeof text, pattern, first, second);
  return text;
}

Verdict compare_exactly(const Tensor& expected, const Tensor& actual, double min_equal) {
  size_t wrong = 0;
  double error = 0, largest = 0;
  const size_t count = expected.count();
  for (size_t i = 0; i < count; i++) {
    const double reference = value_at(expected, i), difference = std::fabs(reference - value_at(actual, i));
    const size_t size = size_of(expected.dtype);
    // As bytes: doubles do not tell large 64-bit integers apart.
    wrong += std::memcmp(expected.data.get() + i * size, actual.data.get() + i * size, size) != 0;
    error = std::max(error, difference);
    largest = std::max(largest, std::fabs(reference));
  }
  if (static_cast<double>(wrong) > (1.0 - min_equal) * static_cast<double>(count))
    return {"fail", format("%.0f of %.0f values differ", double(wrong), double(count)), error, {}, largest};
  bool constant = count > 0;
  for (size_t i = 1; constant && i < count; i++) constant = value_at(expected, i) == value_at(expected, 0);
  if (constant && count > 1) return {"inconclusive", "eager's output is constant", error, {}, largest};
  return {"pass", "", error, {}, largest};
}

}  // namespace

Verdict compare_output(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance, double floor_rms) {
  if (expected.sizes != actual.sizes)
    return {"fail", "shape " + format_sizes(actual.sizes) + " instead of " + format_sizes(expected.sizes), {}, {}, {}};
  if (is_float(expected.dtype) != is_float(actual.dtype) || (!is_float(expected.dtype) && expected.dtype != actual.dtype))
    return {"fail", std::string(name_of(actual.dtype)) + " instead of " + name_of(expected.dtype), {}, {}, {}};
  if (!is_float(expected.dtype)) return compare_exactly(expected, actual, tolerance.min_equal);
  double signal = 0, noise = 0, error = 0, largest = 0;
  size_t finite = 0, other_places = 0;
  std::optional<double> first;
  bool constant = true;
  for (size_t i = 0; i < expected.count(); i++) {
    const double reference = value_at(expected, i), found = value_at(actual, i);
    if (!std::isfinite(reference) || !std::isfinite(found)) {
      const bool alike = std::isnan(reference) ? std::isnan(found) : reference == found;
      other_places += !alike;
      continue;
    }
    finite++;
    constant = constant && reference == first.value_or(reference);
    first = reference;
    signal += reference * reference;
    noise += (reference - found) * (reference - found);
    error = std::max(error, std::fabs(reference - found));
    largest = std::max(largest, std::fabs(reference));
  }
  if (other_places) return {"fail", "NaN or Inf at other places", error, {}, largest};
  const double power = std::max(signal, floor_rms * floor_rms * static_cast<double>(finite));
  const double sqnr = noise == 0  ? kExactSqnrDb
                      : power == 0 ? -kExactSqnrDb
                                   : std::min(kExactSqnrDb, 10 * std::log10(power / noise));
  std::optional<double> limit;
  if (tolerance.atol || tolerance.rtol)
    limit = std::max(tolerance.atol.value_or(0), tolerance.rtol.value_or(0) * largest);
  const double rms = finite ? std::sqrt(signal / static_cast<double>(finite)) : 0;
  if (rms < kVacuousRms || (constant && finite > 1)) {
    const double allowed =
        floor_rms > 0 ? floor_rms * std::pow(10.0, -tolerance.min_sqnr_db / 20) : 1e-3 * std::max(1.0, largest);
    if (error > std::max(limit.value_or(0), allowed))
      return {"fail", format("max error %.2g where eager is constant", error), error, {}, largest};
    return {"inconclusive", "eager's output is constant or near zero", error, {}, largest};
  }
  if (sqnr < tolerance.min_sqnr_db)
    return {"fail", format("SQNR %.1f dB is below %g dB", sqnr, tolerance.min_sqnr_db), error, sqnr, largest};
  if (limit && error > *limit)
    return {"fail", format("max error %.2g is above %.2g", error, *limit), error, sqnr, largest};
  return {"pass", "", error, sqnr, largest};
}

double root_mean_square(const Tensor& tensor) {
  if (!is_float(tensor.dtype)) return 0;
  double sum = 0;
  size_t finite = 0;
  for (size_t i = 0; i < tensor.count(); i++) {
    const double value = value_at(tensor, i);
    if (!std::isfinite(value)) continue;
    sum += value * value;
    finite++;
  }
  return finite ? std::sqrt(sum / static_cast<double>(finite)) : 0;
}

}  // namespace edgex

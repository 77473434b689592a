#include "small/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "oneapi/dnnl/dnnl_graph_types.h"
#include "operators/binary.h"
#include "operators/loops.h"
#include "operators/numbers.h"
#include "plan/operators.h"
#include "plan/plan.h"
#include "small/layout.h"

namespace edgex {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Elements that a thread takes at once.
constexpr int64_t kChunk = 4096;

// e^x, what is no number staying none; 0 for what is below the smallest normal number.
EDGEX_INLINE float exponential(float x) {
  constexpr float kLeast = -87.33654f, kMost = 88.72283f, kLog2E = 1.44269504f;
  // ln 2 in two parts, of which the first times a small integer is exact.
  constexpr float kHigh = 0.693359375f, kLow = -2.12194440e-4f;
  // 1.5 * 2^23: added to a small number, it leaves the nearest integer in the lowest bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * kLog2E + kRound;
  const float whole = shifted - kRound;
  const float rest = (x - whole * kHigh) - whole * kLow;
  // The series of e^x, to where a term is below the last place for |rest| <= ln 2 / 2.
  float p = 1.0f / 5040;
  p = p * rest + 1.0f / 720;
  p = p * rest + 1.0f / 120;
  p = p * rest + 1.0f / 24;
  p = p * rest + 1.0f / 6;
  p = p * rest + 0.5f;
  p = p * rest + 1.0f;
  p = p * rest + 1.0f;
  // Half of the power, then twice: 2^128 is no float32.
  const float half = reinterpret<float>((reinterpret<uint32_t>(shifted) + 126) << 23);
  const float made = p * half * 2.0f;
  return x < kLeast ? 0.0f : x > kMost ? kInfinity : made;
}

struct Exponential {
  // oneDNN makes infinity of what is no number, and one operator does one thing.
  EDGEX_INLINE float operator()(float x) const { return x == x ? exponential(x) : kInfinity; }
};

struct Sigmoid {
  EDGEX_INLINE float operator()(float x) const { return 1.0f / (1.0f + exponential(-x)); }
};

struct HyperbolicTangent {
  EDGEX_INLINE float operator()(float x) const {
    const float size = std::fabs(x), square = x * x;
    // Near 0, x + x^3 times a polynomial in x^2 (least squares at Chebyshev's points; 2e-8).
    float p = -5.69199e-3f;
    p = p * square + 2.062629e-2f;
    p = p * square + -5.373532e-2f;
    p = p * square + 1.3331381e-1f;
    p = p * square + -3.3333279e-1f;
    const float near = x + x * square * p;
    const float far = std::copysign(1.0f - 2.0f / (1.0f + exponential(2.0f * size)), x);
    return size < 0.625f ? near : far;
  }
};

struct Gelu {
  EDGEX_INLINE float operator()(float x) const {
    // 1 - erf(z) for z >= 0 by Hastings' rational approximation (Abramowitz and Stegun, 7.1.26), to 1.5e-7.
    const float z = std::fabs(x) * 0.707106781f;
    const float t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const float rest = p * t * exponential(-z * z);
    // Infinity gives none, as in PyTorch's vectors and oneDNN.
    return (x > 0 ? x : 0.0f) - 0.5f * std::fabs(x) * rest;
  }
};

struct Relu {
  EDGEX_INLINE float operator()(float x) const { return x > 0 ? x : 0.0f; }
};

struct LeakyRelu {
  EDGEX_INLINE float operator()(float x) const { return x > 0 ? x : x * alpha; }
  float alpha;
};

struct Clamp {
  EDGEX_INLINE float operator()(float x) const {
    const float above = x > least ? x : least;
    return above < most ? above : most;
  }
  float least, most;
};

struct HardSwish {
  EDGEX_INLINE float operator()(float x) const {
    const float shifted = x + 3.0f, above = shifted > 0 ? shifted : 0.0f;
    return x * (above < 6.0f ? above : 6.0f) * (1.0f / 6.0f);
  }
};

// What is left of a number when whole quarters of a turn are taken off, and how many these were.
struct Turned {
  float rest;
  uint32_t quarters;
};

constexpr float kQuartersOfOne = 0.63661977f;
// Up to here the first two parts of a quarter (pi / 2) times their number are exact.
constexpr float kMostOfParts = 8192.0f;
// Up to here what is left is right to 2e-7.
constexpr float kMostOfDouble = 1e9f;

EDGEX_INLINE Turned turn_by_parts(float x) {
  constexpr float kFirst = 1.5703125f, kSecond = 4.8375129699707031e-4f, kThird = 7.54978995489188216e-8f;
  constexpr float kRound = 12582912.0f;  // as in `exponential`
  const float shifted = x * kQuartersOfOne + kRound;
  const float whole = shifted - kRound;
  return {((x - whole * kFirst) - whole * kSecond) - whole * kThird, reinterpret<uint32_t>(shifted)};
}

EDGEX_INLINE Turned turn_in_double(float x) {
  constexpr double kOfOne = 0.63661977236758134308, kQuarter = 1.57079632679489661923, kRound = 6755399441055744.0;
  const double shifted = x * kOfOne + kRound;
  const double whole = shifted - kRound;
  return {static_cast<float>(x - whole * kQuarter), static_cast<uint32_t>(reinterpret<uint64_t>(shifted))};
}

// The sine, of so many more quarters: the polynomials of sine and cosine around 0, as in Cephes' sinf
// (https://www.netlib.org/cephes).
template <uint32_t kMore>
EDGEX_INLINE float sine(Turned turned) {
  const float rest = turned.rest, square = rest * rest;
  const uint32_t quarters = turned.quarters + kMore;
  const float sum = ((-1.9515295891e-4f * square + 8.3321608736e-3f) * square - 1.6666654611e-1f) * square * rest + rest;
  const float of_sine = std::copysign(sum, rest);  // also of a zero
  const float of_cosine =
      ((2.443315711809948e-5f * square - 1.388731625493765e-3f) * square + 4.166664568298827e-2f) * square * square -
      0.5f * square + 1.0f;
  const float made = (quarters & 1) != 0 ? of_cosine : of_sine;
  return reinterpret<float>(reinterpret<uint32_t>(made) ^ (quarters & 2) << 30);
}

template <uint32_t kMore>
struct Sine {};

struct Absolute {
  EDGEX_INLINE float operator()(float x) const { return std::fabs(x); }
};

struct Root {
  EDGEX_INLINE float operator()(float x) const { return std::sqrt(x); }
};

template <typename Function>
EDGEX_INLINE void apply_all(const Function& function, const float* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i] = function(from[i]);
}

#define EDGEX_APPLY(Function)                                                                                            \
  EDGEX_FOR_EACH_PROCESSOR void apply(const Function& function, const float* from, int64_t count, float* to) { \
    apply_all(function, from, count, to);                                                                                \
  }

// Of numbers that are none, or so large that little is left of them, the library makes one after the other.
template <uint32_t kMore>
EDGEX_INLINE void apply_sine(const float* from, int64_t count, float* to) {
  int64_t small = 0, plain = 0;
#pragma omp simd reduction(+ : small, plain)
  for (int64_t i = 0; i < count; i++) {
    small += std::fabs(from[i]) < kMostOfParts ? 1 : 0;
    plain += std::fabs(from[i]) < kMostOfDouble ? 1 : 0;
  }
  if (small == count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = sine<kMore>(turn_by_parts(from[i]));
  } else if (plain == count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = sine<kMore>(turn_in_double(from[i]));
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = kMore == 0 ? std::sin(from[i]) : std::cos(from[i]);
  }
}

EDGEX_FOR_EACH_PROCESSOR void apply(const Sine<0>&, const float* from, int64_t count, float* to) {
  apply_sine<0>(from, count, to);
}
EDGEX_FOR_EACH_PROCESSOR void apply(const Sine<1>&, const float* from, int64_t count, float* to) {
  apply_sine<1>(from, count, to);
}

EDGEX_APPLY(Exponential)
EDGEX_APPLY(Sigmoid)
EDGEX_APPLY(HyperbolicTangent)
EDGEX_APPLY(Gelu)
EDGEX_APPLY(Relu)
EDGEX_APPLY(LeakyRelu)
EDGEX_APPLY(Clamp)
EDGEX_APPLY(HardSwish)
EDGEX_APPLY(Absolute)
EDGEX_APPLY(Root)

template <typename Function>
class Activation final : public OwnOperator {
 public:
  // `copy`: null where both tensors have their numbers in the same places.
  Activation(const Function& function, int64_t count, std::unique_ptr<OwnOperator> copy)
      : function_(function), count_(count), copy_(std::move(copy)) {}

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    std::byte* from = tensors[0];
    if (copy_ != nullptr) {
      std::byte* const both[] = {from, from, tensors[1]};
      copy_->run(both, scratch);
      from = tensors[1];
    }
    const auto* const numbers = reinterpret_cast<const float*>(from);
    auto* const to = reinterpret_cast<float*>(tensors[1]);
    if (count_ < kElementsForThreads) return apply(function_, numbers, count_, to);
    const int64_t chunks = (count_ + kChunk - 1) / kChunk;
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const int64_t first = chunk * kChunk;
      apply(function_, numbers + first, std::min(kChunk, count_ - first), to + first);
    }
  }

 private:
  Function function_;
  int64_t count_;
  std::unique_ptr<OwnOperator> copy_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_activation(const Operation& operation, const Strided& from, const Strided& result) {
  const auto make = [&](const auto& function) -> std::unique_ptr<OwnOperator> {
    if (!lie_alike(result, result)) return nullptr;
    std::unique_ptr<OwnOperator> copy = lie_alike(from, result) ? nullptr : make_copy(kFloat32, from, result);
    return std::make_unique<Activation<std::decay_t<decltype(function)>>>(function, count_of(result.dims), std::move(copy));
  };
  const auto number = [&](int code) { return find_attribute(operation, code)->floats[0]; };
  switch (operation.kind) {
    case dnnl_graph_op_exp:
      return make(Exponential{});
    case dnnl_graph_op_sigmoid:
      return make(Sigmoid{});
    case dnnl_graph_op_tanh:
      return make(HyperbolicTangent{});
    case dnnl_graph_op_gelu:
      return make(Gelu{});
    case dnnl_graph_op_relu:
      return make(Relu{});
    case dnnl_graph_op_leaky_relu:
      return make(LeakyRelu{number(dnnl_graph_op_attr_alpha)});
    case dnnl_graph_op_clamp:
      return make(Clamp{number(dnnl_graph_op_attr_min), number(dnnl_graph_op_attr_max)});
    case dnnl_graph_op_hard_swish:
      return make(HardSwish{});
    case dnnl_graph_op_abs:
      return make(Absolute{});
    case dnnl_graph_op_sqrt:
      return make(Root{});
    case kSine:
      return make(Sine<0>{});
    case kCosine:
      return make(Sine<1>{});
    default:  // the others are rare, or NaN has become something else in them before
      return nullptr;
  }
}

}  // namespace edgex

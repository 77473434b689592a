// Loops over the elements of a result and of tensors that are repeated to its size.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// Fewer elements are computed before other threads have begun.
constexpr int64_t kElementsForThreads = 32 << 10;

// One dimension: its size and each tensor's step along it.
template <size_t kTensors>
struct LoopOf {
  int64_t count;
  std::array<int64_t, kTensors> steps;
};

// The dimensions of the last tensor, the result, in the order in which it lies, those in one where no tensor tells them apart;
// outermost first, and at least one.
template <size_t kTensors>
std::vector<LoopOf<kTensors>> plan_loops(const std::array<const Strided*, kTensors>& tensors) {
  using Loop = LoopOf<kTensors>;
  const Strided& result = *tensors.back();
  const size_t rank = result.dims.size();
  std::vector<Loop> loops;
  for (size_t dim = 0; dim < rank; dim++) {
    if (result.dims[dim] == 1) continue;
    Loop loop{result.dims[dim], {}};
    for (size_t t = 0; t < kTensors; t++) {
      const Strided& tensor = *tensors[t];
      const size_t missing = rank - tensor.dims.size();
      const bool repeats = dim < missing || tensor.dims[dim - missing] == 1;
      loop.steps[t] = repeats ? 0 : tensor.strides[dim - missing];
    }
    loops.push_back(loop);
  }
  std::stable_sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.steps.back() > b.steps.back(); });
  if (loops.empty()) {
    loops.push_back({1, {}});
    loops[0].steps.back() = 1;
  }
  std::vector<Loop> merged{loops[0]};
  for (size_t i = 1; i < loops.size(); i++) {
    Loop& outer = merged.back();
    bool one = true;
    for (size_t t = 0; t < kTensors; t++) one = one && outer.steps[t] == loops[i].steps[t] * loops[i].count;
    if (one) {
      outer = {outer.count * loops[i].count, loops[i].steps};
    } else {
      merged.push_back(loops[i]);
    }
  }
  return merged;
}

// Calls `row(at)` for the rows along the innermost loop from `first` to before `end`, with each tensor's place.
template <size_t kTensors, typename Row>
void each_row(const std::vector<LoopOf<kTensors>>& loops, int64_t first, int64_t end, const Row& row) {
  const size_t outer = loops.size() - 1;
  std::vector<int64_t> index(outer);
  std::array<int64_t, kTensors> at{};
  int64_t rest = first;
  for (size_t i = outer; i-- > 0;) {
    index[i] = rest % loops[i].count;
    rest /= loops[i].count;
    for (size_t t = 0; t < kTensors; t++) at[t] += index[i] * loops[i].steps[t];
  }
  for (int64_t number = first; number < end; number++) {
    row(at);
    for (size_t i = outer; i-- > 0;) {
      for (size_t t = 0; t < kTensors; t++) at[t] += loops[i].steps[t];
      if (++index[i] < loops[i].count) break;
      for (size_t t = 0; t < kTensors; t++) at[t] -= index[i] * loops[i].steps[t];
      index[i] = 0;
    }
  }
}

template <size_t kTensors>
int64_t count_rows(const std::vector<LoopOf<kTensors>>& loops) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < loops.size(); i++) rows *= loops[i].count;
  return rows;
}

}  // namespace edgex

// Where the windows of a convolution lie.
#pragma once

#include <cstdint>
#include <vector>

#include "operators/own_operator.h"
#include "plan/plan.h"

namespace edgex {

// A convolution along one dimension.
struct Taps {
  int64_t size, made;   // places of the image, and of the result
  int64_t taps;         // weights
  int64_t stride, hole; // between windows, and between the places that a window reads
  int64_t before;       // zeros before the first place
  int64_t step, result_step;  // from one place to the next, in numbers
};

struct ChannelWindow {
  Taps rows, columns;
};

// Of x, weights and result of a convolution; a sequence has one row.
ChannelWindow window_of(const Operation& convolution, const std::vector<Strided>& inputs, const Strided& result);

}  // namespace edgex

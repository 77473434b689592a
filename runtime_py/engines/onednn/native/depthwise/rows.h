// Rows of a convolution of each channel by itself, on the thread that calls.
#pragma once

#include <cstdint>

#include "attention/product.h"

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

// One row of the result for up to kPanel channels, whose numbers lie side by side everywhere: `weights` is their panel, a row
// for each tap; `added` may be null.
void convolve_row(const ChannelWindow& window, int64_t row, int64_t channels, const float* image, const float* weights,
                  const float* added, float* result);

}  // namespace edgex

// Rows of a convolution of each channel by itself, on the thread that calls.
#pragma once

#include <cstdint>

#include "attention/product.h"
#include "convolution/windows.h"

namespace edgex {

// One row of the result for up to kPanel channels, whose numbers lie side by side everywhere: `weights` is their panel, a row
// for each tap; `added` may be null.
void convolve_row(const ChannelWindow& window, int64_t row, int64_t channels, const float* image, const float* weights,
                  const float* added, float* result);

}  // namespace edgex

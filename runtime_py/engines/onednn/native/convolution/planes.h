// Convolutions of planes, on the thread that calls: the places of a channel lie side by side, those around the image as zeros.
#pragma once

#include <cstdint>
#include <vector>

namespace edgex {

// Of which the vectors of places are multiples on this processor.
int64_t plane_lanes();

// Planes of the inputs of a group.
struct Planes {
  const float* numbers;
  int64_t step;                        // from one input to the next
  const std::vector<int64_t>& taps;    // where the taps of a window lie in a plane, from its first one on
  const std::vector<int64_t>& places;  // where each vector of windows begins in a plane
};

// made[output * made_step + i * plane_lanes() + lane] for the windows of vector i. `weights` lie by output, input and tap;
// `added` may be null.
void convolve_planes(const Planes& planes, int64_t inputs, int64_t outputs, const float* weights, const float* added, float* made,
                     int64_t made_step);

// to[column * column_step + row] = from[row * row_step + column]: what lies by places becomes planes, and back.
void transpose(const float* from, int64_t rows, int64_t columns, int64_t row_step, float* to, int64_t column_step);

}  // namespace edgex

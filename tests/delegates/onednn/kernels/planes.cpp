// Convolutions of planes of every processor.
#include "convolution/planes.cpp"
#include "processors.h"

// The windows of one group; 0 where this processor is another one. `places` are where vectors of its lanes begin.
extern "C" int convolve_planes(int which, const float* numbers, int64_t step, const int64_t* taps, int64_t tap_count,
                               const int64_t* places, int64_t place_count, int64_t inputs, int64_t outputs, const float* weights,
                               const float* added, float* made, int64_t made_step) {
  const std::vector<int64_t> all_taps(taps, taps + tap_count), all_places(places, places + place_count);
  const edgex::Planes planes{numbers, step, all_taps, all_places};
  return run<edgex::Group>(which, {planes, inputs, outputs, weights, added, made, made_step}, OF_EVERY_PROCESSOR(convolve));
}

extern "C" void transpose(const float* from, int64_t rows, int64_t columns, int64_t row_step, float* to, int64_t column_step) {
  edgex::transpose(from, rows, columns, row_step, to, column_step);
}

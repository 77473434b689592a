// Convolutions of each channel by itself of every processor.
#include "convolution/rows.cpp"
#include "processors.h"

// All rows of one image; 0 where this processor is another one.
extern "C" int convolve(int which, const edgex::ChannelWindow* window, int64_t channels, const float* image,
                        const float* weights, const float* added, float* result) {
  for (int64_t row = 0; row < window->rows.made; row++) {
    const edgex::Row given = edgex::describe(*window, row, channels, image, weights, added, result);
    if (!run(which, given, OF_EVERY_PROCESSOR(convolve))) return 0;
  }
  return 1;
}

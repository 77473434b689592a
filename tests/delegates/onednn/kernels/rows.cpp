// The two products of attention over a cache of every processor; what makes float32 of a cache in 8 bits; and the rounding
// of activations.
#include "cache/rows.cpp"
#include "lowbits/activations.h"
#include "processors.h"

extern "C" int score(int which, const edgex::Scores* scores) { return run(which, *scores, OF_EVERY_PROCESSOR(score)); }

extern "C" int add(int which, const edgex::Mixture* mixture) { return run(which, *mixture, OF_EVERY_PROCESSOR(add)); }

extern "C" int widen(int which, const edgex::Narrow* narrow) { return run(which, *narrow, OF_EVERY_PROCESSOR(widen)); }

extern "C" void quantize(const float* from, int64_t step, int64_t count, int64_t padded, int8_t* to, float* encoding) {
  const edgex::RowEncoding found = edgex::quantize_row(from, step, count, padded, to);
  encoding[0] = found.scale;
  encoding[1] = found.zero;
}

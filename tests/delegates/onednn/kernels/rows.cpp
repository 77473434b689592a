// The two products of attention over a cache of every processor, by number: 0 plain, 1 AVX2, 2 AVX-512; what makes float32
// of a cache in 8 bits; and the rounding of activations.
#include "cache/rows.cpp"
#include "lowbits/activations.h"

extern "C" int score(int which, const edgex::Scores* scores) {
  if (which == 0) edgex::score_plain(*scores);
#if defined(__x86_64__)
  if (which == 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  if (which == 2 && !__builtin_cpu_supports("avx512f")) return 0;
  if (which == 1) edgex::score_avx2(*scores);
  if (which == 2) edgex::score_avx512(*scores);
#endif
  return 1;
}

extern "C" int add(int which, const edgex::Mixture* mixture) {
  if (which == 0) edgex::add_plain(*mixture);
#if defined(__x86_64__)
  if (which == 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  if (which == 2 && !__builtin_cpu_supports("avx512f")) return 0;
  if (which == 1) edgex::add_avx2(*mixture);
  if (which == 2) edgex::add_avx512(*mixture);
#endif
  return 1;
}

extern "C" int widen(int which, const edgex::Narrow* narrow) {
  if (which == 0) edgex::widen_plain(*narrow);
#if defined(__x86_64__)
  if (which == 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  if (which == 2 && !__builtin_cpu_supports("avx512f")) return 0;
  if (which == 1) edgex::widen_avx2(*narrow);
  if (which == 2) edgex::widen_avx512(*narrow);
#endif
  return 1;
}

extern "C" void quantize(const float* from, int64_t step, int64_t count, int64_t padded, int8_t* to, float* encoding) {
  const edgex::RowEncoding found = edgex::quantize_row(from, step, count, padded, to);
  encoding[0] = found.scale;
  encoding[1] = found.zero;
}

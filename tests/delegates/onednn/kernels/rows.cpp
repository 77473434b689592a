// The two products of attention over a cache of every processor, by number: 0 plain, 1 AVX2, 2 AVX-512; what makes float32
// of a cache in 8 bits; and the rounding of activations.
#include "cache/rows.cpp"
#include "lowbits/activations.h"

namespace {

template <typename Given>
using Kernel = void (*)(const Given&);

// 0 where this processor is another one.
template <typename Given>
int run(int which, const Given& given, Kernel<Given> plain, Kernel<Given> avx2, Kernel<Given> avx512) {
#if defined(__x86_64__)
  if (which == 1 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  if (which == 2 && !__builtin_cpu_supports("avx512f")) return 0;
#else
  if (which != 0) return 0;
#endif
  const Kernel<Given> kernels[] = {plain, avx2, avx512};
  kernels[which](given);
  return 1;
}

}  // namespace

#if defined(__x86_64__)
#define OF_EVERY_PROCESSOR(name) edgex::name##_plain, edgex::name##_avx2, edgex::name##_avx512
#else
#define OF_EVERY_PROCESSOR(name) edgex::name##_plain, nullptr, nullptr
#endif

extern "C" int score(int which, const edgex::Scores* scores) { return run(which, *scores, OF_EVERY_PROCESSOR(score)); }

extern "C" int add(int which, const edgex::Mixture* mixture) { return run(which, *mixture, OF_EVERY_PROCESSOR(add)); }

extern "C" int widen(int which, const edgex::Narrow* narrow) { return run(which, *narrow, OF_EVERY_PROCESSOR(widen)); }

extern "C" void quantize(const float* from, int64_t step, int64_t count, int64_t padded, int8_t* to, float* encoding) {
  const edgex::RowEncoding found = edgex::quantize_row(from, step, count, padded, to);
  encoding[0] = found.scale;
  encoding[1] = found.zero;
}

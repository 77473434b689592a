// Calls one of a kernel's three forms, by number: 0 plain, 1 AVX2, 2 AVX-512.
#pragma once

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

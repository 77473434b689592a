// Numbers of the two types that operators of our own compute with, registers of them, and what inner loops are compiled for.
#pragma once

#include <cstdint>
#include <cstring>

// The functions below are compiled for processors with AVX-512, with AVX2, and for all others; the loader takes what fits.
#ifndef EDGEX_FOR_EACH_PROCESSOR
#define EDGEX_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#define EDGEX_INLINE inline __attribute__((always_inline))

namespace edgex {

// A number of the storage that PyTorch calls bfloat16: the upper half of a float32.
struct Bfloat16 {
  uint16_t bits;
};

template <typename To, typename From>
EDGEX_INLINE To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

EDGEX_INLINE float to_float(float number) { return number; }
EDGEX_INLINE float to_float(Bfloat16 number) { return reinterpret<float>(static_cast<uint32_t>(number.bits) << 16); }

// Rounds to nearest, halves to even; what is no number stays none.
EDGEX_INLINE void store(float from, float& to) { to = from; }
EDGEX_INLINE void store(float from, Bfloat16& to) {
  const auto bits = reinterpret<uint32_t>(from);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  to.bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

// As many numbers as a register of the processor holds: compilers keep wider vectors in memory, ten times as slow.
template <int kWidth>
struct Register {
  typedef float Type __attribute__((vector_size(kWidth * sizeof(float)), aligned(sizeof(float)), may_alias));
};

}  // namespace edgex

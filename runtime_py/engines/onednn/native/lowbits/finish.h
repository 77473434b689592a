// What all kernels of products in few bits end with.
#pragma once

#include <algorithm>
#include <cstring>

#include "lowbits/products.h"
#include "operators/numbers.h"

namespace edgex {

#if defined(__x86_64__)
inline bool has_vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

// Bytes of a group of a block.
inline int64_t group_bytes(const LowBitProduct& p, int64_t bits) { return p.group * kBlock * bits / 8; }

// From the scaled sums of a block of outputs to the numbers of a row.
EDGEX_INLINE void finish_block(const LowBitProduct& p, int64_t block, int64_t row, const float* totals) {
  const RowEncoding encoding = p.encodings[row];
  const float* sums = p.sums + block * kBlock;
  float numbers[kBlock];
  for (int64_t o = 0; o < kBlock; o++) numbers[o] = encoding.scale * (totals[o] - encoding.zero * sums[o]);
  const int64_t first = block * kBlock, known = std::min(kBlock, p.outputs - first);
  float* to = p.results[row] + first;
  if (p.bias != nullptr) {
    for (int64_t o = 0; o < known; o++) to[o] = numbers[o] + p.bias[first + o];
  } else if (known == kBlock) {
    std::memcpy(to, numbers, sizeof(numbers));
  } else {
    std::memcpy(to, numbers, static_cast<size_t>(known) * sizeof(float));
  }
}

}  // namespace edgex

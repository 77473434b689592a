// What a cache keeps of each token: its row in float32, or in 8 bits with a scale of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/own_operator.h"

namespace edgex {

// One cache of a call; `scales`: of 8 bits only, one for each row.
struct CacheMemory {
  std::byte* rows;
  float* scales;
};

// Rows (1, shared, context, size) in the order of their dimensions.
class CacheRows {
 public:
  // given: (1, shared, tokens, size) in any order; eight_bits: with scales (1, shared, context, 1).
  CacheRows(const Strided& given, int64_t context, bool eight_bits);

  // Keeps the tokens from place `start` on. In 8 bits a row's scale is its largest number by 127, at least 1e-6 by 127,
  // and of two numbers equally near the even one is taken.
  void write(const float* tokens, const CacheMemory& memory, int64_t start) const;

  // `count` rows of a head from `first` on: where they are, or written to `buffer`, count * size numbers.
  const float* read(const CacheMemory& memory, int64_t shared, int64_t first, int64_t count, float* buffer) const;

  // Rows that are read at a time: in 8 bits, as many as stay near the processor.
  int64_t rows_at_once(int64_t count) const;

 private:
  Strided given_;
  int64_t context_, size_;
  bool eight_bits_;
};

}  // namespace edgex

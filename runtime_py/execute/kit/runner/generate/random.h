#pragma once

#include <cstdint>

namespace edgex {

// Draws what `numpy.random.default_rng(seed).random()` draws, so that a seed means the same with and without Python:
// PCG64 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
// Generation", 2014: XSL-RR over a state of 128 bits), seeded by NumPy's SeedSequence (NEP 19), which NumPy
// keeps as it is.
class Random {
 public:
  explicit Random(uint64_t seed);
  double draw();  // in [0, 1)

 private:
  uint64_t next();
  unsigned __int128 state_ = 0, increment_ = 0;
};

}  // namespace edgex

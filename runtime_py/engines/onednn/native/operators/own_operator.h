// Operators that the backend runs by itself, outside of oneDNN's graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgex {

// Of one operator: its inputs and results.
constexpr size_t kMostOwnTensors = 64;

// A tensor, in elements.
struct Strided {
  std::vector<int64_t> dims, strides;
};

// One operator, compiled for the sizes of its tensors and for the threads that OpenMP gave then.
class OwnOperator {
 public:
  virtual ~OwnOperator() = default;

  // Memory that a run needs, aligned to 64; nothing in it is kept between runs.
  virtual size_t scratch_bytes() const { return 0; }

  // Whether it has brought its large constants into an order of its own, and reads no other.
  virtual bool has_packed() const { return false; }

  // `tensors`: the inputs in the plan's order, then the result, or results. Throws WrongArgument for data that it cannot take.
  virtual void run(std::byte* const* tensors, std::byte* scratch) const = 0;
};

}  // namespace edgex

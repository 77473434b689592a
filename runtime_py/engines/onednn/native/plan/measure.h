// The sizes of a plan in numbers, for given sizes of the inputs: checked before anything is computed or compiled with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace edgex {

// Where a value lies in its memory, in elements.
struct Shape {
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;
};

// Whether every element has a place of its own, and every place an element.
bool is_dense(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);

// The shape of each value. Throws DamagedPlan unless every value has its place: memory without gaps or overlaps, views inside
// of what they look at, arguments as large as what lies in them, operators whose tensors fit each other. After that, an
// operator that reads and writes what its tensors' sizes say stays inside of memory.
std::vector<Shape> measure(const Plan& plan, const std::vector<int64_t>& symbols);

// Bytes from the first to the last element of a value that was measured.
size_t extent_bytes(const Shape& shape, int dtype);

}  // namespace edgex

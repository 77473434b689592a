// How small tensors lie, where it decides which loop computes them.
#pragma once

#include <cstdint>
#include <vector>

#include "operators/own_operator.h"
#include "plan/measure.h"

namespace edgex {

inline int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  return count;
}

// Whether both have their elements in the same places, without gaps.
inline bool lie_alike(const Strided& one, const Strided& other) {
  for (size_t i = 0; i < one.dims.size(); i++) {
    if (one.dims[i] != 1 && one.strides[i] != other.strides[i]) return false;
  }
  return is_dense(one.dims, one.strides);
}

// Whether elements lie in the order of the dimensions, without gaps.
inline bool is_row_major(const Strided& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    if (tensor.dims[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= tensor.dims[i];
  }
  return true;
}

}  // namespace edgex

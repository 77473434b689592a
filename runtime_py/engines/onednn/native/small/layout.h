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

// Of a dense tensor whose elements along `axis` lie side by side, the other dimensions in their order.
inline std::vector<int64_t> strides_of_rows(const std::vector<int64_t>& dims, size_t axis) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = dims[axis];
  for (size_t i = dims.size(); i-- > 0;) {
    if (i == axis) continue;
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

}  // namespace edgex

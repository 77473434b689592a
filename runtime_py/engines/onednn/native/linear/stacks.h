// Products of stacks of matrices: what lies so that it is one matrix.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "attention/parts.h"
#include "operators/own_operator.h"

namespace edgex {

// The same with the first two dimensions of a transposed matrix in their usual order.
inline Strided as_depth_by_columns(Strided matrix, bool transposed) {
  if (!transposed) return matrix;
  const size_t rank = matrix.dims.size();
  std::swap(matrix.dims[rank - 1], matrix.dims[rank - 2]);
  std::swap(matrix.strides[rank - 1], matrix.strides[rank - 2]);
  return matrix;
}

inline std::vector<int64_t> batch_of(const Strided& result) {
  require_fit(result.dims.size() >= 2);
  return {result.dims.begin(), result.dims.end() - 2};
}

// Matrices that follow each other at the distance of their rows are one.
inline bool follow(const Matrices& stack) {
  for (size_t i = 1; i < stack.starts.size(); i++) {
    if (stack.starts[i] != static_cast<int64_t>(i) * stack.rows * stack.row_step) return false;
  }
  return true;
}

// Matrices of one row have the distance of the next matrix as that of their rows.
inline void step_by_stack(Matrices& stack) {
  if (stack.starts.size() > 1) stack.row_step = stack.starts[1];
}

}  // namespace edgex

// Products of small matrices of float32, on the thread that calls.
//
// oneDNN's products cost a microsecond or two a call, which is what a product of 49 x 32 by 32 x 49 takes; windows of
// attention are hundreds of these.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgex {

// Rows of a product are written in multiples of this.
constexpr int64_t kLanes = 16;
// Columns of a panel.
constexpr int64_t kPanel = 4 * kLanes;

inline int64_t pad_to_lanes(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }

// Brings a matrix (depth, columns) into panels of columns, zeros behind the last one: depth * pad_to_lanes(columns) numbers.
void pack_panels(const float* from, int64_t depth, int64_t columns, int64_t depth_step, int64_t column_step, float* to);

// to (rows, pad_to_lanes(columns)) = from (rows, depth) x panels. Rows of `from` are dense and `from_step` apart.
void multiply_panels(const float* from, int64_t from_step, const float* panels, int64_t rows, int64_t depth, int64_t columns,
                     float* to, int64_t to_step);

// to[i] = sum over j of row[j] * matrix[i * step + j], for `count` rows of `size` numbers: what a single row needs.
void multiply_rows(const float* row, const float* matrix, int64_t count, int64_t size, int64_t step, float* to);

// to[j] = sum over i of weights[i] * matrix[i * step + j].
void mix_rows(const float* weights, const float* matrix, int64_t count, int64_t size, int64_t step, float* to);

}  // namespace edgex

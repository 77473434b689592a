#include "operators/binary.h"

#include <algorithm>
#include <array>

#include "library/onednn.h"
#include "operators/loops.h"
#include "operators/numbers.h"
#include "plan/plan.h"

namespace edgex {

namespace {

constexpr size_t kTensors = 3;  // left, right, result

constexpr int kCopy = -1;  // no kind of a plan: the left one alone

template <int kKind>
EDGEX_INLINE float combine(float a, float b) {
  if constexpr (kKind == kCopy) return a;
  if constexpr (kKind == kAdd) return a + b;
  if constexpr (kKind == kSubtract) return a - b;
  if constexpr (kKind == kMultiply) return a * b;
  if constexpr (kKind == kDivide) return a / b;
  // What is no number wins, as in PyTorch.
  if constexpr (kKind == kMaximum) return a > b || a != a ? a : b;
  return a < b || a != a ? a : b;
}

using Loop = LoopOf<kTensors>;

// Some rows, dense in the result and in an operand that has a step; the other one is one number. With the size known, short
// ones are a vector and no loop.
template <int kKind, int kCount, bool kLeft, bool kRight, typename T>
EDGEX_INLINE void combine_dense(const T* left, const T* right, T* result, const Loop& outer, int64_t count) {
  const int64_t size = kCount > 0 ? kCount : count;
  for (int64_t row = 0; row < outer.count; row++) {
    const float one = to_float(left[0]), other = to_float(right[0]);
#pragma omp simd
    for (int64_t i = 0; i < size; i++) {
      store(combine<kKind>(kLeft ? to_float(left[i]) : one, kRight ? to_float(right[i]) : other), result[i]);
    }
    left += outer.steps[0];
    right += outer.steps[1];
    result += outer.steps[2];
  }
}

template <int kKind, bool kLeft, bool kRight, typename T>
EDGEX_INLINE void combine_block(const T* left, const T* right, T* result, const Loop& outer, int64_t count) {
  if (count == 8) return combine_dense<kKind, 8, kLeft, kRight>(left, right, result, outer, count);
  if (count == 16) return combine_dense<kKind, 16, kLeft, kRight>(left, right, result, outer, count);
  combine_dense<kKind, 0, kLeft, kRight>(left, right, result, outer, count);
}

// Rows of the result that are alike; the steps of both operands are known where a row is dense, so that it is computed in
// vectors.
template <int kKind, typename T>
EDGEX_INLINE void combine_alike(const T* left, const T* right, T* result, const Loop& outer, const Loop& row) {
  const std::array<int64_t, kTensors>& steps = row.steps;
  if (kKind != kCopy && steps == std::array<int64_t, kTensors>{1, 1, 1}) {
    return combine_block<kKind, true, true>(left, right, result, outer, row.count);
  }
  if (kKind != kCopy && steps == std::array<int64_t, kTensors>{1, 0, 1}) {
    return combine_block<kKind, true, false>(left, right, result, outer, row.count);
  }
  if (kKind != kCopy && steps == std::array<int64_t, kTensors>{0, 1, 1}) {
    return combine_block<kKind, false, true>(left, right, result, outer, row.count);
  }
  for (int64_t j = 0; j < outer.count; j++) {
    if (kKind == kCopy && steps[0] == 1 && steps[2] == 1) {
      std::memcpy(result, left, static_cast<size_t>(row.count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < row.count; i++) {
        store(combine<kKind>(to_float(left[i * steps[0]]), to_float(right[i * steps[1]])), result[i * steps[2]]);
      }
    }
    left += outer.steps[0];
    right += outer.steps[1];
    result += outer.steps[2];
  }
}

template <typename T>
struct Rows {
  const T *left, *right;
  T* result;
  const std::vector<Loop>* loops;  // outermost first
  int64_t first, end;              // of the rows along the innermost one
};

template <int kKind, typename T>
EDGEX_INLINE void combine_rows(const Rows<T>& rows) {
  const std::vector<Loop>& loops = *rows.loops;
  const size_t outer = loops.size() - 1;
  std::array<int64_t, kMaxRank> index{};
  std::array<int64_t, kTensors> at{};
  int64_t rest = rows.first;
  for (size_t i = outer; i-- > 0;) {
    index[i] = rest % loops[i].count;
    rest /= loops[i].count;
    for (size_t t = 0; t < kTensors; t++) at[t] += index[i] * loops[i].steps[t];
  }
  for (int64_t row = rows.first; row < rows.end;) {
    Loop alike = outer > 0 ? loops[outer - 1] : Loop{1, {}};
    if (outer > 0) alike.count = std::min(alike.count - index[outer - 1], rows.end - row);
    combine_alike<kKind>(rows.left + at[0], rows.right + at[1], rows.result + at[2], alike, loops[outer]);
    row += alike.count;
    for (size_t i = outer; i-- > 0;) {
      const int64_t moved = i + 1 == outer ? alike.count : 1;
      for (size_t t = 0; t < kTensors; t++) at[t] += moved * loops[i].steps[t];
      index[i] += moved;
      if (index[i] < loops[i].count) break;
      for (size_t t = 0; t < kTensors; t++) at[t] -= index[i] * loops[i].steps[t];
      index[i] = 0;
    }
  }
}

#define EDGEX_COMBINE(name, kind)                                                                     \
  EDGEX_FOR_EACH_PROCESSOR void name##_rows(const Rows<float>& rows) { combine_rows<kind>(rows); }    \
  EDGEX_FOR_EACH_PROCESSOR void name##_rows(const Rows<Bfloat16>& rows) { combine_rows<kind>(rows); }

EDGEX_COMBINE(add, kAdd)
EDGEX_COMBINE(subtract, kSubtract)
EDGEX_COMBINE(multiply, kMultiply)
EDGEX_COMBINE(divide, kDivide)
EDGEX_COMBINE(maximum, kMaximum)
EDGEX_COMBINE(minimum, kMinimum)
EDGEX_COMBINE(copy, kCopy)

template <typename T>
void combine_all(int kind, const Rows<T>& rows) {
  switch (kind) {
    case kAdd:
      return add_rows(rows);
    case kSubtract:
      return subtract_rows(rows);
    case kMultiply:
      return multiply_rows(rows);
    case kDivide:
      return divide_rows(rows);
    case kMaximum:
      return maximum_rows(rows);
    case kCopy:
      return copy_rows(rows);
    default:
      return minimum_rows(rows);
  }
}

template <typename T>
class Binary final : public OwnOperator {
 public:
  Binary(int kind, const Strided& left, const Strided& right, const Strided& result)
      : kind_(kind), loops_(plan_loops<kTensors>({&left, &right, &result})) {
    for (size_t i = 0; i + 1 < loops_.size(); i++) rows_ *= loops_[i].count;
    // One long row is shared out as well.
    if (rows_ == 1 && loops_.back().count >= kElementsForThreads) {
      const Loop row = loops_.back();
      int64_t parts = 16;
      while (row.count % parts != 0) parts /= 2;
      std::array<int64_t, kTensors> steps = row.steps;
      for (int64_t& step : steps) step *= row.count / parts;
      loops_ = {{parts, steps}, {row.count / parts, row.steps}};
      rows_ = parts;
    }
  }

  void run(std::byte* const* tensors, std::byte*) const override {
    Rows<T> all{reinterpret_cast<const T*>(tensors[0]), reinterpret_cast<const T*>(tensors[1]),
                reinterpret_cast<T*>(tensors[2]), &loops_, 0, rows_};
    const int64_t chunks = rows_ * loops_.back().count < kElementsForThreads ? 1 : std::min<int64_t>(rows_, 64);
    if (chunks == 1) return combine_all(kind_, all);
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      Rows<T> part = all;
      part.first = rows_ * chunk / chunks;
      part.end = rows_ * (chunk + 1) / chunks;
      combine_all(kind_, part);
    }
  }

 private:
  int kind_;
  std::vector<Loop> loops_;
  int64_t rows_ = 1;
};

}  // namespace

std::unique_ptr<OwnOperator> make_binary(int kind, int dtype, const Strided& left, const Strided& right,
                                         const Strided& result) {
  if (dtype == kFloat32) return std::make_unique<Binary<float>>(kind, left, right, result);
  if (dtype == kBfloat16) return std::make_unique<Binary<Bfloat16>>(kind, left, right, result);
  throw OneDnnError("an operator of other tensors");
}

std::unique_ptr<OwnOperator> make_copy(int dtype, const Strided& from, const Strided& result) {
  return make_binary(kCopy, dtype, from, from, result);
}

}  // namespace edgex

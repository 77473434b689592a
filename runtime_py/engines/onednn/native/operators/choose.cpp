#include "operators/choose.h"

#include <string>

#include "library/onednn.h"
#include "operators/loops.h"
#include "operators/numbers.h"
#include "plan/plan.h"

namespace edgex {

namespace {

// Both are copies: what numbers mean does not matter.
template <typename T>
struct Choice {
  const uint8_t* mask;
  const T *left, *right;
  T* to;
  int64_t count;
  std::array<int64_t, 4> steps;
};

template <bool kLeft, bool kRight, typename T>
EDGEX_INLINE void choose_dense(const Choice<T>& c) {
  const T one = c.left[0], other = c.right[0];
#pragma omp simd
  for (int64_t i = 0; i < c.count; i++) {
    const T left = kLeft ? c.left[i] : one, right = kRight ? c.right[i] : other;
    c.to[i] = c.mask[i] != 0 ? left : right;
  }
}

template <typename T>
EDGEX_INLINE void choose_any(const Choice<T>& c) {
  const bool dense = c.steps[3] == 1 && c.steps[0] == 1;
  if (dense && c.steps[1] == 1 && c.steps[2] == 1) return choose_dense<true, true>(c);
  if (dense && c.steps[1] == 0 && c.steps[2] == 1) return choose_dense<false, true>(c);
  if (dense && c.steps[1] == 1 && c.steps[2] == 0) return choose_dense<true, false>(c);
  for (int64_t i = 0; i < c.count; i++) {
    const T left = c.left[i * c.steps[1]], right = c.right[i * c.steps[2]];
    c.to[i * c.steps[3]] = c.mask[i * c.steps[0]] != 0 ? left : right;
  }
}

EDGEX_FOR_EACH_PROCESSOR void choose_row(const Choice<uint32_t>& choice) { choose_any(choice); }
EDGEX_FOR_EACH_PROCESSOR void choose_row(const Choice<uint16_t>& choice) { choose_any(choice); }

template <typename T>
class Where final : public OwnOperator {
 public:
  Where(const Strided& mask, const Strided& left, const Strided& right, const Strided& result)
      : loops_(plan_loops<4>({&mask, &left, &right, &result})), rows_(count_rows(loops_)) {}

  void run(std::byte* const* tensors, std::byte*) const override {
    const LoopOf<4>& inner = loops_.back();
    const auto part = [&](int64_t first, int64_t end) {
      each_row(loops_, first, end, [&](const std::array<int64_t, 4>& at) {
        choose_row(Choice<T>{reinterpret_cast<const uint8_t*>(tensors[0]) + at[0], reinterpret_cast<const T*>(tensors[1]) + at[1],
                             reinterpret_cast<const T*>(tensors[2]) + at[2], reinterpret_cast<T*>(tensors[3]) + at[3],
                             inner.count, inner.steps});
      });
    };
    const int64_t chunks = rows_ * inner.count < kElementsForThreads ? 1 : std::min<int64_t>(rows_, 64);
    if (chunks == 1) return part(0, rows_);
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < chunks; chunk++) part(rows_ * chunk / chunks, rows_ * (chunk + 1) / chunks);
  }

 private:
  std::vector<LoopOf<4>> loops_;
  int64_t rows_;
};

// The table as it is read without the numbers: along its dimension it stands still.
Strided without_axis(const Strided& table, size_t axis, const Strided& result) {
  Strided still{result.dims, table.strides};
  still.strides[axis] = 0;
  return still;
}

template <typename T, typename Index>
class Gather final : public OwnOperator {
 public:
  Gather(size_t axis, const Strided& table, const Strided& indices, const Strided& result) : size_(table.dims[axis]), step_(table.strides[axis]) {
    const Strided still = without_axis(table, axis, result);
    loops_ = plan_loops<3>({&still, &indices, &result});
    rows_ = count_rows(loops_);
  }

  void run(std::byte* const* tensors, std::byte*) const override {
    const LoopOf<3>& inner = loops_.back();
    const int64_t chunks = rows_ * inner.count < kElementsForThreads ? 1 : std::min<int64_t>(rows_, 64);
    // No exception leaves a thread of OpenMP's.
    int64_t outside = -1;
    bool found = false;
#pragma omp parallel for if (chunks > 1)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      each_row(loops_, rows_ * chunk / chunks, rows_ * (chunk + 1) / chunks, [&](const std::array<int64_t, 3>& at) {
        const T* table = reinterpret_cast<const T*>(tensors[0]) + at[0];
        const Index* indices = reinterpret_cast<const Index*>(tensors[1]) + at[1];
        T* to = reinterpret_cast<T*>(tensors[2]) + at[2];
        for (int64_t i = 0; i < inner.count; i++) {
          const auto number = static_cast<int64_t>(indices[i * inner.steps[1]]);
          if (static_cast<uint64_t>(number) < static_cast<uint64_t>(size_)) {
            to[i * inner.steps[2]] = table[i * inner.steps[0] + number * step_];
            continue;
          }
#pragma omp critical(edgex_gather)
          {
            outside = number;
            found = true;
          }
        }
      });
    }
    if (found) throw WrongArgument("number " + std::to_string(outside) + " of a gather from " + std::to_string(size_) + " places");
  }

 private:
  int64_t size_, step_, rows_ = 1;
  std::vector<LoopOf<3>> loops_;
};

template <typename T>
std::unique_ptr<OwnOperator> make_gather_of(int index_dtype, size_t axis, const Strided& table, const Strided& indices,
                                            const Strided& result) {
  if (index_dtype == kInt64) return std::make_unique<Gather<T, int64_t>>(axis, table, indices, result);
  return std::make_unique<Gather<T, int32_t>>(axis, table, indices, result);
}

}  // namespace

std::unique_ptr<OwnOperator> make_where(int dtype, const Strided& mask, const Strided& left, const Strided& right,
                                        const Strided& result) {
  if (dtype == kFloat32) return std::make_unique<Where<uint32_t>>(mask, left, right, result);
  return std::make_unique<Where<uint16_t>>(mask, left, right, result);
}

std::unique_ptr<OwnOperator> make_gather(int dtype, int index_dtype, size_t axis, const Strided& table, const Strided& indices,
                                         const Strided& result) {
  if (dtype == kFloat32) return make_gather_of<uint32_t>(index_dtype, axis, table, indices, result);
  return make_gather_of<uint16_t>(index_dtype, axis, table, indices, result);
}

}  // namespace edgex

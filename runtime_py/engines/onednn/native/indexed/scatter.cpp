#include "indexed/scatter.h"

#include <omp.h>

#include <algorithm>
#include <string>

#include "library/onednn.h"
#include "operators/binary.h"
#include "operators/loops.h"
#include "operators/numbers.h"
#include "plan/plan.h"

namespace edgex {

namespace {

// Elements that go to elements side by side, `to_step` and `from_step` apart.
template <typename T>
struct Row {
  T* to;
  const T* from;
  int64_t count, to_step, from_step;
};

template <typename T>
EDGEX_INLINE void add(T from, T& to) {
  store(to_float(to) + to_float(from), to);
}

template <typename T>
EDGEX_INLINE void add_all(const Row<T>& row) {
  if (row.to_step == 1 && row.from_step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < row.count; i++) add(row.from[i], row.to[i]);
  } else {
    for (int64_t i = 0; i < row.count; i++) add(row.from[i * row.from_step], row.to[i * row.to_step]);
  }
}

EDGEX_FOR_EACH_PROCESSOR void add_long(const Row<float>& row) { add_all(row); }
EDGEX_FOR_EACH_PROCESSOR void add_long(const Row<Bfloat16>& row) { add_all(row); }

// A row of fewer is added before a kernel for the processor is called.
constexpr int64_t kLong = 16;

// One number for each place along a dimension, as if it were repeated to the source's size.
Strided along_axis(const Strided& indices, size_t axis, const Strided& source) {
  Strided repeated{source.dims, std::vector<int64_t>(source.dims.size(), 0)};
  repeated.strides[axis] = indices.strides[0];
  return repeated;
}

template <typename T, typename Index>
class Scatter final : public OwnOperator {
 public:
  Scatter(int kind, int dtype, size_t axis, const Strided& x, const Strided& indices, const Strided& source,
          const Strided& result)
      : from_end_(kind == kAddRows),
        size_(result.dims[axis]),
        step_(result.strides[axis]),
        copy_(make_copy(dtype, x, result)) {
    // As it is written without the numbers: along the dimension it stands still.
    Strided still{source.dims, result.strides};
    still.strides[axis] = 0;
    const Strided numbers = kind == kScatterAdd ? indices : along_axis(indices, axis, source);
    loops_ = plan_loops<3>({&still, &numbers, &source});
    rows_ = count_rows(loops_);
  }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    std::byte* const copied[] = {tensors[0], tensors[0], tensors[3]};
    copy_->run(copied, scratch);
    const LoopOf<3>& inner = loops_.back();
    // Rows for one place stay in their order where each thread has places of its own.
    const bool whole_rows = inner.steps[1] == 0;
    const bool shares = whole_rows && inner.count >= kLong && rows_ * inner.count >= kElementsForThreads;
    const int64_t threads = shares ? std::min<int64_t>(size_, omp_get_max_threads()) : 1;
    // No exception leaves a thread of OpenMP's.
    int64_t outside = -1;
    bool found = false;
#pragma omp parallel for if (threads > 1)
    for (int64_t thread = 0; thread < threads; thread++) {
      const int64_t first = size_ * thread / threads, end = size_ * (thread + 1) / threads;
      each_row(loops_, 0, rows_, [&](const std::array<int64_t, 3>& at) {
        T* to = reinterpret_cast<T*>(tensors[3]) + at[0];
        const Index* indices = reinterpret_cast<const Index*>(tensors[1]) + at[1];
        const T* from = reinterpret_cast<const T*>(tensors[2]) + at[2];
        const int64_t rows = whole_rows ? 1 : inner.count;
        for (int64_t i = 0; i < rows; i++) {
          const auto number = static_cast<int64_t>(indices[i * inner.steps[1]]);
          const int64_t place = number < 0 && from_end_ ? number + size_ : number;
          if (place >= first && place < end) {
            const Row<T> row{to + place * step_ + i * inner.steps[0], from + i * inner.steps[2], whole_rows ? inner.count : 1,
                             inner.steps[0], inner.steps[2]};
            row.count < kLong ? add_all(row) : add_long(row);
          } else if (place < 0 || place >= size_) {
#pragma omp critical(edgex_scatter)
            {
              outside = number;
              found = true;
            }
          }
        }
      });
    }
    if (found) throw WrongArgument("number " + std::to_string(outside) + " of a scatter to " + std::to_string(size_) + " places");
  }

 private:
  bool from_end_;
  int64_t size_, step_, rows_ = 1;
  std::unique_ptr<OwnOperator> copy_;
  std::vector<LoopOf<3>> loops_;
};

template <typename T>
std::unique_ptr<OwnOperator> make_scatter_of(int kind, int dtype, int index_dtype, size_t axis, const Strided& x,
                                             const Strided& indices, const Strided& source, const Strided& result) {
  if (index_dtype == kInt64) return std::make_unique<Scatter<T, int64_t>>(kind, dtype, axis, x, indices, source, result);
  return std::make_unique<Scatter<T, int32_t>>(kind, dtype, axis, x, indices, source, result);
}

}  // namespace

std::unique_ptr<OwnOperator> make_scatter(int kind, int dtype, int index_dtype, size_t axis, const Strided& x,
                                          const Strided& indices, const Strided& source, const Strided& result) {
  if (dtype == kFloat32) return make_scatter_of<float>(kind, dtype, index_dtype, axis, x, indices, source, result);
  return make_scatter_of<Bfloat16>(kind, dtype, index_dtype, axis, x, indices, source, result);
}

}  // namespace edgex

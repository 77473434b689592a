#include "operators/concat.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "operators/binary.h"
#include "operators/numbers.h"
#include "plan/plan.h"

namespace edgex {

namespace {

// Fewer bytes are moved before other threads have begun.
constexpr int64_t kBytesForThreads = 128 << 10;

// Whole vectors, the last one over what was moved already where the rest is shorter than one.
template <int64_t kBytes>
EDGEX_INLINE void move_by(const std::byte* from, std::byte* to, int64_t bytes) {
  for (int64_t i = 0; i + kBytes <= bytes; i += kBytes) std::memcpy(to + i, from + i, kBytes);
  std::memcpy(to + bytes - kBytes, from + bytes - kBytes, kBytes);
}

template <int64_t kBytes>
EDGEX_INLINE void move_rows_by(const std::byte* from, int64_t bytes, std::byte* to, int64_t step, int64_t rows) {
  for (int64_t row = 0; row < rows; row++) move_by<kBytes>(from + row * bytes, to + row * step, bytes);
}

// Rows of so many bytes that lie side by side, to where one begins every `step` bytes.
EDGEX_FOR_EACH_PROCESSOR void move_rows(const std::byte* from, int64_t bytes, std::byte* to, int64_t step, int64_t rows) {
  if (bytes >= 64) return move_rows_by<64>(from, bytes, to, step, rows);
  if (bytes >= 32) return move_rows_by<32>(from, bytes, to, step, rows);
  if (bytes >= 16) return move_rows_by<16>(from, bytes, to, step, rows);
  if (bytes >= 8) return move_rows_by<8>(from, bytes, to, step, rows);
  if (bytes >= 4) return move_rows_by<4>(from, bytes, to, step, rows);
  move_rows_by<2>(from, bytes, to, step, rows);
}

// Joined along the dimension in which elements lie side by side.
class RowConcat final : public OwnOperator {
 public:
  RowConcat(int dtype, size_t axis, const std::vector<Strided>& parts, const Strided& result) {
    const auto element = static_cast<int64_t>(element_bytes(dtype));
    for (const Strided& part : parts) bytes_.push_back(part.dims[axis] * element);
    step_ = result.dims[axis] * element;
    for (int64_t size : result.dims) rows_ *= size;
    rows_ /= result.dims[axis];
  }

  void run(std::byte* const* tensors, std::byte*) const override {
    const int64_t chunks = rows_ * step_ < kBytesForThreads ? 1 : std::min<int64_t>(rows_, 64);
    if (chunks == 1) return join(tensors, 0, rows_);
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      join(tensors, rows_ * chunk / chunks, rows_ * (chunk + 1) / chunks);
    }
  }

 private:
  void join(std::byte* const* tensors, int64_t first, int64_t end) const {
    std::byte* result = tensors[bytes_.size()] + first * step_;
    for (size_t i = 0; i < bytes_.size(); i++) {
      move_rows(tensors[i] + first * bytes_[i], bytes_[i], result, step_, end - first);
      result += bytes_[i];
    }
  }

  std::vector<int64_t> bytes_;  // of a row of each part
  int64_t step_, rows_ = 1;
};

class Concat final : public OwnOperator {
 public:
  Concat(int dtype, size_t axis, const std::vector<Strided>& parts, const Strided& result) {
    int64_t offset = 0;
    for (const Strided& part : parts) {
      copies_.push_back({make_copy(dtype, part, {part.dims, result.strides}),
                         static_cast<size_t>(offset * result.strides[axis]) * element_bytes(dtype)});
      offset += part.dims[axis];
    }
  }

  void run(std::byte* const* tensors, std::byte* scratch) const override {
    std::byte* result = tensors[copies_.size()];
    for (size_t i = 0; i < copies_.size(); i++) {
      std::byte* const pair[] = {tensors[i], tensors[i], result + copies_[i].offset_bytes};
      copies_[i].copy->run(pair, scratch);
    }
  }

 private:
  struct Part {
    std::unique_ptr<OwnOperator> copy;
    size_t offset_bytes;
  };
  std::vector<Part> copies_;
};

// Whether the elements along `axis` lie side by side, and the rows of them that all others number.
bool is_rows(size_t axis, const Strided& tensor, std::vector<size_t>& order) {
  if (tensor.dims[axis] > 1 && tensor.strides[axis] != 1) return false;
  order.clear();
  for (size_t i = 0; i < tensor.dims.size(); i++) {
    if (i != axis && tensor.dims[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tensor.strides[a] < tensor.strides[b]; });
  int64_t expected = tensor.dims[axis];
  for (size_t dim : order) {
    if (tensor.strides[dim] != expected) return false;
    expected *= tensor.dims[dim];
  }
  return true;
}

}  // namespace

bool joins_rows(size_t axis, const std::vector<Strided>& parts, const Strided& result) {
  std::vector<size_t> order, other;
  if (!is_rows(axis, result, order)) return false;
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Strided& part) { return is_rows(axis, part, other) && other == order; });
}

std::unique_ptr<OwnOperator> make_concat(int dtype, size_t axis, const std::vector<Strided>& parts,
                                         const Strided& result) {
  if (joins_rows(axis, parts, result)) return std::make_unique<RowConcat>(dtype, axis, parts, result);
  return std::make_unique<Concat>(dtype, axis, parts, result);
}

}  // namespace edgex

#include "indexed/embedding.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "library/onednn.h"
#include "plan/plan.h"

namespace edgex {

namespace {

// A copy of fewer bytes is over before other threads have begun.
constexpr int64_t kBytesForThreads = 1 << 20;

template <typename Index>
class Embedding final : public OwnOperator {
 public:
  Embedding(size_t element, const Strided& table, const Strided& indices, const Strided& result) : element_(element) {
    rows_ = table.dims[0];
    row_step_ = table.strides[0];
    width_ = table.dims[1];
    step_ = table.strides[1];
    result_step_ = result.strides.back();
    const size_t rank = result.dims.size() - 1;
    places_.push_back({0, 0});
    for (size_t dim = 0; dim < rank; dim++) {
      std::vector<Place> inner;
      for (const Place& place : places_) {
        for (int64_t i = 0; i < result.dims[dim]; i++) {
          inner.push_back({place.index + i * indices.strides[dim], place.row + i * result.strides[dim]});
        }
      }
      places_ = std::move(inner);
    }
  }

  void run(std::byte* const* tensors, std::byte*) const override {
    const std::byte* table = tensors[0];
    const auto* indices = reinterpret_cast<const Index*>(tensors[1]);
    for (const Place& place : places_) {
      const int64_t row = indices[place.index];
      if (row < 0 || row >= rows_) {
        throw WrongArgument("number " + std::to_string(row) + " of an embedding with " + std::to_string(rows_) + " rows");
      }
    }
    const auto count = static_cast<int64_t>(places_.size());
    const bool dense = step_ == 1 && result_step_ == 1;
#pragma omp parallel for if (count * width_ * static_cast<int64_t>(element_) >= kBytesForThreads)
    for (int64_t i = 0; i < count; i++) {
      const Place& place = places_[static_cast<size_t>(i)];
      const std::byte* from = at(table, indices[place.index] * row_step_);
      std::byte* to = tensors[2] + static_cast<size_t>(place.row) * element_;
      if (dense) {
        std::memcpy(to, from, static_cast<size_t>(width_) * element_);
      } else {
        for (int64_t j = 0; j < width_; j++) {
          std::memcpy(to + static_cast<size_t>(j * result_step_) * element_, at(from, j * step_), element_);
        }
      }
    }
  }

 private:
  // One number among the indices, and the row of the result that it gives.
  struct Place {
    int64_t index, row;
  };

  const std::byte* at(const std::byte* start, int64_t elements) const {
    return start + static_cast<size_t>(elements) * element_;
  }

  size_t element_;
  int64_t rows_, row_step_, width_, step_, result_step_;
  std::vector<Place> places_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_embedding(int dtype, int index_dtype, const Strided& table, const Strided& indices,
                                            const Strided& result) {
  const size_t element = element_bytes(dtype);
  if (index_dtype == kInt64) return std::make_unique<Embedding<int64_t>>(element, table, indices, result);
  return std::make_unique<Embedding<int32_t>>(element, table, indices, result);
}

}  // namespace edgex

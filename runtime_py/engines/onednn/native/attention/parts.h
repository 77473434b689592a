// What an attention is made of: its tensors as stacks of matrices, and oneDNN's products of them.
#pragma once

#include <omp.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "library/onednn.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "operators/own_operator.h"
#include "attention/softmax.h"

namespace edgex {

inline void require_fit(bool condition) {
  if (!condition) throw OneDnnError("an attention whose shapes do not fit each other");
}

// Kernels made in its life are for one thread.
class SingleThread {
 public:
  SingleThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThread() { omp_set_num_threads(before_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};

template <typename T>
inline constexpr dnnl::memory::data_type kType = dnnl::memory::data_type::f32;
template <>
inline constexpr dnnl::memory::data_type kType<Bfloat16> = dnnl::memory::data_type::bf16;

template <typename T>
dnnl::memory::desc matrix(int64_t rows, int64_t columns, dnnl::memory::format_tag tag = dnnl::memory::format_tag::ab) {
  return dnnl::memory::desc({rows, columns}, kType<T>, tag);
}

inline dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// The last two dimensions of a tensor, and where each of its matrices starts.
struct Matrices {
  Matrices(const Strided& tensor, const std::vector<int64_t>& batch) {
    const size_t rank = tensor.dims.size();
    require_fit(rank >= 2 && rank <= batch.size() + 2);
    rows = tensor.dims[rank - 2];
    columns = tensor.dims[rank - 1];
    row_step = rows == 1 ? 0 : tensor.strides[rank - 2];
    column_step = columns == 1 ? 0 : tensor.strides[rank - 1];
    starts.push_back(0);
    const size_t missing = batch.size() + 2 - rank;
    for (size_t dim = 0; dim < batch.size(); dim++) {
      const int64_t size = dim < missing ? 1 : tensor.dims[dim - missing];
      require_fit(size == 1 || size == batch[dim]);
      const int64_t step = size == 1 ? 0 : tensor.strides[dim - missing];
      std::vector<int64_t> next;
      for (int64_t start : starts) {
        for (int64_t i = 0; i < batch[dim]; i++) next.push_back(start + i * step);
      }
      starts = std::move(next);
    }
  }

  dnnl::memory::desc described(dnnl::memory::data_type type) const {
    // A stride of a dimension of one element is never used, but must not be 0.
    return dnnl::memory::desc({rows, columns}, type, {std::max<int64_t>(row_step, 1), std::max<int64_t>(column_step, 1)});
  }

  int64_t rows, columns, row_step, column_step;
  std::vector<int64_t> starts;
};

struct Product {
  Product(const dnnl::engine& engine, const dnnl::memory::desc& left, const dnnl::memory::desc& right)
      : described({engine, left, right, matrix<float>(left.get_dims()[0], right.get_dims()[1]), own_scratch()}),
        kernel(described) {}

  dnnl::matmul::primitive_desc described;
  dnnl::matmul kernel;
};

// Places that are scored at once.
struct Part {
  int64_t first, count;
  dnnl::memory::desc take_from, desc;  // of the key's part: as it is given, and as the kernels want it
  dnnl::reorder take;
  size_t byte_offset;
};

// The products of a block of rows; the last block of a head has fewer.
struct Block {
  int64_t rows;
  std::vector<Product> score;  // for each part
  std::vector<Product> sum;    // one
};

// A product for one thread, which runs it with other memory each time. Objects of oneDNN are made once: five for each of
// some thousand small products took a tenth of their time.
class Call {
 public:
  Call(const Product& product, const dnnl::engine& engine)
      : kernel_(product.kernel),
        left_(product.described.src_desc(), engine, DNNL_MEMORY_NONE),
        right_(product.described.weights_desc(), engine, DNNL_MEMORY_NONE),
        result_(product.described.dst_desc(), engine, DNNL_MEMORY_NONE),
        scratch_(product.described.scratchpad_desc(), engine, DNNL_MEMORY_NONE),
        args_{{DNNL_ARG_SRC, left_}, {DNNL_ARG_WEIGHTS, right_}, {DNNL_ARG_DST, result_}, {DNNL_ARG_SCRATCHPAD, scratch_}} {}

  void run(const dnnl::stream& stream, const void* left, const void* right, void* result, void* scratch) const {
    left_.set_data_handle(const_cast<void*>(left));
    right_.set_data_handle(const_cast<void*>(right));
    result_.set_data_handle(result);
    scratch_.set_data_handle(scratch);
    kernel_.execute(stream, args_);
  }

 private:
  dnnl::matmul kernel_;
  dnnl::memory left_, right_, result_, scratch_;
  std::unordered_map<int, dnnl::memory> args_;
};

// The products of a block of rows, for one thread.
struct BlockCalls {
  BlockCalls(const Block& block, const dnnl::engine& engine) : rows(block.rows), sum(block.sum[0], engine) {
    for (const Product& product : block.score) score.emplace_back(product, engine);
  }

  int64_t rows;
  std::vector<Call> score;
  Call sum;
};

}  // namespace edgex

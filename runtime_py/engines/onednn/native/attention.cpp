#include "attention.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "oneapi/dnnl/dnnl.hpp"
#include "onednn.h"

namespace edgex {

namespace {

using dnnl::memory;

constexpr size_t kAlignment = 64;
// A block's scores: half of the second-level cache of a server's core.
constexpr int64_t kScoresBytes = 512 << 10;
constexpr int64_t kFewestRows = 16, kMostRows = 128;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void require(bool condition) {
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

memory::desc matrix(int64_t rows, int64_t columns) {
  return memory::desc({rows, columns}, memory::data_type::f32, memory::format_tag::ab);
}

dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// The last two dimensions of a tensor, and where each of its matrices starts.
struct Matrices {
  Matrices(const Strided& tensor, const std::vector<int64_t>& batch) {
    const size_t rank = tensor.dims.size();
    require(rank >= 2 && rank <= batch.size() + 2);
    rows = tensor.dims[rank - 2];
    columns = tensor.dims[rank - 1];
    row_step = rows == 1 ? 0 : tensor.strides[rank - 2];
    column_step = columns == 1 ? 0 : tensor.strides[rank - 1];
    starts.push_back(0);
    const size_t missing = batch.size() + 2 - rank;
    for (size_t dim = 0; dim < batch.size(); dim++) {
      const int64_t size = dim < missing ? 1 : tensor.dims[dim - missing];
      require(size == 1 || size == batch[dim]);
      const int64_t step = size == 1 ? 0 : tensor.strides[dim - missing];
      std::vector<int64_t> next;
      for (int64_t start : starts) {
        for (int64_t i = 0; i < batch[dim]; i++) next.push_back(start + i * step);
      }
      starts = std::move(next);
    }
  }

  memory::desc described() const {
    // A stride of a dimension of one element is never used, but must not be 0.
    return memory::desc({rows, columns}, memory::data_type::f32,
                        {std::max<int64_t>(row_step, 1), std::max<int64_t>(column_step, 1)});
  }

  int64_t rows, columns, row_step, column_step;
  std::vector<int64_t> starts;
};

// What runs on a block of rows; the last block of a head has fewer.
struct Block {
  // The descriptions of key and value say how the kernels want them; all blocks read the same.
  Block(const dnnl::engine& engine, int64_t rows, const memory::desc& key, const memory::desc& value, int64_t size,
        int64_t columns, int64_t width)
      : rows(rows),
        score({engine, matrix(rows, size), key, matrix(rows, columns), own_scratch()}),
        weigh({engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, matrix(rows, columns),
               matrix(rows, columns), 1, own_scratch()}),
        sum({engine, matrix(rows, columns), value, matrix(rows, width), own_scratch()}),
        score_kernel(score),
        weigh_kernel(weigh),
        sum_kernel(sum) {}

  size_t scratch_bytes() const {
    return std::max({score.scratchpad_desc().get_size(), weigh.scratchpad_desc().get_size(),
                     sum.scratchpad_desc().get_size()});
  }

  int64_t rows;
  dnnl::matmul::primitive_desc score;
  dnnl::softmax_forward::primitive_desc weigh;
  dnnl::matmul::primitive_desc sum;
  dnnl::matmul score_kernel;
  dnnl::softmax_forward weigh_kernel;
  dnnl::matmul sum_kernel;
};

int64_t block_rows(int64_t rows, int64_t columns) {
  const int64_t fit = kScoresBytes / (4 * columns) / 16 * 16;
  return std::min(rows, std::clamp(fit, kFewestRows, kMostRows));
}

std::vector<int64_t> batch_of(const Strided& result) {
  require(result.dims.size() >= 2);
  return {result.dims.begin(), result.dims.end() - 2};
}

}  // namespace

struct Attention::Kernels {
  Kernels(const Strided& q, const Strided& k, const Strided& v, const Strided* m, const Strided& r, float scale)
      : engine(device().engine, true),
        scale(scale),
        query(q, batch_of(r)),
        key(k, batch_of(r)),
        value(v, batch_of(r)),
        result(r, batch_of(r)),
        threads(omp_get_max_threads()) {
    require(query.rows == result.rows && query.columns == key.rows && key.columns == value.rows &&
            value.columns == result.columns);
    if (m != nullptr) {
      mask = std::make_unique<Matrices>(*m, batch_of(r));
      require((mask->rows == query.rows || mask->rows == 1) && (mask->columns == key.columns || mask->columns == 1));
    }
    const SingleThread single;
    const int64_t rows = block_rows(query.rows, key.columns);
    const auto any = [](int64_t a, int64_t b) {
      return memory::desc({a, b}, memory::data_type::f32, memory::format_tag::any);
    };
    const auto make = [&](int64_t count, const memory::desc& key_desc, const memory::desc& value_desc) {
      return Block(engine, count, key_desc, value_desc, key.rows, key.columns, value.columns);
    };
    blocks.push_back(make(rows, any(key.rows, key.columns), any(value.rows, value.columns)));
    key_desc = blocks[0].score.weights_desc();
    value_desc = blocks[0].sum.weights_desc();
    const int64_t rest = query.rows % rows;
    if (rest != 0) blocks.push_back(make(rest, key_desc, value_desc));
    take_key = dnnl::reorder({engine, key.described(), engine, key_desc});
    take_value = dnnl::reorder({engine, value.described(), engine, value_desc});
    key_bytes = round_up(key_desc.get_size());
    value_bytes = round_up(value_desc.get_size());
    query_bytes = round_up(static_cast<size_t>(rows * key.rows) * 4);
    scores_bytes = round_up(static_cast<size_t>(rows * key.columns) * 4);
    result_bytes = round_up(static_cast<size_t>(rows * value.columns) * 4);
    kernel_bytes = 0;
    for (const Block& block : blocks) kernel_bytes = std::max(kernel_bytes, round_up(block.scratch_bytes()));
  }

  size_t heads() const { return result.starts.size(); }
  size_t thread_bytes() const { return query_bytes + scores_bytes + result_bytes + kernel_bytes; }
  size_t shared_bytes() const { return heads() * (key_bytes + value_bytes); }

  memory at(const memory::desc& desc, const void* data) const {
    return memory(desc, engine, const_cast<void*>(data));
  }

  // A head's key and value in the kernels' layout.
  void prepare(size_t head, dnnl::stream& stream, const float* keys, const float* values, std::byte* shared) const {
    memory source = at(key.described(), keys + key.starts[head]);
    memory target = at(key_desc, shared + head * key_bytes);
    take_key.execute(stream, source, target);
    source = at(value.described(), values + value.starts[head]);
    target = at(value_desc, shared + heads() * key_bytes + head * value_bytes);
    take_value.execute(stream, source, target);
  }

  void add_mask(const float* masks, size_t head, int64_t first, int64_t rows, float* scores) const {
    for (int64_t i = 0; i < rows; i++) {
      const float* from = masks + mask->starts[head] + (first + i) * mask->row_step;
      float* to = scores + i * key.columns;
      if (mask->column_step == 1) {
#pragma omp simd
        for (int64_t j = 0; j < key.columns; j++) to[j] += from[j];
      } else {
        for (int64_t j = 0; j < key.columns; j++) to[j] += from[j * mask->column_step];
      }
    }
  }

  // Rows from `first` on, as many as the block has. `own` is the thread's memory.
  void run_block(const Block& block, size_t head, int64_t first, dnnl::stream& stream, const float* queries,
                 const float* masks, float* results, const std::byte* shared, std::byte* own) const {
    auto* rows = reinterpret_cast<float*>(own);
    auto* scores = reinterpret_cast<float*>(own + query_bytes);
    auto* sums = reinterpret_cast<float*>(own + query_bytes + scores_bytes);
    std::byte* kernel = own + query_bytes + scores_bytes + result_bytes;
    for (int64_t i = 0; i < block.rows; i++) {
      const float* from = queries + query.starts[head] + (first + i) * query.row_step;
      for (int64_t j = 0; j < key.rows; j++) rows[i * key.rows + j] = from[j * query.column_step] * scale;
    }
    const memory scored = at(block.score.dst_desc(), scores);
    const auto run = [&](const dnnl::primitive& primitive, const dnnl::primitive_desc_base& described,
                         std::unordered_map<int, memory> arguments) {
      arguments.emplace(DNNL_ARG_SCRATCHPAD, at(described.scratchpad_desc(), kernel));
      primitive.execute(stream, arguments);
    };
    run(block.score_kernel, block.score,
        {{DNNL_ARG_SRC, at(block.score.src_desc(), rows)},
         {DNNL_ARG_WEIGHTS, at(key_desc, shared + head * key_bytes)},
         {DNNL_ARG_DST, scored}});
    if (mask != nullptr) add_mask(masks, head, first, block.rows, scores);
    run(block.weigh_kernel, block.weigh, {{DNNL_ARG_SRC, scored}, {DNNL_ARG_DST, scored}});
    run(block.sum_kernel, block.sum,
        {{DNNL_ARG_SRC, scored},
         {DNNL_ARG_WEIGHTS, at(value_desc, shared + heads() * key_bytes + head * value_bytes)},
         {DNNL_ARG_DST, at(block.sum.dst_desc(), sums)}});
    for (int64_t i = 0; i < block.rows; i++) {
      float* to = results + result.starts[head] + (first + i) * result.row_step;
      for (int64_t j = 0; j < value.columns; j++) to[j * result.column_step] = sums[i * value.columns + j];
    }
  }

  dnnl::engine engine;
  float scale;
  Matrices query, key, value, result;
  std::unique_ptr<Matrices> mask;
  int threads;
  std::vector<Block> blocks;
  memory::desc key_desc, value_desc;
  dnnl::reorder take_key, take_value;
  size_t key_bytes, value_bytes, query_bytes, scores_bytes, result_bytes, kernel_bytes;
};

Attention::Attention(Strided query, Strided key, Strided value, const Strided* mask, Strided result, float scale)
    : kernels_(std::make_unique<Kernels>(query, key, value, mask, result, scale)) {}

Attention::~Attention() = default;

size_t Attention::scratch_bytes() const {
  return kernels_->shared_bytes() + static_cast<size_t>(kernels_->threads) * kernels_->thread_bytes();
}

void Attention::run(const float* query, const float* key, const float* value, const float* mask, float* result,
                    std::byte* scratch) const {
  const Kernels& kernels = *kernels_;
  const auto heads = static_cast<int64_t>(kernels.heads());
  const int64_t rows = kernels.blocks[0].rows, each = (kernels.query.rows + rows - 1) / rows;
  // A session of fewer threads may have come since; memory is there for as many as there were.
  const int threads = std::min(kernels.threads, omp_get_max_threads());
  std::atomic<bool> failed{false};
  // Inside of a parallel region oneDNN's kernels run on the thread that calls them. No exception may leave it.
  const auto guarded = [&](const auto& body) {
    try {
      body();
    } catch (const std::exception&) {
      failed = true;
    }
  };
#pragma omp parallel for num_threads(threads)
  for (int64_t head = 0; head < heads; head++) {
    guarded([&] {
      dnnl::stream stream(kernels.engine);
      kernels.prepare(static_cast<size_t>(head), stream, key, value, scratch);
    });
  }
#pragma omp parallel for num_threads(threads)
  for (int64_t task = 0; task < heads * each; task++) {
    guarded([&] {
      dnnl::stream stream(kernels.engine);
      const auto thread = static_cast<size_t>(omp_get_thread_num());
      std::byte* own = scratch + kernels.shared_bytes() + thread * kernels.thread_bytes();
      const int64_t first = task % each * rows;
      const Block& block = first + rows <= kernels.query.rows ? kernels.blocks.front() : kernels.blocks.back();
      kernels.run_block(block, static_cast<size_t>(task / each), first, stream, query, mask, result, scratch, own);
    });
  }
  if (failed) throw OneDnnError("oneDNN: running an attention failed");
}

}  // namespace edgex

#include "attention/attention.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "attention/parts.h"
#include "attention/direct.h"
#include "plan/plan.h"

namespace edgex {

namespace {

using dnnl::memory;

constexpr size_t kAlignment = 64;
// A block's scores: half of the second-level cache of a server's core.
constexpr int64_t kScoresBytes = 512 << 10;
constexpr int64_t kFewestRows = 16, kMostRows = 128;
// Of bfloat16, scores are computed for that many places at a time, and a multiple of places: oneDNN 3.2 uses AMX for a
// product of rows of 64 numbers up to there (490 GFLOP/s of one core; 85 for 750 places), and for 480 places takes half
// the time of 476.
constexpr int64_t kPlacesAtOnce = 512, kPlacesMultiple = 32;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t block_rows(int64_t rows, int64_t columns) {
  const int64_t fit = kScoresBytes / (4 * columns) / 16 * 16;
  return std::min(rows, std::clamp(fit, kFewestRows, kMostRows));
}

std::vector<int64_t> batch_of(const Strided& result) {
  require_fit(result.dims.size() >= 2);
  return {result.dims.begin(), result.dims.end() - 2};
}

struct Tensors {
  const std::byte *query, *key, *value;
  std::vector<const std::byte*> masks;
  std::byte* result;
};

template <typename T>
class Attention final : public OwnOperator {
 public:
  Attention(int kind, const Strided& query, const Strided& key, const Strided& value, const std::vector<Strided>& masks,
            const Strided& result, float scale)
      : engine_(device().engine, true),
        kind_(kind),
        scale_(scale),
        query_(query, batch_of(result)),
        key_(key, batch_of(result)),
        value_(value, batch_of(result)),
        result_(result, batch_of(result)),
        threads_(omp_get_max_threads()) {
    require_fit(query_.rows == result_.rows && query_.columns == key_.rows && key_.columns == value_.rows &&
            value_.columns == result_.columns);
    for (const Strided& mask : masks) {
      masks_.emplace_back(mask, batch_of(result));
      require_fit((masks_.back().rows == query_.rows || masks_.back().rows == 1) &&
                  (masks_.back().columns == key_.columns || masks_.back().columns == 1));
    }
    const SingleThread single;
    const int64_t rows = block_rows(query_.rows, key_.columns);
    make_parts(rows);
    // All blocks read the key and the value in the layout that the first one asked for.
    const memory::desc value_any = matrix<T>(places_, value_.columns, memory::format_tag::any);
    add_block(rows, value_any);
    value_desc_ = blocks_[0].sum[0].described.weights_desc();
    const int64_t rest = query_.rows % rows;
    if (rest != 0) add_block(rest, value_desc_);
    take_value_ = dnnl::reorder({engine_, value_source(), engine_, value_desc_});
    value_bytes_ = round_up(value_desc_.get_size());
    const auto block_bytes = [&](int64_t columns, size_t element) {
      return round_up(static_cast<size_t>(rows * columns) * element);
    };
    // A thread's memory, in this order. float32 is weighed where the scores are.
    size_t end = block_bytes(key_.rows, sizeof(T));
    const auto next = [&](size_t bytes) { return std::exchange(end, end + bytes); };
    scores_at_ = next(block_bytes(places_, sizeof(float)));
    weights_at_ = kInPlace ? scores_at_ : next(block_bytes(places_, sizeof(T)));
    mixed_at_ = next(block_bytes(value_.columns, sizeof(float)));
    sums_at_ = next(block_bytes(1, sizeof(float)));
    kernel_at_ = next(round_up(kernel_bytes_));
    // The same memory holds a padded key or value before.
    const int64_t copied = places_ * std::max(key_.rows, value_.columns);
    thread_bytes_ = std::max(end, round_up(static_cast<size_t>(copied) * sizeof(T)));
  }

  size_t scratch_bytes() const override {
    return shared_bytes() + static_cast<size_t>(threads_) * thread_bytes_;
  }

  void run(std::byte* const* given, std::byte* scratch) const override {
    const size_t masks = masks_.size();
    const Tensors tensors{given[0], given[1], given[2], {given + 3, given + 3 + masks}, given[3 + masks]};
    const auto heads = static_cast<int64_t>(result_.starts.size());
    const int64_t rows = blocks_[0].rows, each = (query_.rows + rows - 1) / rows;
    // A session of fewer threads may have come since; memory is there for as many as there were.
    const int threads = std::min(threads_, omp_get_max_threads());
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
      guarded([&] { prepare(static_cast<size_t>(head), tensors, scratch, own_memory(scratch)); });
    }
#pragma omp parallel num_threads(threads)
    {
      std::vector<BlockCalls> calls;
      guarded([&] {
        for (const Block& block : blocks_) calls.emplace_back(block, engine_);
      });
#pragma omp for
      for (int64_t task = 0; task < heads * each; task++) {
        guarded([&] {
          const int64_t first = task % each * rows;
          const size_t which = first + rows <= query_.rows ? 0 : blocks_.size() - 1;
          run_block(calls.at(which), static_cast<size_t>(task / each), first, tensors, scratch, own_memory(scratch));
        });
      }
    }
    if (failed) throw OneDnnError("oneDNN: running an attention failed");
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, float>;

  bool padded() const { return places_ != key_.columns; }

  // What the value is packed from: the tensor itself, or its padded copy.
  memory::desc value_source() const {
    return padded() ? matrix<T>(places_, value_.columns) : value_.described(kType<T>);
  }

  void make_parts(int64_t rows) {
    places_ = kInPlace ? key_.columns : (key_.columns + kPlacesMultiple - 1) / kPlacesMultiple * kPlacesMultiple;
    const int64_t step = kInPlace ? places_ : kPlacesAtOnce;
    for (int64_t first = 0; first < places_; first += step) {
      const int64_t count = std::min(step, places_ - first);
      const Product product(engine_, matrix<T>(rows, key_.rows),
                            matrix<T>(key_.rows, count, memory::format_tag::any));
      const memory::desc desc = product.described.weights_desc();
      const int64_t row_step = padded() ? 1 : std::max<int64_t>(key_.row_step, 1);
      const int64_t column_step = padded() ? key_.rows : std::max<int64_t>(key_.column_step, 1);
      const memory::desc source({key_.rows, count}, kType<T>, {row_step, column_step});
      parts_.push_back({first, count, source, desc, dnnl::reorder({engine_, source, engine_, desc}), key_bytes_});
      key_bytes_ += round_up(desc.get_size());
    }
  }

  void add_block(int64_t rows, const memory::desc& value_desc) {
    Block block{rows, {}, {}};
    for (const Part& part : parts_) block.score.emplace_back(engine_, matrix<T>(rows, key_.rows), part.desc);
    block.sum.emplace_back(engine_, matrix<T>(rows, places_), value_desc);
    for (const auto* products : {&block.score, &block.sum}) {
      for (const Product& product : *products) {
        kernel_bytes_ = std::max(kernel_bytes_, product.described.scratchpad_desc().get_size());
      }
    }
    blocks_.push_back(std::move(block));
  }

  size_t shared_bytes() const { return result_.starts.size() * (key_bytes_ + value_bytes_); }

  std::byte* own_memory(std::byte* scratch) const {
    return scratch + shared_bytes() + static_cast<size_t>(omp_get_thread_num()) * thread_bytes_;
  }

  memory at(const memory::desc& desc, const void* data) const {
    return memory(desc, engine_, const_cast<void*>(data));
  }

  std::byte* packed_key(size_t head, const Part& part, std::byte* scratch) const {
    return scratch + head * key_bytes_ + part.byte_offset;
  }

  std::byte* packed_value(size_t head, std::byte* scratch) const {
    return scratch + result_.starts.size() * key_bytes_ + head * value_bytes_;
  }

  // A head's key and value in the kernels' layout. `own` is the thread's memory.
  void prepare(size_t head, const Tensors& tensors, std::byte* scratch, std::byte* own) const {
    dnnl::stream stream(engine_);
    const T* source = reinterpret_cast<const T*>(tensors.key) + key_.starts[head];
    int64_t place_step = key_.column_step;
    if (padded()) {
      source = pad(source, key_.columns, key_.column_step, key_.rows, key_.row_step, reinterpret_cast<T*>(own));
      place_step = key_.rows;
    }
    for (const Part& part : parts_) {
      memory from = at(part.take_from, source + part.first * place_step);
      memory to = at(part.desc, packed_key(head, part, scratch));
      part.take.execute(stream, from, to);
    }
    source = reinterpret_cast<const T*>(tensors.value) + value_.starts[head];
    if (padded()) {
      source = pad(source, value_.rows, value_.row_step, value_.columns, value_.column_step, reinterpret_cast<T*>(own));
    }
    memory from = at(value_source(), source);
    memory to = at(value_desc_, packed_value(head, scratch));
    take_value_.execute(stream, from, to);
  }

  static void copy_row(const T* from, int64_t count, int64_t step, T* to) {
    if (step == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
    }
  }

  // Places as dense rows, zeros behind the last.
  const T* pad(const T* from, int64_t count, int64_t place_step, int64_t size, int64_t step, T* to) const {
    for (int64_t i = 0; i < count; i++) copy_row(from + i * place_step, size, step, to + i * size);
    std::memset(to + count * size, 0, static_cast<size_t>((places_ - count) * size) * sizeof(T));
    return to;
  }

  // Rows from `first` on, as many as the block has. `own` is the thread's memory.
  void run_block(const BlockCalls& block, size_t head, int64_t first, const Tensors& tensors, std::byte* scratch,
                 std::byte* own) const {
    const dnnl::stream stream(engine_);
    auto* rows = reinterpret_cast<T*>(own);
    auto* scores = reinterpret_cast<float*>(own + scores_at_);
    auto* weights = reinterpret_cast<T*>(own + weights_at_);
    auto* mixed = reinterpret_cast<float*>(own + mixed_at_);
    auto* sums = reinterpret_cast<float*>(own + sums_at_);
    take_rows(reinterpret_cast<const T*>(tensors.query) + query_.starts[head] + first * query_.row_step, block.rows, rows);
    for (size_t i = 0; i < parts_.size(); i++) {
      float* const to = scores + block.rows * parts_[i].first;
      block.score[i].run(stream, rows, packed_key(head, parts_[i], scratch), to, own + kernel_at_);
    }
    for (int64_t i = 0; i < block.rows; i++) {
      sums[i] = weigh(tensors, head, first + i, i, block.rows, scores, weights);
    }
    block.sum.run(stream, weights, packed_value(head, scratch), mixed, own + kernel_at_);
    T* to = reinterpret_cast<T*>(tensors.result) + result_.starts[head] + first * result_.row_step;
    for (int64_t i = 0; i < block.rows; i++, to += result_.row_step) {
      const float* from = mixed + i * value_.columns;
      if (result_.column_step == 1) {
        scale_row(from, value_.columns, 1 / sums[i], to);
      } else {
        for (int64_t j = 0; j < value_.columns; j++) narrow(from[j] / sums[i], to[j * result_.column_step]);
      }
    }
  }

  void take_rows(const T* from, int64_t count, T* rows) const {
    for (int64_t i = 0; i < count; i++, from += query_.row_step, rows += key_.rows) {
      copy_row(from, key_.rows, query_.column_step, rows);
    }
  }

  // Row `row` of the head, row i of a block of `rows`. The weights' sum, by which they are not divided yet: that takes a
  // number for each column of the value, not for each of the key.
  float weigh(const Tensors& tensors, size_t head, int64_t row, int64_t i, int64_t rows, float* scores, T* weights) const {
    const auto each = [&](const auto& body) {
      for (const Part& part : parts_) {
        const int64_t count = std::min(part.count, key_.columns - part.first);
        body(scores + rows * part.first + i * part.count, count, part.first);
      }
    };
    float scale = scale_;
    for (size_t number = 0; number < masks_.size(); number++) {
      const Matrices& mask = masks_[number];
      const T* numbers = reinterpret_cast<const T*>(tensors.masks[number]) + mask.starts[head] + row * mask.row_step;
      each([&](float* from, int64_t count, int64_t first) {
        mask_row(from, count, scale, numbers + first * mask.column_step, mask.column_step);
      });
      scale = 1;
    }
    if (scale < 0) {
      // The largest weight would be that of the smallest score.
      each([&](float* from, int64_t count, int64_t) { scale_row(from, count, scale, from); });
      scale = 1;
    }
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float largest = kNone, sum = 0;
    each([&](float* from, int64_t count, int64_t) { largest = std::max(largest, find_largest(from, count)); });
    const bool none = largest == kNone;
    if (none) largest = 0;  // then all weights are the same
    each([&](float* from, int64_t count, int64_t first) {
      sum += weigh_row(from, count, scale, largest);
      if constexpr (!kInPlace) scale_row(from, count, 1, weights + i * places_ + first);
    });
    if constexpr (!kInPlace) {
      std::memset(weights + i * places_ + key_.columns, 0, static_cast<size_t>(places_ - key_.columns) * sizeof(T));
    }
    if (none && kind_ == kGuardedAttention) return std::numeric_limits<float>::infinity();
    if (none && kind_ == kSoftmaxAttention) return std::numeric_limits<float>::quiet_NaN();
    return sum;
  }

  dnnl::engine engine_;
  int kind_;
  float scale_;
  Matrices query_, key_, value_, result_;
  std::vector<Matrices> masks_;
  int threads_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
  int64_t places_ = 0;  // columns of the key, padded
  memory::desc value_desc_;
  dnnl::reorder take_value_;
  size_t key_bytes_ = 0, value_bytes_ = 0, kernel_bytes_ = 0;
  size_t scores_at_, weights_at_, mixed_at_, sums_at_, kernel_at_, thread_bytes_;
};

// Products of our own are quicker than oneDNN's up to here: by 6 for windows of 49 places, by 1.1 for 1,500 places; with 4,096
// they take 1.2 of the time (two cores of a Cascade Lake), since a head's key and value leave the second-level cache.
constexpr int64_t kMostDirect = 2048;

}  // namespace

std::unique_ptr<OwnOperator> make_attention(int kind, int dtype, const Strided& query, const Strided& key,
                                            const Strided& value, const std::vector<Strided>& masks,
                                            const Strided& result, float scale) {
  if (dtype == kFloat32 && key.dims.back() <= kMostDirect) {
    return make_direct_attention(kind, query, key, value, masks, result, scale);
  }
  if (dtype == kFloat32) return std::make_unique<Attention<float>>(kind, query, key, value, masks, result, scale);
  if (dtype == kBfloat16) return std::make_unique<Attention<Bfloat16>>(kind, query, key, value, masks, result, scale);
  throw OneDnnError("an attention of other tensors");
}

}  // namespace edgex

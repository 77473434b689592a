#include "attention/direct.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "attention/parts.h"
#include "attention/product.h"
#include "plan/plan.h"

namespace edgex {

namespace {

// A block's scores: a quarter of the second-level cache of a server's core. Tiles of a product have 6 rows.
constexpr int64_t kScoresBytes = 256 << 10, kTile = 6, kMostRows = 96;
// So many rows are multiplied without bringing the key into panels, which would cost more.
constexpr int64_t kFewRows = 3;
// Fewer multiplications are over before other threads have begun.
constexpr int64_t kWorkForThreads = 64 << 10;

int64_t block_rows(int64_t rows, int64_t columns) {
  const int64_t fit = kScoresBytes / (4 * columns) / kTile * kTile;
  return std::min(rows, std::clamp(fit, kTile, kMostRows));
}

struct Tensors {
  const float *query, *key, *value;
  std::vector<const float*> masks;
  float* result;
};

class DirectAttention final : public OwnOperator {
 public:
  DirectAttention(int kind, const Strided& query, const Strided& key, const Strided& value, const std::vector<Strided>& masks,
                  const Strided& result, float scale)
      : kind_(kind),
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
    packed_ = query_.rows > kFewRows || (key_.rows > 1 && key_.row_step != 1) ||
              (value_.columns > 1 && value_.column_step != 1);
    rows_ = block_rows(query_.rows, pad_to_lanes(key_.columns));
    if (packed_) {
      key_numbers_ = static_cast<size_t>(key_.rows * pad_to_lanes(key_.columns));
      value_numbers_ = static_cast<size_t>(key_.columns * pad_to_lanes(value_.columns));
    }
    const auto heads = static_cast<int64_t>(result_.starts.size());
    // With more heads than threads, each thread packs what it is about to read.
    each_for_itself_ = heads >= threads_;
    small_ = heads * query_.rows * key_.columns * (key_.rows + value_.columns) < kWorkForThreads;
    // A thread's memory, in this order, of which a head's key and value come last.
    size_t end = 0;
    const auto next = [&](int64_t columns) {
      return std::exchange(end, end + static_cast<size_t>(rows_ * pad_to_lanes(columns)));
    };
    query_at_ = next(key_.rows);
    scores_at_ = next(key_.columns);
    mixed_at_ = next(value_.columns);
    panels_at_ = end;
    thread_numbers_ = (end + (each_for_itself_ ? panel_numbers() : 0) + kLanes) / kLanes * kLanes;
  }

  size_t scratch_bytes() const override {
    const size_t shared = each_for_itself_ ? 0 : result_.starts.size() * panel_numbers();
    return (shared + static_cast<size_t>(threads_) * thread_numbers_) * sizeof(float);
  }

  void run(std::byte* const* given, std::byte* scratch) const override {
    const auto numbers = [&](size_t i) { return reinterpret_cast<float*>(given[i]); };
    Tensors tensors{numbers(0), numbers(1), numbers(2), {}, numbers(3 + masks_.size())};
    for (size_t i = 0; i < masks_.size(); i++) tensors.masks.push_back(numbers(3 + i));
    float* const memory = reinterpret_cast<float*>(scratch);
    const auto heads = static_cast<int64_t>(result_.starts.size());
    // A session of fewer threads may have come since; memory is there for as many as there were.
    const int threads = small_ ? 1 : std::min(threads_, omp_get_max_threads());
    const auto own = [&] { return memory + static_cast<size_t>(omp_get_thread_num()) * thread_numbers_; };
    if (each_for_itself_) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
      for (int64_t head = 0; head < heads; head++) {
        float* const mine = own();
        pack(static_cast<size_t>(head), tensors, mine + panels_at_);
        for (int64_t first = 0; first < query_.rows; first += rows_) {
          run_block(static_cast<size_t>(head), first, tensors, mine + panels_at_, mine);
        }
      }
      return;
    }
    float* const shared = memory + static_cast<size_t>(threads_) * thread_numbers_;
    const int64_t blocks = (query_.rows + rows_ - 1) / rows_;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for
      for (int64_t head = 0; head < heads; head++) {
        pack(static_cast<size_t>(head), tensors, shared + static_cast<size_t>(head) * panel_numbers());
      }
#pragma omp for
      for (int64_t task = 0; task < heads * blocks; task++) {
        const auto head = static_cast<size_t>(task / blocks);
        run_block(head, task % blocks * rows_, tensors, shared + head * panel_numbers(), own());
      }
    }
  }

 private:
  static std::vector<int64_t> batch_of(const Strided& result) {
    require_fit(result.dims.size() >= 2);
    return {result.dims.begin(), result.dims.end() - 2};
  }

  size_t panel_numbers() const { return key_numbers_ + value_numbers_; }

  void pack(size_t head, const Tensors& tensors, float* to) const {
    if (!packed_) return;
    pack_panels(tensors.key + key_.starts[head], key_.rows, key_.columns, key_.row_step, key_.column_step, to);
    pack_panels(tensors.value + value_.starts[head], value_.rows, value_.columns, value_.row_step,
                value_.columns == 1 ? 1 : value_.column_step, to + key_numbers_);
  }

  // Rows from `first` on, at most a block of them.
  void run_block(size_t head, int64_t first, const Tensors& tensors, const float* panels, float* own) const {
    const int64_t rows = std::min(rows_, query_.rows - first);
    const int64_t places = pad_to_lanes(key_.columns), width = pad_to_lanes(value_.columns);
    float *const scores = own + scores_at_, *const mixed = own + mixed_at_;
    const float* query = tensors.query + query_.starts[head] + first * query_.row_step;
    int64_t query_step = query_.row_step;
    if (query_.columns > 1 && query_.column_step != 1) {
      float* const copy = own + query_at_;
      for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < query_.columns; j++) {
          copy[i * query_.columns + j] = query[i * query_.row_step + j * query_.column_step];
        }
      }
      query = copy;
      query_step = query_.columns;
    }
    if (packed_) {
      multiply_panels(query, query_step, panels, rows, key_.rows, key_.columns, scores, places);
    } else {
      for (int64_t i = 0; i < rows; i++) {
        multiply_rows(query + i * query_step, tensors.key + key_.starts[head], key_.columns, key_.rows, key_.column_step,
                      scores + i * places);
      }
    }
    float factors[kMostRows];
    for (int64_t i = 0; i < rows; i++) factors[i] = weigh(tensors, head, first + i, scores + i * places);
    if (packed_) {
      multiply_panels(scores, places, panels + key_numbers_, rows, key_.columns, value_.columns, mixed, width);
    } else {
      for (int64_t i = 0; i < rows; i++) {
        mix_rows(scores + i * places, tensors.value + value_.starts[head], key_.columns, value_.columns, value_.row_step,
                 mixed + i * width);
      }
    }
    float* to = tensors.result + result_.starts[head] + first * result_.row_step;
    for (int64_t i = 0; i < rows; i++, to += result_.row_step) {
      const float* from = mixed + i * width;
      if (result_.column_step == 1) {
        scale_row(from, value_.columns, factors[i], to);
      } else {
        for (int64_t j = 0; j < value_.columns; j++) to[j * result_.column_step] = from[j] * factors[i];
      }
    }
  }

  // The scores of one row to weights; returns by what their mixture is multiplied, since they are not divided yet.
  float weigh(const Tensors& tensors, size_t head, int64_t row, float* scores) const {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float scale = scale_;
    for (size_t i = 0; i < masks_.size(); i++) {
      const Matrices& mask = masks_[i];
      mask_row(scores, key_.columns, scale, tensors.masks[i] + mask.starts[head] + row * mask.row_step, mask.column_step);
      scale = 1;
    }
    if (scale < 0) {
      // The largest weight would be that of the smallest score.
      scale_row(scores, key_.columns, scale, scores);
      scale = 1;
    }
    const float largest = find_largest(scores, key_.columns);
    if (largest == kNone) {
      if (kind_ == kSoftmaxAttention) return std::numeric_limits<float>::quiet_NaN();
      if (kind_ == kGuardedAttention) {
        std::memset(scores, 0, static_cast<size_t>(key_.columns) * sizeof(float));
        return 0;
      }
    }
    return 1 / weigh_row(scores, key_.columns, scale, largest == kNone ? 0 : largest);
  }

  int kind_;
  float scale_;
  Matrices query_, key_, value_, result_;
  std::vector<Matrices> masks_;
  int threads_;
  bool packed_, each_for_itself_, small_;
  int64_t rows_;
  size_t key_numbers_ = 0, value_numbers_ = 0;
  size_t query_at_, scores_at_, mixed_at_, panels_at_, thread_numbers_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_direct_attention(int kind, const Strided& query, const Strided& key, const Strided& value,
                                                   const std::vector<Strided>& masks, const Strided& result, float scale) {
  return std::make_unique<DirectAttention>(kind, query, key, value, masks, result, scale);
}

}  // namespace edgex

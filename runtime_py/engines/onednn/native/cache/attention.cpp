#include "cache/attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "attention/parts.h"
#include "attention/product.h"
#include "attention/softmax.h"
#include "cache/memory.h"
#include "cache/rows.h"
#include "small/layout.h"

namespace edgex {

namespace {

// So many tokens at once are scored with keys as they lie: to bring these into panels would cost more.
constexpr int64_t kFewTokens = 2;
// Places that are scored at a time, whole panels of a product; with so many rows their scores take a tenth of a megabyte.
constexpr int64_t kPlaces = 256, kRows = 96;
// Of few rows, places of one task, and places of all tasks for another thread to be woken. How the work is parted does not
// depend on threads, and so neither do the bits of the result.
constexpr int64_t kPlacesOfFew = 128, kPlacesForThreads = 384;
// With scales of the two caches, which 8 bits have.
constexpr size_t kInputsOf8Bits = 8;

struct Tensors {
  const float* query;
  CacheMemory keys, values;
  float* result;
};

// What softmax has come to after some places: the largest score, the sum of weights, and their mixture of values.
struct Running {
  float* largest;
  float* sum;
  float* mixed;
};

void copy_numbers(const float* from, int64_t step, int64_t count, float factor, float* to) {
  if (step == 1) return scale_row(from, count, factor, to);
  for (int64_t i = 0; i < count; i++) to[i] = from[i * step] * factor;
}

EDGEX_FOR_EACH_PROCESSOR void add_numbers(const float* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

class CachedAttention final : public OwnOperator {
 public:
  CachedAttention(const std::vector<Strided>& inputs, const Strided& result, float scale, int64_t window)
      : query_(inputs[0]),
        eight_bits_(inputs.size() == kInputsOf8Bits),
        keys_(inputs[1], inputs[3].dims[2], eight_bits_),
        values_(inputs[2], inputs[3].dims[2], eight_bits_),
        end_(inputs.size() - 1),
        result_(result),
        scale_(scale),
        window_(window),
        threads_(omp_get_max_threads()) {
    heads_ = query_.dims[1];
    tokens_ = query_.dims[2];
    size_ = query_.dims[3];
    shared_ = inputs[1].dims[1];
    width_ = result_.dims[3];
    context_ = inputs[3].dims[2];
    each_ = heads_ / shared_;
    require_fit(std::all_of(inputs.begin() + 3, inputs.end() - 1, is_row_major));
    few_ = tokens_ <= kFewTokens;
    const int64_t padded = pad_to_lanes(width_);
    if (few_) {
      splits_ = (context_ + kPlacesOfFew - 1) / kPlacesOfFew;
      rows_ = each_ * tokens_;
      places_ = kPlacesOfFew;
      mixed_width_ = width_;
    } else {
      tokens_at_once_ = std::clamp<int64_t>(kRows / each_, 1, tokens_);
      rows_ = each_ * tokens_at_once_;
      places_ = kPlaces;
      mixed_width_ = padded;
      as_they_lie_ = padded == width_ && width_ <= kPanel;
      key_panel_ = size_ * pad_to_lanes(context_);
      value_panel_ = as_they_lie_ && !eight_bits_ ? 0 : padded * context_;
    }
    // A thread's memory, in this order; of few rows, that of each part of the places.
    size_t end = 0;
    const auto next = [&](int64_t numbers) { return std::exchange(end, end + static_cast<size_t>(pad_to_lanes(numbers))); };
    query_at_ = next(rows_ * size_);
    scores_at_ = next(rows_ * places_);
    mixed_at_ = next(rows_ * mixed_width_);
    added_at_ = next(few_ ? 0 : rows_ * mixed_width_);
    largest_at_ = next(rows_);
    sum_at_ = next(rows_);
    own_numbers_ = end;
    // Behind what each of few rows' parts, or each thread, has: all panels, and rows that a thread brings from 8 bits.
    const int64_t owners = few_ ? shared_ * splits_ : threads_;
    const int64_t panels = shared_ * (pad_to_lanes(key_panel_) + pad_to_lanes(value_panel_));
    panels_at_ = static_cast<size_t>(owners) * own_numbers_;
    read_at_ = panels_at_ + static_cast<size_t>(panels);
    const int64_t keys_read = few_ ? keys_.rows_at_once(places_) : kPanel;
    const int64_t values_read = few_ ? values_.rows_at_once(places_) : kPanel;
    read_numbers_ = eight_bits_ ? static_cast<size_t>(pad_to_lanes(std::max(keys_read * size_, values_read * width_))) : 0;
  }

  size_t scratch_bytes() const override {
    return (read_at_ + static_cast<size_t>(threads_) * read_numbers_) * sizeof(float);
  }

  void run(std::byte* const* given, std::byte* scratch) const override {
    const auto numbers = [&](size_t i) { return reinterpret_cast<float*>(given[i]); };
    const int64_t end = *reinterpret_cast<const int64_t*>(given[end_]), start = end - tokens_;
    if (start < 0 || end > context_) {
      throw WrongArgument("a text of " + std::to_string(tokens_) + " tokens that ends at " + std::to_string(end) +
                          ", in a cache for " + std::to_string(context_));
    }
    const CacheMemory keys{given[3], eight_bits_ ? numbers(5) : nullptr}, values{given[4], eight_bits_ ? numbers(6) : nullptr};
    const Tensors tensors{numbers(0), keys, values, numbers(end_ + 1)};
    float* const memory = reinterpret_cast<float*>(scratch);
    keys_.write(numbers(1), keys, start);
    values_.write(numbers(2), values, start);
    if (few_) {
      run_few(tensors, start, memory);
    } else {
      run_many(tensors, start, memory);
    }
  }

 private:
  // The first place that a token at `position` sees.
  int64_t first_seen(int64_t position) const { return window_ > 0 ? std::max<int64_t>(0, position + 1 - window_) : 0; }

  // Rows of the block: for each head that shares the key, the tokens from `token` on.
  void take_query(const Tensors& tensors, int64_t shared, int64_t token, int64_t tokens, float* to) const {
    for (int64_t head = shared * each_; head < (shared + 1) * each_; head++) {
      for (int64_t i = 0; i < tokens; i++, to += size_) {
        const float* row = tensors.query + head * query_.strides[1] + (token + i) * query_.strides[2];
        copy_numbers(row, size_ == 1 ? 1 : query_.strides[3], size_, scale_, to);
      }
    }
  }

  Running running(float* own) const { return {own + largest_at_, own + sum_at_, own + mixed_at_}; }

  void begin(const Running& running, int64_t rows) const {
    std::fill(running.largest, running.largest + rows, -std::numeric_limits<float>::infinity());
    std::fill(running.sum, running.sum + rows, 0.0f);
    std::fill(running.mixed, running.mixed + rows * mixed_width_, 0.0f);
  }

  // The scores of one row at places from `first` on to weights; what the row was mixed to is brought to the same scale.
  void weigh(const Running& running, int64_t row, int64_t position, int64_t first, int64_t count, float* scores) const {
    const int64_t begin = std::clamp<int64_t>(first_seen(position) - first, 0, count);
    const int64_t end = std::clamp<int64_t>(position + 1 - first, begin, count);
    if (begin < end) {
      const float before = running.largest[row];
      const float largest = std::max(before, find_largest(scores + begin, end - begin));
      const float sum = weigh_row(scores + begin, end - begin, 1, largest);
      if (largest != before) {
        const float factor = std::exp(before - largest);  // 0 at first
        running.sum[row] *= factor;
        scale_row(running.mixed + row * mixed_width_, mixed_width_, factor, running.mixed + row * mixed_width_);
        running.largest[row] = largest;
      }
      running.sum[row] += sum;
    }
    std::fill(scores, scores + begin, 0.0f);
    std::fill(scores + end, scores + count, 0.0f);
  }

  void give(const Tensors& tensors, int64_t shared, int64_t token, int64_t tokens, const float* mixed, const float* factors) const {
    for (int64_t each = 0, row = 0; each < each_; each++) {
      for (int64_t i = 0; i < tokens; i++, row++) {
        float* to = tensors.result + (shared * each_ + each) * result_.strides[1] + (token + i) * result_.strides[2];
        const float* from = mixed + row * mixed_width_;
        if (width_ == 1 || result_.strides[3] == 1) {
          scale_row(from, width_, factors[row], to);
        } else {
          for (int64_t j = 0; j < width_; j++) to[j * result_.strides[3]] = from[j] * factors[row];
        }
      }
    }
  }

  void run_few(const Tensors& tensors, int64_t start, float* memory) const {
    const int64_t end = start + tokens_, lowest = first_seen(start), seen = end - lowest;
    const int threads = seen * shared_ < kPlacesForThreads ? 1 : std::min(threads_, omp_get_max_threads());
    const int64_t splits = (seen + kPlacesOfFew - 1) / kPlacesOfFew;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t task = 0; task < shared_ * splits; task++) {
      const int64_t shared = task / splits, part = task % splits;
      float* const own = memory + static_cast<size_t>(task) * own_numbers_;
      take_query(tensors, shared, 0, tokens_, own + query_at_);
      const int64_t first = lowest + part * kPlacesOfFew;
      mix_few(tensors, shared, start, first, std::min(first + kPlacesOfFew, end), own, rows_of_thread(memory));
    }
    for (int64_t shared = 0; shared < shared_; shared++) {
      float* const own = memory + static_cast<size_t>(shared * splits) * own_numbers_;
      for (int64_t part = 1; part < splits; part++) join(own, own + static_cast<size_t>(part) * own_numbers_);
      const Running whole = running(own);
      for (int64_t row = 0; row < rows_; row++) whole.sum[row] = 1 / whole.sum[row];
      give(tensors, shared, 0, tokens_, whole.mixed, whole.sum);
    }
  }

  // Where this thread brings rows from 8 bits to.
  float* rows_of_thread(float* memory) const {
    return memory + read_at_ + static_cast<size_t>(omp_get_thread_num()) * read_numbers_;
  }

  void mix_few(const Tensors& tensors, int64_t shared, int64_t start, int64_t from, int64_t to, float* own, float* buffer) const {
    const Running found = running(own);
    begin(found, rows_);
    float* const scores = own + scores_at_;
    const int64_t count = to - from;
    const auto read = [&](const CacheRows& rows, const CacheMemory& memory, auto&& take) {
      const int64_t step = rows.rows_at_once(count);
      for (int64_t at = 0; at < count; at += step) {
        const int64_t some = std::min(step, count - at);
        take(at, some, rows.read(memory, shared, from + at, some, buffer));
      }
    };
    read(keys_, tensors.keys, [&](int64_t at, int64_t some, const float* keys) {
      score_keys(own + query_at_, rows_, keys, some, size_, scores + at, places_);
    });
    for (int64_t row = 0; row < rows_; row++) weigh(found, row, start + row % tokens_, from, count, scores + row * places_);
    read(values_, tensors.values, [&](int64_t at, int64_t some, const float* values) {
      add_values(scores + at, places_, rows_, values, some, width_, found.mixed);
    });
  }

  // Adds what other places came to.
  void join(float* own, float* other) const {
    const Running one = running(own), two = running(other);
    for (int64_t row = 0; row < rows_; row++) {
      const float largest = std::max(one.largest[row], two.largest[row]);
      if (largest == -std::numeric_limits<float>::infinity()) continue;
      const float ours = std::exp(one.largest[row] - largest), theirs = std::exp(two.largest[row] - largest);
      one.sum[row] = one.sum[row] * ours + two.sum[row] * theirs;
      one.largest[row] = largest;
      float *to = one.mixed + row * mixed_width_, *from = two.mixed + row * mixed_width_;
      for (int64_t i = 0; i < mixed_width_; i++) to[i] = to[i] * ours + from[i] * theirs;
    }
  }

  void run_many(const Tensors& tensors, int64_t start, float* memory) const {
    const int64_t end = start + tokens_, lowest = first_seen(start) / kPanel * kPanel;
    const int64_t panels = (end - lowest + kPanel - 1) / kPanel;
    const int64_t blocks = (tokens_ + tokens_at_once_ - 1) / tokens_at_once_;
    const int threads = std::min(threads_, omp_get_max_threads());
    float* const key_panels = memory + panels_at_;
    float* const value_panels = key_panels + shared_ * pad_to_lanes(key_panel_);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for
      for (int64_t task = 0; task < shared_ * panels; task++) {
        const int64_t first = lowest + task % panels * kPanel;
        pack(tensors, task / panels, first, end, key_panels, value_panels, rows_of_thread(memory));
      }
      // The last tokens see most.
#pragma omp for schedule(dynamic)
      for (int64_t task = shared_ * blocks - 1; task >= 0; task--) {
        float* const own = memory + static_cast<size_t>(omp_get_thread_num()) * own_numbers_;
        mix_many(tensors, task % shared_, task / shared_ * tokens_at_once_, start, key_panels, value_panels, own);
      }
    }
  }

  void pack(const Tensors& tensors, int64_t shared, int64_t first, int64_t end, float* key_panels, float* value_panels,
            float* buffer) const {
    const int64_t count = std::min(kPanel, end - first);
    const float* key = keys_.read(tensors.keys, shared, first, count, buffer);
    pack_panels(key, size_, count, 1, size_, key_panels + shared * pad_to_lanes(key_panel_) + first * size_);
    float* const panels = value_panels + shared * pad_to_lanes(value_panel_);
    if (as_they_lie_) {
      values_.read(tensors.values, shared, first, count, panels + first * width_);
      return;
    }
    const float* value = values_.read(tensors.values, shared, first, count, buffer);
    // A value's panels are as long as the context: each of them gets these rows.
    for (int64_t column = 0; column < width_; column += kPanel) {
      const int64_t width = std::min(kPanel, width_ - column);
      pack_panels(value + column, count, width, width_, 1, panels + column * context_ + first * pad_to_lanes(width));
    }
  }

  void mix_many(const Tensors& tensors, int64_t shared, int64_t token, int64_t start, const float* key_panels,
                const float* value_panels, float* own) const {
    const int64_t tokens = std::min(tokens_at_once_, tokens_ - token), rows = each_ * tokens;
    const int64_t end = start + token + tokens;
    const Running found = running(own);
    begin(found, rows);
    take_query(tensors, shared, token, tokens, own + query_at_);
    float *const scores = own + scores_at_, *const added = own + added_at_;
    const float* keys = key_panels + shared * pad_to_lanes(key_panel_);
    // Values of one panel need not be packed: where they are in float32, they are read as they lie.
    const float* values = value_panels + shared * pad_to_lanes(value_panel_);
    if (as_they_lie_ && !eight_bits_) values = values_.read(tensors.values, shared, 0, context_, nullptr);
    const int64_t packed = start + tokens_;
    for (int64_t first = first_seen(start + token) / kPanel * kPanel; first < end; first += places_) {
      const int64_t count = std::min(places_, end - first);
      // Whole panels, as they were packed; what is behind `count` gets no weight.
      const int64_t whole = (count + kPanel - 1) / kPanel * kPanel;
      multiply_panels(own + query_at_, size_, keys + first * size_, rows, size_, std::min(whole, packed - first), scores, places_);
      for (int64_t row = 0; row < rows; row++) {
        weigh(found, row, start + token + row % tokens, first, count, scores + row * places_);
      }
      for (int64_t column = 0; column < width_; column += kPanel) {
        const int64_t width = std::min(kPanel, width_ - column);
        const float* panel = values + column * context_ + first * pad_to_lanes(width);
        multiply_panels(scores, places_, panel, rows, count, width, added + column, mixed_width_);
      }
      add_numbers(added, rows * mixed_width_, found.mixed);
    }
    for (int64_t row = 0; row < rows; row++) found.sum[row] = 1 / found.sum[row];
    give(tensors, shared, token, tokens, found.mixed, found.sum);
  }

  Strided query_;
  bool eight_bits_;
  CacheRows keys_, values_;
  size_t end_;  // among the inputs
  Strided result_;
  float scale_;
  int64_t window_;
  int threads_;
  int64_t heads_, tokens_, size_, shared_, width_, context_, each_;
  bool few_, as_they_lie_ = false;
  int64_t splits_ = 1, tokens_at_once_ = 1, rows_, places_, mixed_width_, key_panel_ = 0, value_panel_ = 0;
  size_t query_at_, scores_at_, mixed_at_, added_at_, largest_at_, sum_at_, own_numbers_, panels_at_, read_at_, read_numbers_;
};

}  // namespace

std::unique_ptr<OwnOperator> make_cached_attention(const std::vector<Strided>& inputs, const Strided& result, float scale,
                                                   int64_t window) {
  return std::make_unique<CachedAttention>(inputs, result, scale, window);
}

}  // namespace edgex

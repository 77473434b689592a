#include "library/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace edgex {

namespace {

constexpr size_t kHugePage = 2 << 20, kAlignment = 64;
constexpr size_t kSlabBytes = 16 * kHugePage;
// Pages that the system makes in one go.
constexpr size_t kAheadBytes = 16 * kHugePage;
// Fewer bytes of constants gain nothing: the processor remembers the places of some 2,000 pages.
constexpr size_t kFewestBytes = 4 * kHugePage;

size_t round_up(size_t size, size_t grain) { return (size + grain - 1) / grain * grain; }

// Asks the system for huge pages (2 MiB) for memory that is not touched yet; it may decline.
void want_huge_pages(void* start, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(start);
  const uintptr_t low = round_up(first, kHugePage), high = (first + bytes) / kHugePage * kHugePage;
  if (low < high) madvise(reinterpret_cast<void*>(low), high - low, MADV_HUGEPAGE);
}

// Memory for blocks that come while a program is loaded and go when it is closed, so that none is given out twice.
struct Slab {
  char* start;
  size_t bytes;
  size_t expected;  // to be used
  size_t used = 0, ready = 0, blocks = 0;
};

// Partitions take scratch memory at every run and give it back. From malloc, large blocks come as fresh pages each
// time, at 2 us a page; so blocks are kept, and the same run finds the same blocks.
class Keeper {
 public:
  void* take(size_t size, size_t alignment) {
    if (alignment > kHeader) return nullptr;
    const size_t need = round_up(size + kHeader, kGrain);
    const std::lock_guard<std::mutex> lock(mutex_);
    Block* block = find_kept(need);
    if (block == nullptr) block = make(need);
    if (block == nullptr) return nullptr;
    held_ += need;
    return reinterpret_cast<char*>(block) + kHeader;
  }

  void give(void* memory) {
    if (memory == nullptr) return;
    auto* block = reinterpret_cast<Block*>(static_cast<char*>(memory) - kHeader);
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ -= block->bytes;
    kept_.push_back(block);
    if (kept_.size() <= kMostBlocks) return;
    Block* oldest = kept_.front();
    kept_.erase(kept_.begin());
    free_block(oldest);
  }

  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Block* block : kept_) free_block(block);
    kept_.clear();
  }

  size_t held() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }

  void begin_constants(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    loading_ = bytes >= kFewestBytes;
    expected_ = bytes;
  }

  void end_constants() {
    const std::lock_guard<std::mutex> lock(mutex_);
    loading_ = false;
    finish(std::exchange(open_, nullptr));
  }

 private:
  struct Block {
    size_t bytes;
    Slab* slab;  // null: from malloc
  };
  static constexpr size_t kHeader = 64, kGrain = 4096, kMostBlocks = 32;

  Block* find_kept(size_t need) {
    for (size_t i = kept_.size(); i-- > 0;) {
      if (kept_[i]->bytes != need) continue;
      Block* block = kept_[i];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return block;
    }
    return nullptr;
  }

  Block* make(size_t need) {
    Slab* slab = loading_ ? slab_for(need) : nullptr;
    void* memory = slab == nullptr ? std::aligned_alloc(kHeader, need) : slab->start + slab->used;
    if (memory == nullptr) return nullptr;
    if (slab != nullptr) {
      make_pages(*slab, slab->used + need);
      slab->used += need;
      slab->blocks++;
    }
    return new (memory) Block{need, slab};
  }

  Slab* slab_for(size_t need) {
    if (open_ != nullptr && open_->bytes - open_->used >= need) return open_;
    // oneDNN pads some: an eighth more costs nothing while it is not touched.
    const size_t bytes = round_up(std::max({need, expected_ + expected_ / 8, kSlabBytes}), kHugePage);
    char* start = map(bytes);
    if (start == nullptr) return nullptr;
    want_huge_pages(start, bytes);
    finish(std::exchange(open_, new Slab{start, bytes, std::exchange(expected_, 0)}));
    return open_;
  }

  // The rest of a slab is for nobody: what comes later may go sooner.
  static void finish(Slab* slab) {
    if (slab == nullptr) return;
    if (slab->blocks == 0) return free_slab(slab);
    const size_t kept = round_up(slab->used, kHugePage);
    if (kept < slab->bytes) munmap(slab->start + kept, slab->bytes - kept);
    slab->bytes = kept;
  }

  void free_block(Block* block) {
    Slab* slab = block->slab;
    if (slab == nullptr) return std::free(block);
    if (--slab->blocks == 0 && slab != open_) free_slab(slab);
  }

  // From the system, to which it goes back: malloc would keep it. It begins with a huge page.
  static char* map(size_t bytes) {
    const size_t more = bytes + kHugePage;
    void* mapped = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* first = static_cast<char*>(mapped);
    auto* start = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(first), kHugePage));
    if (start > first) munmap(first, static_cast<size_t>(start - first));
    munmap(start + bytes, static_cast<size_t>(first + more - (start + bytes)));
    return start;
  }

  // Has the system make the pages up to `end`, and some ahead, by as many threads as there are. Otherwise those that write
  // a constant wait for each other: most are smaller than a huge page, which one thread makes.
  static void make_pages(Slab& slab, size_t end) {
    if (end <= slab.ready) return;
    const size_t ahead = std::min(slab.ready + kAheadBytes, slab.expected);
    const size_t until = std::min(round_up(std::max(end, ahead), kHugePage), slab.bytes);
    const auto first = static_cast<int64_t>(slab.ready / kHugePage), last = static_cast<int64_t>(until / kHugePage);
#pragma omp parallel for schedule(dynamic)
    for (int64_t page = first; page < last; page++) {
      // The system may have declined huge pages.
      for (size_t i = 0; i < kHugePage; i += kGrain) slab.start[static_cast<size_t>(page) * kHugePage + i] = 0;
    }
    slab.ready = until;
  }

  static void free_slab(Slab* slab) {
    munmap(slab->start, slab->bytes);
    delete slab;
  }

  std::mutex mutex_;
  std::vector<Block*> kept_;
  size_t held_ = 0;
  bool loading_ = false;
  size_t expected_ = 0;  // bytes of constants for which there is no slab yet
  Slab* open_ = nullptr;  // with room for more
};

Keeper& keeper() {
  static auto* one = new Keeper;
  return *one;
}

}  // namespace

void* take_memory(size_t size, size_t alignment) { return keeper().take(size, alignment); }

void give_memory(void* memory) { keeper().give(memory); }

void release_scratch() { keeper().release(); }

size_t held_bytes() { return keeper().held(); }

void* take_lasting(size_t bytes) {
  const size_t alignment = bytes < kHugePage ? kAlignment : kHugePage;
  void* memory = std::aligned_alloc(alignment, round_up(bytes, alignment));
  if (memory != nullptr) want_huge_pages(memory, round_up(bytes, alignment));
  return memory;
}

void give_lasting(void* memory) { std::free(memory); }

ConstantScope::ConstantScope(size_t bytes) { keeper().begin_constants(bytes); }

ConstantScope::~ConstantScope() { keeper().end_constants(); }

}  // namespace edgex

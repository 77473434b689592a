#include "onednn.h"

#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace edgex {

namespace {

std::atomic<int> wanted_threads{0};
std::atomic<int64_t> compile_nanoseconds{0};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Partitions take scratch memory at every run and give it back. From malloc, large blocks come as fresh pages each
// time, at 2 us a page; so blocks are kept, and the same run finds the same blocks.
class ScratchKeeper {
 public:
  void* take(size_t size, size_t alignment) {
    const size_t need = round_up(size + kHeader, kGrain);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_ += need;
      for (size_t i = kept_.size(); i-- > 0;) {
        if (kept_[i]->bytes == need && alignment <= kHeader) {
          Block* block = kept_[i];
          kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
          return reinterpret_cast<char*>(block) + kHeader;
        }
      }
    }
    auto* block = alignment > kHeader ? nullptr : static_cast<Block*>(std::aligned_alloc(kHeader, need));
    if (block == nullptr) {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_ -= need;
      return nullptr;
    }
    block->bytes = need;
    return reinterpret_cast<char*>(block) + kHeader;
  }

  void give(void* memory) {
    if (memory == nullptr) return;
    auto* block = reinterpret_cast<Block*>(static_cast<char*>(memory) - kHeader);
    Block* oldest = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_ -= block->bytes;
      kept_.push_back(block);
      if (kept_.size() > kMostBlocks) {
        oldest = kept_.front();
        kept_.erase(kept_.begin());
      }
    }
    std::free(oldest);
  }

  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Block* block : kept_) std::free(block);
    kept_.clear();
  }

  size_t held() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }

 private:
  struct Block {
    size_t bytes;
  };
  static constexpr size_t kHeader = 64, kGrain = 4096, kMostBlocks = 32;
  static size_t round_up(size_t size, size_t grain) { return (size + grain - 1) / grain * grain; }

  std::mutex mutex_;
  std::vector<Block*> kept_;
  size_t held_ = 0;
};

ScratchKeeper& keeper() {
  static auto* one = new ScratchKeeper;
  return *one;
}

void* take(size_t size, size_t alignment) { return keeper().take(size, alignment); }
void give(void* memory) { keeper().give(memory); }

Device* make_device() {
  auto made = std::make_unique<Device>();
  dnnl_graph_allocator_t allocator;
  check(dnnl_graph_allocator_create(&allocator, take, give), "making the allocator");
  check(dnnl_graph_make_engine_with_allocator(&made->engine, dnnl_cpu, 0, allocator), "making the engine");
  check(dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags), "making the stream");
  // Weights are brought into the layout of the processor once, not at every run.
  check(dnnl_graph_set_constant_tensor_cache(1), "switching on the cache of constants");
  return made.release();
}

}  // namespace

const Device& device() {
  static const Device* one = make_device();
  return *one;
}

void release_scratch() { keeper().release(); }

size_t held_bytes() { return keeper().held(); }

ThreadScope::ThreadScope() : before_(omp_get_max_threads()) {
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  changed_ = wanted > 0 && wanted != before_;
  if (changed_) omp_set_num_threads(wanted);
}

ThreadScope::~ThreadScope() {
  if (changed_) omp_set_num_threads(before_);
}

CompileClock::CompileClock() : started_(now()) {}

CompileClock::~CompileClock() { compile_nanoseconds += now() - started_; }

}  // namespace edgex

// What oneDNN's compiling has cost in this process so far.
extern "C" double edgex_onednn_compile_seconds() { return static_cast<double>(edgex::compile_nanoseconds.load()) * 1e-9; }

// Threads that the backend uses from now on; 0 leaves it to OpenMP.
extern "C" void edgex_onednn_set_threads(int threads) { edgex::wanted_threads.store(threads); }

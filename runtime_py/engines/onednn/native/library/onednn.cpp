#include "library/onednn.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "library/allocator.h"

namespace edgex {

namespace {

std::atomic<int> wanted_threads{0};
std::atomic<int64_t> compile_nanoseconds{0};
std::atomic<bool> threads_started{false}, forked{false};

// OpenMP's threads stay behind in the parent, and a parallel region of the child would wait for them for ever.
void after_fork() {
  if (threads_started) forked = true;
}

// Before the first parallel region of ours.
void require_threads() {
  if (forked.load(std::memory_order_relaxed)) {
    throw OneDnnError("this process was forked after the backend had started its threads, which do not come along");
  }
  if (!threads_started.load(std::memory_order_relaxed) && !threads_started.exchange(true)) {
    pthread_atfork(nullptr, nullptr, after_fork);
  }
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Device* make_device() {
  auto made = std::make_unique<Device>();
  dnnl_graph_allocator_t allocator;
  check(dnnl_graph_allocator_create(&allocator, take_memory, give_memory), "making the allocator");
  check(dnnl_graph_make_engine_with_allocator(&made->engine, dnnl_cpu, 0, allocator), "making the engine");
  check(dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags), "making the stream");
  // Weights are brought into the layout of the processor once, not at every run.
  check(dnnl_graph_set_constant_tensor_cache(1), "switching on the cache of constants");
  // Regions keep what they compiled. oneDNN would keep it behind them, with constants and all, for partitions that it never
  // sees again: each has a number of its own.
  check(dnnl_graph_set_compiled_partition_cache_capacity(0), "switching off the cache of partitions");
  return made.release();
}

}  // namespace

const Device& device() {
  static const Device* one = make_device();
  return *one;
}

bool has_wide_kernels() {
#if defined(__x86_64__)
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
#else
  return true;
#endif
}

ThreadScope::ThreadScope() : ThreadScope(wanted_threads.load(std::memory_order_relaxed)) { require_threads(); }

ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) {
  changed_ = threads > 0 && threads != before_;
  if (changed_) omp_set_num_threads(threads);
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

// oneDNN's C handles with owners, its engine with an allocator that keeps memory, and its errors.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "library/thread_end.h"
#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_graph.h"

namespace edgex {

// Both are thrown inside the backend only, and made into ExecuTorch's error codes at its border.
struct OneDnnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller's tensors do not fit; the message says which.
struct WrongArgument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    throw OneDnnError(std::string("oneDNN: ") + what + " failed with status " + std::to_string(status));
  }
}

template <typename Handle, dnnl_status_t (*destroy)(Handle)>
struct Destroyer {
  void operator()(Handle handle) const { destroy(handle); }
};

template <typename Handle, dnnl_status_t (*destroy)(Handle)>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle, destroy>>;

using GraphOwner = Owner<dnnl_graph_graph_t, dnnl_graph_graph_destroy>;
using OpOwner = Owner<dnnl_graph_op_t, dnnl_graph_op_destroy>;
using PartitionOwner = Owner<dnnl_graph_partition_t, dnnl_graph_partition_destroy>;
using CompiledOwner = Owner<dnnl_graph_compiled_partition_t, destroy_compiled>;
using TensorOwner = Owner<dnnl_graph_tensor_t, dnnl_graph_tensor_destroy>;

struct Device {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
};

// One for the process, never destroyed: oneDNN's own globals may be gone before ours.
const Device& device();

// Whether oneDNN may use AVX-512, for which it has most of its kernels; other processors than x86 have others altogether.
bool has_wide_kernels();

// Threads of the calling thread's OpenMP regions for as long as it lives: OpenMP keeps the number for each thread, and
// torch, which shares the pool, has a number of its own.
class ThreadScope {
 public:
  // As many as the session wants.
  ThreadScope();
  // As many as given; 0 leaves it as it is.
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
  bool changed_;
};

// Adds the time it lives to what `edgex_onednn_compile_seconds` tells.
class CompileClock {
 public:
  CompileClock();
  ~CompileClock();
  CompileClock(const CompileClock&) = delete;
  CompileClock& operator=(const CompileClock&) = delete;

 private:
  int64_t started_;
};

}  // namespace edgex

// The memory that oneDNN takes: scratch for each run, and constants in the processor's layout.
#pragma once

#include <cstddef>

namespace edgex {

// As `dnnl_graph_allocator_create` wants them.
void* take_memory(size_t size, size_t alignment);
void give_memory(void* memory);

// Gives the system back what partitions needed while they ran and need no more.
void release_scratch();

// Bytes that oneDNN holds and has not given back: outside of a run, constants in the processor's layout.
size_t held_bytes();

// Memory for as long as a program is loaded, aligned to 64, in huge pages where it is large; null where there is none.
void* take_lasting(size_t bytes);
void give_lasting(void* memory);

// While it lives, what oneDNN takes lies side by side in huge pages: a product reads its weights once a run, and each page
// of 4 KiB costs a walk through the page tables. Constants of `bytes` in all are expected, and all threads make the pages
// for them; few of them lie as without it.
class ConstantScope {
 public:
  explicit ConstantScope(size_t bytes);
  ~ConstantScope();
  ConstantScope(const ConstantScope&) = delete;
  ConstantScope& operator=(const ConstantScope&) = delete;
};

}  // namespace edgex

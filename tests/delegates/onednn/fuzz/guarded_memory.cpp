// The backend's memory with a page behind each block that nothing may touch: oneDNN's kernels, which no sanitizer has
// instrumented, end at the first byte that they read or write there.
#include "guarded_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "library/allocator.h"

namespace {

// More than this a damaged plan does not get, or the machine would have none left.
constexpr size_t kMostBytes = size_t{256} << 20;
constexpr size_t kPage = 4096, kHeader = kPage;
std::atomic<size_t> held{0};

struct Header {
  size_t mapped, bytes;
};

}  // namespace

void* take_guarded(size_t bytes, size_t alignment) {
  if (bytes > kMostBytes) return nullptr;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const size_t room = (rounded + kPage - 1) / kPage * kPage, mapped = kHeader + room + kPage;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  auto* first = static_cast<char*>(start);
  mprotect(first + kHeader + room, kPage, PROT_NONE);
  const Header header{mapped, bytes};
  std::memcpy(first, &header, sizeof header);
  held += bytes;
  return first + kHeader + room - rounded;
}

void give_guarded(void* memory) {
  if (memory == nullptr) return;
  // The block ends with its last page; its header's page is the one before its first.
  const auto address = reinterpret_cast<uintptr_t>(memory);
  auto* first = reinterpret_cast<char*>(address / kPage * kPage - kHeader);
  Header header;
  std::memcpy(&header, first, sizeof header);
  held -= header.bytes;
  munmap(first, header.mapped);
}

namespace edgex {

void* take_memory(size_t size, size_t alignment) { return take_guarded(size, alignment < 64 ? 64 : alignment); }
void give_memory(void* memory) { give_guarded(memory); }
void release_scratch() {}
size_t held_bytes() { return held; }
void* take_lasting(size_t bytes) { return take_guarded(bytes, 64); }
void give_lasting(void* memory) { give_guarded(memory); }
ConstantScope::ConstantScope(size_t) {}
ConstantScope::~ConstantScope() {}

}  // namespace edgex

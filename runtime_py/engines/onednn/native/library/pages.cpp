#include "library/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

namespace edgex {

FilePages::FilePages(const uint8_t* start, size_t bytes) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen("/proc/self/maps", "r"), std::fclose);
  if (maps == nullptr || bytes == 0) return;
  const auto first = reinterpret_cast<uintptr_t>(start);
  uintptr_t end = first;  // of what is known to be the file's
  char line[512];
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    uintptr_t low, high;
    char rights[5];
    unsigned long inode;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %lu", &low, &high, rights, &inode) != 4) continue;
    // Read-only: what it holds is what the file holds. ExecuTorch locks the first pages of a segment, and the system tells
    // of the others in a line of their own.
    if (low <= end && end < high && inode != 0 && rights[1] == '-') end = high;
  }
  file_ = end >= first + bytes;
}

void FilePages::forget(const uint8_t* start, size_t bytes) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(start);
  const uintptr_t low = (first + page - 1) / page * page, high = (first + bytes) / page * page;
  if (!file_ || low >= high) return;
  // ExecuTorch locks what it maps, where the system lets it.
  munlock(reinterpret_cast<void*>(low), high - low);
  madvise(reinterpret_cast<void*>(low), high - low, MADV_DONTNEED);
}

}  // namespace edgex

// Letting go of a mapped file's pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgex {

// A stretch of memory that may be a mapped file, which is then read again where it is touched again.
class FilePages {
 public:
  FilePages(const uint8_t* start, size_t bytes);

  // Takes the whole pages inside from this process; nothing happens to memory that is no unwritten file.
  void forget(const uint8_t* start, size_t bytes) const;

 private:
  bool file_ = false;
};

}  // namespace edgex

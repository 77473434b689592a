#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace edgex {

struct IdLimits {
  std::optional<int64_t> vocabulary;  // ids are 0 to this, exclusive
  std::optional<int64_t> count;       // how many there may be
};

// Whole numbers with commas or white space between them. The stream is a stranger's: it is read no further than the
// first thing that is wrong, and no more of it is kept than ids. Throws BadInput; `where` is what was read.
std::vector<int64_t> read_ids(std::istream& stream, const std::string& where, const IdLimits& limits);

}  // namespace edgex

#pragma once

#include <string>

namespace edgex {

// SHA-256 of a file in hex; empty when it cannot be read.
std::string hash_file(const std::string& path);

}  // namespace edgex

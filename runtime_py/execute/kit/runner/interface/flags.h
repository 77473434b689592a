#pragma once

#include <string>

#include "interface/options.h"

namespace edgex {

// What flags hold; each throws BadInput with the flag's name.
int64_t parse_count(const std::string& flag, const std::string& text);  // -1 for `auto`
double parse_real(const std::string& flag, const std::string& text);

// Whether the flag is one of those that say what the program is, whatever is done with it; then it is set.
bool parse_program_flag(const std::string& flag, const std::string& value, Options& into);
void check_program_flags(const Options& options);

}  // namespace edgex

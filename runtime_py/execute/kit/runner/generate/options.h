#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generate/sampler.h"
#include "interface/options.h"

namespace edgex {

struct GenerateOptions {
  Options program;                  // the model, and its inputs: tokens, and a position unless the model counts itself
  int64_t vocabulary = 0;           // ids are 0 to this, exclusive
  std::optional<int64_t> context;   // how many tokens the cache holds; none: the model forgets the oldest itself
  std::vector<int64_t> eos;         // ids that end a text
  bool ignore_eos = false;
  std::optional<std::string> ids, ids_file;  // the prompt: one of them
  int64_t max_new = 128;
  Sampling sampling;
  bool json = false;

  int64_t chunk() const { return program.specs[0].dims[1].max; }
};

// Throws BadInput with a sentence for people.
GenerateOptions parse_generate_options(int count, char** arguments);

extern const char kGenerateUsage[];

}  // namespace edgex

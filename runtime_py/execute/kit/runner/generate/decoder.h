#pragma once

#include <cstdint>
#include <vector>

#include "generate/options.h"
#include "run/model.h"

namespace edgex {

// Runs a language model's program, whose cache is filled from the front. The caller counts positions.
class Decoder {
 public:
  Decoder(Model& model, const GenerateOptions& options);

  // Run tokens, as many at once as the model takes; `position` is how many the cache holds before them. What comes
  // back are the scores of what follows the last. Throws EngineFailure.
  Tensor run(const std::vector<int64_t>& ids, int64_t position);

 private:
  Tensor run_part(const int64_t* ids, int64_t count, int64_t position);
  Model& model_;
  const GenerateOptions& options_;
};

}  // namespace edgex

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/tensors.h"
#include "generate/random.h"

namespace edgex {

// The fields of edgex.runtime.generation.sampling.Sampling.
struct Sampling {
  double temperature = 0;  // 0: the likeliest
  int64_t top_k = 0;       // 0: all
  double top_p = 1, repetition_penalty = 1;
  std::optional<uint64_t> seed;
};

// Chooses one token after the other, by the rules of edgex.runtime.generation.sampling and with its draws.
class Sampler {
 public:
  explicit Sampler(const Sampling& sampling);

  // `scores` is the model's output, of which the last `vocabulary` count; `text` is what came before. Throws
  // EngineFailure where the best score is NaN or infinite.
  int64_t choose(const Tensor& scores, size_t vocabulary, const std::vector<int64_t>& text);

  std::optional<uint64_t> seed() const;  // none where nothing is drawn

 private:
  int64_t draw();
  Sampling sampling_;
  std::optional<Random> random_;
  std::vector<double> scores_;
};

}  // namespace edgex

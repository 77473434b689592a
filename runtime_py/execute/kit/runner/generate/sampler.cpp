#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "data/values.h"
#include "run/model.h"

namespace edgex {

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling) {
  if (sampling_.temperature == 0) return;
  if (!sampling_.seed) sampling_.seed = std::random_device()();
  random_.emplace(*sampling_.seed);
}

std::optional<uint64_t> Sampler::seed() const { return random_ ? sampling_.seed : std::nullopt; }

int64_t Sampler::choose(const Tensor& scores, size_t vocabulary, const std::vector<int64_t>& text) {
  scores_.resize(vocabulary);
  const size_t first = scores.count() - vocabulary;
  size_t best = 0;
  for (size_t at = 0; at < vocabulary; at++) {
    scores_[at] = value_at(scores, first + at);
    // NaN counts as the largest. -inf is how a model forbids a token.
    if (scores_[at] > scores_[best] || (std::isnan(scores_[at]) && !std::isnan(scores_[best]))) best = at;
  }
  if (!std::isfinite(scores_[best]))
    throw EngineFailure("generate: the best score that the model gave is " + std::to_string(scores_[best]), 0);
  if (sampling_.repetition_penalty != 1) {
    for (const int64_t id : std::set<int64_t>(text.begin(), text.end())) {
      double& score = scores_[static_cast<size_t>(id)];
      score = score > 0 ? score / sampling_.repetition_penalty : score * sampling_.repetition_penalty;
    }
    best = static_cast<size_t>(std::max_element(scores_.begin(), scores_.end()) - scores_.begin());
  }
  return random_ ? draw() : static_cast<int64_t>(best);
}

int64_t Sampler::draw() {
  std::vector<size_t> ids(scores_.size());
  std::iota(ids.begin(), ids.end(), size_t{0});
  const auto likelier = [&](size_t a, size_t b) { return scores_[a] > scores_[b] || (scores_[a] == scores_[b] && a < b); };
  const auto kept = static_cast<size_t>(sampling_.top_k);
  if (kept > 0 && kept < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept - 1), ids.end(), likelier);
    ids.resize(kept);
  }
  std::sort(ids.begin(), ids.end(), likelier);
  std::vector<double> shares;
  for (const size_t id : ids) shares.push_back(std::exp((scores_[id] - scores_[ids[0]]) / sampling_.temperature));
  double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sampling_.top_p < 1) {
    // The fewest that hold the share; the likeliest always stays.
    double before = 0;
    size_t within = 0;
    while (within < shares.size() && (within == 0 || before / sum < sampling_.top_p)) before += shares[within++];
    shares.resize(within);
    sum = before;
  }
  // The first whose cumulated share exceeds the draw; rounding may keep the last sum below it.
  const double drawn = random_->draw();
  double cumulated = 0;
  for (size_t at = 0; at < shares.size(); at++)
    if ((cumulated += shares[at] / sum) > drawn) return static_cast<int64_t>(ids[at]);
  return static_cast<int64_t>(ids[shares.size() - 1]);
}

}  // namespace edgex

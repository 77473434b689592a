#include "run/sampling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace edgex {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMinSampleSeconds = 20e-6;
constexpr double kSettledWithin = 0.02, kWindowSeconds = 0.05, kMostWarmUpSeconds = 5.0;
constexpr size_t kWindowCalls = 3;
constexpr double kBudgetSeconds = 3.0;
constexpr int64_t kLeastSamples = 10, kMostSamples = 10000, kMostRounds = 30;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Calls one after the other, from the initial state where there is one.
class Endless {
 public:
  explicit Endless(const Workload& workload) : workload_(workload) {}
  double next() {
    if (step_ == 0 && workload_.has_state) workload_.reset();
    workload_.prepare(step_);
    step_ = (step_ + 1) % workload_.steps;
    const auto started = Clock::now();
    workload_.call();
    return since(started);
  }

 private:
  const Workload& workload_;
  int64_t step_ = 0;
};

}  // namespace

WarmUp warm_up(const Workload& workload, int64_t calls) {
  Endless endless(workload);
  const auto started = Clock::now();
  std::vector<double> window;
  if (calls >= 0) {
    for (int64_t made = 0; made < std::max<int64_t>(1, calls); made++) window.push_back(endless.next());
    return {static_cast<int64_t>(window.size()), since(started), median(window), mean(window), std::nullopt};
  }
  double in_window = 0;
  std::optional<double> previous;
  for (int64_t made = 1;; made++) {
    window.push_back(endless.next());
    in_window += window.back();
    if (window.size() < kWindowCalls || in_window < kWindowSeconds) continue;
    const double middle = median(window);
    const bool settled = previous && std::fabs(middle - *previous) <= kSettledWithin * *previous;
    if (settled || (previous && since(started) >= kMostWarmUpSeconds))
      return {made, since(started), middle, mean(window), settled};
    window.clear();
    in_window = 0;
    previous = middle;
  }
}

RoundPlan plan_rounds(const Workload& workload, const WarmUp& warm, int64_t runs) {
  RoundPlan plan;
  plan.calls_per_sample = static_cast<int64_t>(std::ceil(kMinSampleSeconds / std::max(warm.call_seconds, 1e-9)));
  // Inputs of different steps are handed over between calls, which must not be timed: a step is a sample.
  if (workload.has_state) plan.calls_per_sample = 1;
  if (runs < 0) {
    const double each = std::max(warm.mean_seconds * static_cast<double>(plan.calls_per_sample), 1e-9);
    runs = std::clamp(static_cast<int64_t>(kBudgetSeconds / each), kLeastSamples, kMostSamples);
  }
  const int64_t per_pass = workload.has_state ? workload.steps : 1;
  const int64_t passes = divide_up(std::max<int64_t>(1, runs), per_pass);
  const int64_t per_round = divide_up(passes, kMostRounds);
  plan.samples = passes * per_pass;
  plan.rounds = divide_up(passes, per_round);
  plan.samples_per_round = per_round * per_pass;
  return plan;
}

std::vector<double> sample_round(const Workload& workload, const RoundPlan& plan, int64_t samples) {
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(samples));
  if (!workload.has_state) workload.prepare(0);
  for (int64_t at = 0; at < samples; at++) {
    if (workload.has_state) {
      if (at % workload.steps == 0) workload.reset();
      workload.prepare(at % workload.steps);
    }
    const auto started = Clock::now();
    for (int64_t call = 0; call < plan.calls_per_sample; call++) workload.call();
    seconds.push_back(since(started) / static_cast<double>(plan.calls_per_sample));
  }
  return seconds;
}

}  // namespace edgex

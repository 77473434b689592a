#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace edgex {

// What is timed: calls in a row, and, for models with state, what puts the start back.
struct Workload {
  int64_t steps = 1;
  bool has_state = false;
  std::function<void()> reset;
  std::function<void(int64_t)> prepare;  // the inputs of a step, not timed
  std::function<void()> call;
};

struct WarmUp {
  int64_t calls = 0;
  double seconds = 0, call_seconds = 0, mean_seconds = 0;
  std::optional<bool> settled;
};

struct RoundPlan {
  int64_t samples = 0, rounds = 0, samples_per_round = 0, calls_per_sample = 1;
};

// The same rules as edgex.runtime.execute.sampling: until two windows' medians agree within 2 %, or as often as asked.
WarmUp warm_up(const Workload& workload, int64_t calls);
RoundPlan plan_rounds(const Workload& workload, const WarmUp& warm, int64_t runs);
std::vector<double> sample_round(const Workload& workload, const RoundPlan& plan, int64_t samples);

}  // namespace edgex

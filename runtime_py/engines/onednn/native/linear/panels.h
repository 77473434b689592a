// Weights in the order in which products read them, made once for all sizes of a plan.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace edgex {

class Panels {
 public:
  // Of a matrix (depth, columns) whose elements lie at these distances.
  Panels(const float* from, int64_t depth, int64_t columns, int64_t depth_step, int64_t column_step);

  const float* numbers() const { return memory_.get(); }

 private:
  std::unique_ptr<float, void (*)(void*)> memory_;
};

// The panels of a plan's weights, by where these lie in the plan and how: equal bytes lie there once, whatever their shapes.
class PanelStore {
 public:
  std::shared_ptr<const Panels> find(const float* from, int64_t depth, int64_t columns, int64_t depth_step, int64_t column_step);

 private:
  using Key = std::pair<const float*, std::array<int64_t, 4>>;

  std::map<Key, std::shared_ptr<const Panels>> known_;
};

}  // namespace edgex

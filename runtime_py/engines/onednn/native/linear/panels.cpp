#include "linear/panels.h"

#include <algorithm>
#include <new>

#include "attention/product.h"
#include "library/allocator.h"

namespace edgex {

Panels::Panels(const float* from, int64_t depth, int64_t columns, int64_t depth_step, int64_t column_step)
    : memory_(static_cast<float*>(take_lasting(static_cast<size_t>(depth * pad_to_lanes(columns)) * sizeof(float))), give_lasting) {
  if (memory_ == nullptr) throw std::bad_alloc();
  const int64_t count = (columns + kPanel - 1) / kPanel;
#pragma omp parallel for
  for (int64_t i = 0; i < count; i++) {
    const int64_t first = i * kPanel;
    pack_panels(from + first * column_step, depth, std::min(kPanel, columns - first), depth_step, column_step,
                memory_.get() + first * depth);
  }
}

std::shared_ptr<const Panels> PanelStore::find(const float* from, int64_t depth, int64_t columns, int64_t depth_step,
                                               int64_t column_step) {
  std::shared_ptr<const Panels>& panels = known_[{from, {depth, columns, depth_step, column_step}}];
  if (panels == nullptr) panels = std::make_shared<const Panels>(from, depth, columns, depth_step, column_step);
  return panels;
}

}  // namespace edgex

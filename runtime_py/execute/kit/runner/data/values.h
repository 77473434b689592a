#pragma once

#include <cstddef>

#include "data/tensors.h"

namespace edgex {

// One element of a tensor of any dtype, by its place in memory order.
double value_at(const Tensor& tensor, size_t index);

}  // namespace edgex

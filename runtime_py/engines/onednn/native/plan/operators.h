// Which operators a plan may hold, and what each of them needs. oneDNN checks little of it: it takes an unknown kind for a
// known one, an attribute of too few numbers for enough, and sizes that do not fit each other for those of its kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace edgex {

using Dims = std::vector<int64_t>;

// Throws DamagedPlan unless the operator is of a known kind, its tensors are as many and of the types that this takes, and
// its attributes are those that this has, each with values in their range.
void check_operation(const Plan& plan, const Operation& operation);

// Throws DamagedPlan unless each cache, which attention writes, is an input of the region that nothing else reads, and what
// kernels read as it is packed is a constant that lies so.
void check_memory(const Plan& plan);

// Throws DamagedPlan unless the sizes of the inputs and of the result fit each other and the attributes. The operator has
// passed `check_operation`.
void check_sizes(const Operation& operation, const std::vector<const Dims*>& inputs, const Dims& result);

// Whether it reads an element in several places of a tensor, as a view repeats it.
bool may_repeat(const Operation& operation);

// Whether oneDNN makes each number of the result of those in its place.
bool is_elementwise(int kind);

// The attribute; null where the operator has none of that code.
const Attribute* find_attribute(const Operation& operation, int code);

}  // namespace edgex

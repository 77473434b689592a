// Functions of one number at a time; of few numbers on the thread that calls.
#pragma once

#include <memory>

#include "operators/own_operator.h"

namespace edgex {

struct Operation;

// float32 of one shape; the result lies without gaps. Null for a function that there is none of.
std::unique_ptr<OwnOperator> make_activation(const Operation& operation, const Strided& from, const Strided& result);

}  // namespace edgex

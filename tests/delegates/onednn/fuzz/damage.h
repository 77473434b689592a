// Changes to a plan: single fields, most of which are refused, and changes that leave it whole, which reach oneDNN.
#pragma once

#include <random>

#include "plan/plan.h"

namespace edgex {

void damage(Plan& plan, std::mt19937_64& random);

}  // namespace edgex

#pragma once

#include <memory>

#include "run/model.h"

namespace edgex {

struct Opened {
  std::unique_ptr<Model> model;
  double seconds = 0;  // checking and loading
};

// The first line of the answer; it holds what starting the process has cost.
void tell_start(const Options& options);

// Check the model's file against --sha256, then load it; `tells` puts what was found and measured into the answer.
Opened open_model(const Options& options, bool tells);

}  // namespace edgex

#pragma once

#include "generate/options.h"

namespace edgex {

// Go on with the prompt, and write new ids as they come. Throws BadInput before the model is loaded, EngineFailure.
void generate(const GenerateOptions& options);

}  // namespace edgex

// Convolutions of small groups of channels, in float32, over sequences and images.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"
#include "plan/plan.h"

namespace edgex {

// Whether a convolution of these sizes is one of groups that runs here. oneDNN 3.2 multiplies matrices for groups that are no
// multiples of eight channels: on a Zen 3, one thread, 3.3 ms for 64 channels in groups of 2 or 4 and 3 x 3 taps over 64 x 64
// places, which take 0.5 here; on a Xeon with AMX 1.1 and 0.7 (0.5 here). For groups of 8 it takes 1.2 without AVX-512 (0.8
// here), with it as long as we do. Networks of groups of 16 and 24 are as fast, or faster, in its kernel, which does what
// follows as well.
bool prefers_planes(const Operation& convolution, const std::vector<int64_t>& image, const std::vector<int64_t>& weights);

// x (batch, channels, width) or (batch, channels, height, width), weights (outputs, inputs of a group, ...), and one number an
// output to add if there are three inputs. Null where the weights have gaps, or neither channels nor places of x or the result
// lie side by side.
std::unique_ptr<OwnOperator> make_grouped(const Operation& convolution, const std::vector<Strided>& inputs, const Strided& result);

}  // namespace edgex

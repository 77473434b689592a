// Convolutions of each channel by itself, in float32, over sequences and images whose channels lie innermost.
#pragma once

#include <memory>
#include <vector>

#include "linear/panels.h"
#include "operators/own_operator.h"
#include "plan/plan.h"

namespace edgex {

// Whether a convolution of these sizes is one of each channel by itself that runs here. For those over sequences and with
// holes, oneDNN 3.2 multiplies matrices where there is no AVX-512: on a Zen 3, one thread, 0.3 to 0.6 ms for 128 channels of
// 100 places and 3 to 51 taps, which take 0.01 to 0.05 here; 3.5 ms for 32 channels of 32 x 32 places and 7 x 7 taps three
// places apart (0.12 here). With AVX-512 it has a general kernel, or multiplies matrices from about 30 taps on: 0.06 to 0.6 ms
// on a Xeon with AMX (0.005 to 0.02 here), and 0.55 (0.07). Its kernel for other images is as fast as ours at 49 taps and does
// what follows as well; without AVX-512 it takes 1.2 times as long at 81 taps, 1.6 times at 31 x 31.
bool prefers_channels(const Operation& convolution, const std::vector<int64_t>& image, const std::vector<int64_t>& weights);

// x (batch, channels, width) or (batch, channels, height, width), weights (channels, 1, ...), and one number a channel to add
// if there are three inputs; `weights` are the second one's numbers, which never change. Null where the channels of x or of
// the result do not lie side by side.
std::unique_ptr<OwnOperator> make_depthwise(const Operation& convolution, const std::vector<Strided>& inputs,
                                            const float* weights, const Strided& result, PanelStore& store);

}  // namespace edgex

// Operators of one partition, one after the other on the thread that calls, where oneDNN's call costs more than their work.
#pragma once

#include <memory>
#include <vector>

#include "operators/own_operator.h"

namespace edgex {

// One operator, and its tensors among those of the chain: the inputs, then the result.
struct Link {
  std::unique_ptr<OwnOperator> own;
  std::vector<size_t> tensors;
};

// `given`: number of tensors that the caller brings, which come first; `made_bytes`: of each of the others, which lie in the
// scratch memory of the chain.
std::unique_ptr<OwnOperator> make_chain(std::vector<Link> links, size_t given, const std::vector<size_t>& made_bytes);

}  // namespace edgex

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tensors.h"
#include "interface/options.h"

namespace edgex {

// ExecuTorch refused something; `code` is its error, its log on stderr says more.
struct EngineFailure : std::runtime_error {
  EngineFailure(const std::string& doing, int code_) : std::runtime_error(doing), code(code_) {}
  int code;
};

struct LoadSeconds {
  double program = 0, method = 0;
};

// One loaded program, and the thread pool that it runs on.
class Model {
 public:
  explicit Model(const Options& options);
  ~Model();

  LoadSeconds load();
  void prepare(const std::vector<Tensor>& inputs);  // what `run` will take; the tensors must stay alive
  void run();
  std::vector<Tensor> outputs() const;  // copies
  void reset();                         // initial values of the state
  void write_etdump(const std::string& path);
  int threads() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace edgex

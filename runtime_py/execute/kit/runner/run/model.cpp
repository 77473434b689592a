#include "run/model.h"

#include <dlfcn.h>
#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

// The wheel brings the library of the pool without its header: these are the functions of it that are used.
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(uint32_t threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool

namespace edgex {

namespace {

using executorch::aten::ScalarType;
using executorch::etdump::ETDumpGen;
using executorch::extension::Module;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Method;

constexpr std::pair<Dtype, ScalarType> kTypes[] = {
    {Dtype::kFloat32, ScalarType::Float}, {Dtype::kFloat64, ScalarType::Double}, {Dtype::kFloat16, ScalarType::Half},
    {Dtype::kBfloat16, ScalarType::BFloat16}, {Dtype::kInt8, ScalarType::Char}, {Dtype::kInt16, ScalarType::Short},
    {Dtype::kInt32, ScalarType::Int}, {Dtype::kInt64, ScalarType::Long}, {Dtype::kUint8, ScalarType::Byte},
    {Dtype::kBool, ScalarType::Bool},
};

ScalarType to_engine(Dtype dtype) {
  for (const auto& [ours, theirs] : kTypes)
    if (ours == dtype) return theirs;
  throw BadInput("unknown dtype");
}

Dtype from_engine(ScalarType type) {
  for (const auto& [ours, theirs] : kTypes)
    if (theirs == type) return ours;
  throw EngineFailure("read an output of an unknown dtype", 0);
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check(Error error, const char* doing) {
  if (error != Error::Ok) throw EngineFailure(doing, static_cast<int>(error));
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Libraries that register something with ExecuTorch; those that they need come before them, and are found by soname.
void load_plugins(const std::vector<std::string>& paths, int threads) {
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw BadInput("the plug-in cannot be loaded: " + std::string(dlerror()));
    // The one function that edgex's own plug-ins have besides registering themselves.
    if (void* use = dlsym(library, "edgex_onednn_set_threads")) reinterpret_cast<void (*)(int)>(use)(threads);
  }
}

}  // namespace

struct Model::Parts {
  const Options& options;
  ETDumpGen* dump = nullptr;  // the module owns it
  std::unique_ptr<Module> module;
  Method* method = nullptr;
  std::vector<executorch::extension::TensorPtr> held;
  std::vector<EValue> inputs;
  std::vector<std::pair<std::string, std::vector<uint8_t>>> initial;

  executorch::aten::Tensor state(const std::string& name) {
    auto found = method->get_attribute(name);
    check(found.error(), "find the state");
    return *found;
  }
};

Model::Model(const Options& options) : parts_(new Parts{options}) {}
Model::~Model() = default;

int Model::threads() const {
  return static_cast<int>(executorch::extension::threadpool::get_threadpool()->get_thread_count());
}

LoadSeconds Model::load() {
  const Options& options = parts_->options;
  const int wanted = options.threads > 0 ? static_cast<int>(options.threads) : usable_cores();
  if (wanted != threads())
    executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(static_cast<uint32_t>(wanted));
  auto started = std::chrono::steady_clock::now();
  LoadSeconds seconds;
  load_plugins(options.plugins, threads());
  std::unique_ptr<ETDumpGen> dump(options.etdump.empty() ? nullptr : new ETDumpGen());
  parts_->dump = dump.get();
  parts_->module = std::make_unique<Module>(options.model, Module::LoadMode::Mmap, std::move(dump));
  check(parts_->module->load(executorch::runtime::Program::Verification::InternalConsistency), "load the program");
  seconds.program = since(started);
  started = std::chrono::steady_clock::now();
  check(parts_->module->load_method(options.method), "load the program's method");
  auto method = parts_->module->method(options.method);
  check(method.error(), "load the program's method");
  parts_->method = *method;
  for (const std::string& name : options.state) {
    const auto tensor = parts_->state(name);
    const auto* first = static_cast<const uint8_t*>(tensor.const_data_ptr());
    parts_->initial.emplace_back(name, std::vector<uint8_t>(first, first + tensor.nbytes()));
  }
  seconds.method = since(started);
  return seconds;
}

void Model::prepare(const std::vector<Tensor>& inputs) {
  parts_->held.clear();
  parts_->inputs.clear();
  for (const Tensor& tensor : inputs) {
    std::vector<executorch::aten::SizesType> sizes(tensor.sizes.begin(), tensor.sizes.end());
    parts_->held.push_back(
        executorch::extension::from_blob(tensor.data.get(), std::move(sizes), to_engine(tensor.dtype)));
    parts_->inputs.emplace_back(*parts_->held.back());
  }
}

void Model::run() {
  check(parts_->method->set_inputs({parts_->inputs.data(), parts_->inputs.size()}), "take the inputs");
  check(parts_->method->execute(), "run the program");
}

namespace {

// A program may give an output in another memory order, channels last for example; what leaves here is in order.
void copy_in_order(const executorch::aten::Tensor& from, Tensor& to) {
  if (!to.bytes()) return;
  const size_t count = static_cast<size_t>(from.numel()), width = to.bytes() / count;
  const char* source = static_cast<const char*>(from.const_data_ptr());
  char* target = reinterpret_cast<char*>(to.data.get());
  const auto sizes = from.sizes();
  const auto strides = from.strides();
  std::vector<int64_t> at(sizes.size(), 0);
  for (size_t index = 0; index < count; index++) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < at.size(); axis++) offset += at[axis] * strides[axis];
    std::memcpy(target + index * width, source + static_cast<size_t>(offset) * width, width);
    for (size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < sizes[axis]) break;
      at[axis] = 0;
    }
  }
}

bool is_in_order(const executorch::aten::Tensor& tensor) {
  const auto order = tensor.dim_order();
  for (size_t axis = 0; axis < order.size(); axis++)
    if (order[axis] != axis) return false;
  return true;
}

}  // namespace

std::vector<Tensor> Model::outputs() const {
  std::vector<Tensor> copies;
  for (size_t index = 0; index < parts_->method->outputs_size(); index++) {
    const EValue& value = parts_->method->get_output(index);
    if (!value.isTensor()) throw EngineFailure("return an output that is no tensor", 0);
    const auto& tensor = value.toTensor();
    Tensor copy;
    const auto& names = parts_->options.output_names;
    copy.name = index < names.size() ? names[index] : "output_" + std::to_string(index);
    copy.dtype = from_engine(tensor.scalar_type());
    copy.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    copy.allocate();
    if (!is_in_order(tensor))
      copy_in_order(tensor, copy);
    else if (copy.bytes())
      std::memcpy(copy.data.get(), tensor.const_data_ptr(), copy.bytes());
    copies.push_back(std::move(copy));
  }
  return copies;
}

void Model::reset() {
  for (const auto& [name, values] : parts_->initial)
    std::memcpy(parts_->state(name).mutable_data_ptr(), values.data(), values.size());
}

void Model::write_etdump(const std::string& path) {
  const auto result = parts_->dump->get_etdump_data();
  std::ofstream stream(path, std::ios::binary);
  stream.write(static_cast<const char*>(result.buf), static_cast<std::streamsize>(result.size));
  stream.flush();
  std::free(result.buf);
  if (!stream || result.size == 0) throw BadInput("the trace cannot be written to " + path);
}

}  // namespace edgex

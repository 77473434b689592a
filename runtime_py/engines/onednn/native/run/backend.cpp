// `OneDnnGraphBackend`: the delegate as ExecuTorch sees it.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "library/allocator.h"
#include "plan/parser.h"
#include "run/executable.h"

namespace edgex {

namespace {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracer;
using executorch::runtime::EventTracerEntry;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

// Sizes for which a plan stays compiled; the one that was used longest ago goes first. oneDNN 3.2 prepares constants for
// each of them anew, so that there are fewer where constants are large.
constexpr size_t kMostExecutables = 16;
constexpr size_t kFewestExecutables = 2;
constexpr size_t kMostConstantBytes = size_t{1} << 30;

// One delegate call of a loaded program.
class Region {
 public:
  Region(FreeableBuffer* bytes, Plan plan) : bytes_(bytes), plan_(std::move(plan)) {
    const ThreadScope threads;
    pointers_.resize(plan_.args.size());
    sizes_.resize(plan_.symbols.size());
    for (size_t i = 0; i < plan_.symbols.size(); i++) sizes_[i] = plan_.symbols[i].hint;
    measure(plan_, sizes_);  // before oneDNN sees any of it
    groups_ = form_groups(plan_);
    find_executable().warm_up(groups_, FilePages(plan_.constants, plan_.constants_bytes));
  }

  ~Region() {
    executables_.clear();
    groups_.clear();
    release_scratch();
    bytes_->Free();
  }

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void execute(Span<EValue*> args, EventTracer* tracer) {
    const ThreadScope threads;
    if (args.size() != plan_.args.size()) throw WrongArgument("another number of arguments than in the plan");
    read_sizes(args);
    Executable& executable = find_executable();
    take_arguments(args, executable);
    if (tracer == nullptr) {
      executable.run(pointers_.data(), [](size_t) {}, [](size_t) {});
      return;
    }
    EventTracerEntry entry;
    const auto start = [&](size_t i) {
      entry = executorch::runtime::event_tracer_start_profiling_delegate(
          tracer, groups_[i].name.c_str(), executorch::runtime::kUnsetDelegateDebugIntId);
    };
    const auto end = [&](size_t i) {
      const std::string& handles = groups_[i].handles;
      executorch::runtime::event_tracer_end_profiling_delegate(tracer, entry, handles.data(), handles.size());
    };
    executable.run(pointers_.data(), start, end);
  }

 private:
  void read_sizes(Span<EValue*> args) {
    for (size_t i = 0; i < plan_.symbols.size(); i++) {
      const Symbol& symbol = plan_.symbols[i];
      const EValue& arg = *args[symbol.arg];
      if (!arg.isTensor() || static_cast<size_t>(arg.toTensor().dim()) <= symbol.dim) {
        throw WrongArgument("input " + std::to_string(symbol.arg) + " has another number of dimensions");
      }
      sizes_[i] = arg.toTensor().size(symbol.dim);
    }
  }

  // The executable for `sizes_`, compiled when these are seen first; it becomes the newest.
  Executable& find_executable() {
    // Nearly always the one of the last call.
    if (!executables_.empty() && executables_.front()->symbols() == sizes_) return *executables_.front();
    const auto found = std::find_if(executables_.begin(), executables_.end(),
                                    [&](const auto& executable) { return executable->symbols() == sizes_; });
    if (found != executables_.end()) {
      executables_.splice(executables_.begin(), executables_, found);
      return *executables_.front();
    }
    executables_.push_front(std::make_unique<Executable>(plan_, groups_, sizes_, arena_, panels_));
    if (executables_.size() > most_executables()) executables_.pop_back();
    return *executables_.front();
  }

  size_t most_executables() const {
    const size_t fit = kMostConstantBytes / std::max<size_t>(plan_.constants_bytes, 1);
    return std::clamp(fit, kFewestExecutables, kMostExecutables);
  }

  void take_arguments(Span<EValue*> args, const Executable& executable) {
    for (size_t i = 0; i < plan_.args.size(); i++) {
      if (plan_.args[i] < 0) continue;
      const auto id = static_cast<uint32_t>(plan_.args[i]);
      if (!args[i]->isTensor()) throw WrongArgument("argument " + std::to_string(i) + " is no tensor");
      Tensor tensor = args[i]->toTensor();
      const std::vector<int64_t>& dims = executable.dims(id);
      if (i >= plan_.input_count && !fits(tensor, dims)) resize(tensor, dims);
      if (tensor.scalar_type() != scalar_type(plan_.values[id].dtype) || !fits(tensor, dims)) {
        throw WrongArgument("argument " + std::to_string(i) + " has another type or size than the plan");
      }
      pointers_[i] = tensor.mutable_data_ptr();
      if (pointers_[i] == nullptr) throw WrongArgument("argument " + std::to_string(i) + " has no memory");
    }
  }

  static ScalarType scalar_type(int dtype) {
    switch (dtype) {
      case kBfloat16:
        return ScalarType::BFloat16;
      case kInt8:
        return ScalarType::Char;
      case kUint8:
        return ScalarType::Byte;
      case kInt32:
        return ScalarType::Int;
      case kInt64:
        return ScalarType::Long;
      case kBool:
        return ScalarType::Bool;
      default:
        return ScalarType::Float;
    }
  }

  // Scalars are tensors of one element in the plan.
  static bool fits(const Tensor& tensor, const std::vector<int64_t>& dims) {
    if (tensor.dim() == 0) return dims.size() == 1 && dims[0] == 1;
    return std::equal(dims.begin(), dims.end(), tensor.sizes().begin(), tensor.sizes().end());
  }

  static void resize(Tensor& tensor, const std::vector<int64_t>& dims) {
    std::array<SizesType, kMaxRank> sizes;
    std::copy(dims.begin(), dims.end(), sizes.begin());
    if (executorch::runtime::resize_tensor(tensor, ArrayRef<SizesType>(sizes.data(), dims.size())) != Error::Ok) {
      throw WrongArgument("an output does not fit into the memory planned for it");
    }
  }

  FreeableBuffer* bytes_;  // constants stay in the file's pages
  Plan plan_;
  Arena arena_;
  PanelStore panels_;
  std::vector<Group> groups_;
  std::list<std::unique_ptr<Executable>> executables_;
  std::vector<int64_t> sizes_;
  std::vector<void*> pointers_;
};

// Runs `body`; exceptions end here.
template <typename Body>
Error guarded(const char* doing, const Body& body) {
  try {
    body();
    return Error::Ok;
  } catch (const WrongArgument& error) {
    ET_LOG(Error, "OneDnnGraphBackend could not %s: %s", doing, error.what());
    return Error::InvalidArgument;
  } catch (const std::bad_alloc&) {
    ET_LOG(Error, "OneDnnGraphBackend could not %s: out of memory", doing);
    return Error::DelegateMemoryAllocationFailed;
  } catch (const std::exception& error) {
    ET_LOG(Error, "OneDnnGraphBackend could not %s: %s", doing, error.what());
    return Error::DelegateInvalidCompatibility;
  }
}

class OneDnnGraphBackend final : public BackendInterface {
 public:
  bool is_available() const override {
    return guarded("start", [] { device(); }) == Error::Ok;
  }

  Result<DelegateHandle*> init(BackendInitContext&, FreeableBuffer* processed,
                               ArrayRef<CompileSpec>) const override {
    Plan plan;
    const std::string damage = parse_plan(processed->data(), processed->size(), plan);
    if (!damage.empty()) {
      ET_LOG(Error, "OneDnnGraphBackend: the plan is damaged: %s", damage.c_str());
      return Error::InvalidProgram;
    }
    Region* region = nullptr;
    const Error error = guarded("load", [&] { region = new Region(processed, std::move(plan)); });
    if (error != Error::Ok) return error;
    return static_cast<DelegateHandle*>(region);
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue*> args) const override {
    return guarded("run", [&] { static_cast<Region*>(handle)->execute(args, context.event_tracer()); });
  }

  void destroy(DelegateHandle* handle) const override { delete static_cast<Region*>(handle); }
};

OneDnnGraphBackend backend;
const Error registered = executorch::runtime::register_backend({"OneDnnGraphBackend", &backend});

}  // namespace

}  // namespace edgex

// 0 when ExecuTorch took the backend in.
extern "C" int edgex_onednn_registered() { return static_cast<int>(edgex::registered); }

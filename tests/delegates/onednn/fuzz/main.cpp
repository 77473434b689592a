// Damages plans in many ways, and loads and runs each that is accepted, as ExecuTorch would. Built with AddressSanitizer and
// UndefinedBehaviorSanitizer, and with memory that oneDNN's kernels cannot leave: the first wrong step ends it.
// Usage: fuzz FIRST ROUNDS PLAN... Prints how many plans were refused, could not be compiled, were run.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/platform/runtime.h>
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "damage.h"
#include "encode.h"
#include "guarded_memory.h"
#include "plan/measure.h"
#include "plan/parser.h"

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Span;

// Larger plans only take longer.
constexpr int64_t kMostElements = 1 << 20;
constexpr unsigned kMostSeconds = 120;
long current_round = -1;
const char* current_file = "";

void tell_round() { std::fprintf(stderr, "round %ld of %s\n", current_round, current_file); }

void give_up(int) {
  tell_round();
  std::fprintf(stderr, "it takes too long\n");
  _exit(3);
}

using Guarded = std::unique_ptr<void, void (*)(void*)>;

ScalarType scalar_type(int dtype) {
  switch (dtype) {
    case edgex::kBfloat16:
      return ScalarType::BFloat16;
    case edgex::kInt8:
      return ScalarType::Char;
    case edgex::kUint8:
      return ScalarType::Byte;
    case edgex::kInt32:
      return ScalarType::Int;
    case edgex::kInt64:
      return ScalarType::Long;
    case edgex::kBool:
      return ScalarType::Bool;
    default:
      return ScalarType::Float;
  }
}

// The caller's tensors for a plan and sizes: as many bytes as their sizes say, and not one more.
class Arguments {
 public:
  Arguments(const edgex::Plan& plan, const std::vector<edgex::Shape>& shapes) {
    sizes_.resize(plan.args.size());
    orders_.resize(plan.args.size());
    values_.resize(plan.args.size());
    for (size_t i = 0; i < plan.args.size(); i++) {
      if (plan.args[i] >= 0) add(i, plan.values[static_cast<size_t>(plan.args[i])].dtype, shapes[static_cast<size_t>(plan.args[i])]);
      pointers_.push_back(&values_[i]);
    }
  }

  Span<EValue*> span() { return {pointers_.data(), pointers_.size()}; }
  bool complete() const { return complete_; }

 private:
  void add(size_t i, int dtype, const edgex::Shape& shape) {
    size_t bytes = edgex::element_bytes(dtype);
    for (int64_t size : shape.dims) {
      bytes *= static_cast<size_t>(size);
      sizes_[i].push_back(static_cast<int32_t>(size));
      orders_[i].push_back(static_cast<uint8_t>(orders_[i].size()));
    }
    memory_.emplace_back(take_guarded(bytes, 16), give_guarded);
    complete_ = complete_ && memory_.back() != nullptr;
    tensors_.push_back(std::make_unique<TensorImpl>(scalar_type(dtype), static_cast<ssize_t>(shape.dims.size()), sizes_[i].data(),
                                                    memory_.back().get(), orders_[i].data()));
    values_[i] = EValue(Tensor(tensors_.back().get()));
  }

  std::vector<std::vector<int32_t>> sizes_;
  std::vector<std::vector<uint8_t>> orders_;
  std::vector<Guarded> memory_;
  std::vector<std::unique_ptr<TensorImpl>> tensors_;
  std::vector<EValue> values_;
  std::vector<EValue*> pointers_;
  bool complete_ = true;
};

bool is_small(const std::vector<edgex::Shape>& shapes) {
  int64_t all = 0;
  for (const edgex::Shape& shape : shapes) {
    int64_t count = 1;
    for (int64_t size : shape.dims) count *= size;
    all += count;
    if (all > kMostElements) return false;
  }
  return true;
}

struct Counts {
  long refused = 0, large = 0, not_compiled = 0, ran = 0;
};

// Runs with the sizes of the example, then with others where sizes are open.
bool run(const executorch::runtime::BackendInterface& backend, executorch::runtime::DelegateHandle* handle,
         const edgex::Plan& plan) {
  bool ran = false;
  for (int64_t more = 0; more < (plan.symbols.empty() ? 1 : 3); more++) {
    std::vector<int64_t> symbols;
    for (const edgex::Symbol& symbol : plan.symbols) symbols.push_back(symbol.hint % 64 + more);
    std::vector<edgex::Shape> shapes;
    try {
      shapes = edgex::measure(plan, symbols);
    } catch (const edgex::DamagedPlan&) {
      continue;
    }
    if (!is_small(shapes)) continue;
    Arguments arguments(plan, shapes);
    if (!arguments.complete()) continue;
    BackendExecutionContext context;
    ran = backend.execute(context, handle, arguments.span()) == Error::Ok || ran;
  }
  return ran;
}

void load_and_run(const std::vector<uint8_t>& bytes, Counts& counts) {
  const Guarded exact(take_guarded(bytes.size(), 16), give_guarded);
  if (exact == nullptr) return;
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  edgex::Plan plan;
  bool sound = edgex::parse_plan(exact.get(), bytes.size(), plan).empty();
  try {
    std::vector<int64_t> hints;
    for (const edgex::Symbol& symbol : plan.symbols) hints.push_back(symbol.hint);
    if (sound && !is_small(edgex::measure(plan, hints))) {
      counts.large++;
      return;
    }
  } catch (const edgex::DamagedPlan&) {
    sound = false;
  }
  const auto& backend = *executorch::runtime::get_backend_class("OneDnnGraphBackend");
  FreeableBuffer buffer(exact.get(), bytes.size(), [](void*, void*, size_t) {});
  BackendInitContext context(nullptr);
  auto handle = backend.init(context, &buffer, {});
  if (!sound) {
    counts.refused++;
    if (handle.ok()) std::abort();
    return;
  }
  if (!handle.ok()) {
    counts.not_compiled++;
    return;
  }
  run(backend, handle.get(), plan) ? counts.ran++ : counts.not_compiled++;
  backend.destroy(handle.get());
}

// Damage to the bytes themselves, checksum or not.
void damage_bytes(std::vector<uint8_t>& bytes, std::mt19937_64& random) {
  uint64_t body;
  std::memcpy(&body, &bytes[16], 8);
  const size_t head = edgex::kHeaderBytes + static_cast<size_t>(body);
  for (uint64_t i = 0; i < 1 + random() % 3; i++) {
    const size_t at = random() % 8 == 0 ? random() % bytes.size() : random() % head;
    bytes[at] = static_cast<uint8_t>(random() % 2 == 0 ? random() : bytes[at] ^ (1u << (random() % 8)));
  }
  if (random() % 16 == 0) bytes.resize(random() % bytes.size());
  if (bytes.size() < head || random() % 8 == 0) return;
  const uint64_t sum = edgex::checksum(bytes.data() + edgex::kHeaderBytes, static_cast<size_t>(body));
  std::memcpy(&bytes[40], &sum, 8);
}

}  // namespace

int main(int count, char** words) {
  executorch::runtime::runtime_init();
  __sanitizer_set_death_callback(tell_round);
  std::signal(SIGALRM, give_up);
  const long first = std::atol(words[1]), rounds = std::atol(words[2]);
  Counts counts;
  for (int i = 3; i < count; i++) {
    current_file = words[i];
    std::ifstream file(words[i], std::ios::binary);
    std::vector<uint8_t> original((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    current_round = -1;
    Counts whole;
    load_and_run(original, whole);
    edgex::Plan plan;
    // It must run as it is, and the writer must write what was read.
    if (whole.ran != 1 || !edgex::parse_plan(original.data(), original.size(), plan).empty()) return 2;
    load_and_run(edgex::write_plan(plan), whole);
    if (whole.ran != 2) return 2;
    for (long round = first; round < first + rounds; round++) {
      current_round = round;
      std::mt19937_64 random(static_cast<uint64_t>(round) * 1000 + static_cast<uint64_t>(i));
      alarm(kMostSeconds);
      if (random() % 8 == 0) {
        std::vector<uint8_t> bytes = original;
        damage_bytes(bytes, random);
        load_and_run(bytes, counts);
      } else {
        edgex::Plan changed = plan;
        edgex::damage(changed, random);
        load_and_run(edgex::write_plan(changed), counts);
      }
    }
  }
  std::printf("%ld refused, %ld too large to try, %ld not compiled, %ld ran\n", counts.refused, counts.large,
              counts.not_compiled, counts.ran);
  return 0;
}

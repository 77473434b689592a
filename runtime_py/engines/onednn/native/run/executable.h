// A plan compiled by oneDNN for the processor it runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <set>
#include <vector>

#include "library/allocator.h"
#include "library/onednn.h"
#include "library/pages.h"
#include "linear/panels.h"
#include "operators/own_operator.h"
#include "plan/measure.h"
#include "plan/plan.h"

namespace edgex {

// What oneDNN made one partition of the plan's operators, or what runs here: one operator, or linear layers of one input.
struct Group {
  PartitionOwner partition;       // null for an operator of our own
  int kind = 0;                   // of such an operator
  float scale = 0;                // of an attention
  size_t axis = 0;                // of a gather or a scatter
  int64_t window = 0;             // of an attention over a cache
  std::vector<uint32_t> inputs;   // values
  std::vector<uint32_t> outputs;
  std::vector<size_t> operations; // of the plan
  std::string name;               // its operators, for the profiler
  std::string handles;            // their debug handles, with commas between
};

// A stretch of the arena that is taken from the first to the last group that uses it.
struct Stretch {
  size_t offset, bytes, first, last;
};

// Memory that all sizes of one plan share: they never run at the same time.
class Arena {
 public:
  // At least that many bytes; what was there is lost when it moves.
  void grow(size_t bytes);
  std::byte* base() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_{nullptr, give_lasting};
  size_t bytes_ = 0;
};

// The plan's partitions in the order in which they run. They are formed once: sizes come in only when they are compiled.
std::vector<Group> form_groups(const Plan& plan);

// Partitions compiled for one set of input sizes.
class Executable {
 public:
  Executable(const Plan& plan, const std::vector<Group>& groups, const std::vector<int64_t>& symbols, Arena& arena,
             PanelStore& panels);

  // Sizes of a value of the plan.
  const std::vector<int64_t>& dims(uint32_t value) const { return shapes_[value].dims; }
  // Bytes that an argument must have.
  size_t argument_bytes(uint32_t value) const;

  const std::vector<int64_t>& symbols() const { return symbols_; }

  // `args`: memory of each delegate argument, null where it is no tensor. `before(i)` and `after(i)` enclose group i.
  template <typename Before, typename After>
  void run(void* const* args, const Before& before, const After& after) {
    bind(args);
    for (size_t i = 0; i < calls_.size(); i++) {
      before(i);
      run_group(i);
      after(i);
    }
    check(dnnl_stream_wait(device().stream), "waiting for the result");
  }

  // The first run, on zeros, which leaves nothing for the user's first one: constants are in the processor's layout,
  // scratch memory is there, and of `file` only the pages are left that later runs read.
  void warm_up(const std::vector<Group>& groups, const FilePages& file);

 private:
  struct Call {
    CompiledOwner compiled;
    bool small = false;  // compiled for one thread, and run by the one that calls
    std::vector<const_dnnl_graph_tensor_t> inputs, outputs;
    std::unique_ptr<OwnOperator> own;  // instead of those before
    std::vector<uint32_t> values;      // its inputs, then its results
  };
  // A tensor and the memory it lies in: an argument, or the arena where `argument` is -1.
  struct Binding {
    dnnl_graph_tensor_t tensor;
    int64_t argument;
    size_t byte_offset;
  };

  void find_data();
  void add_data(uint32_t value, const std::map<uint32_t, const Operation*>& makers);
  void compile(const std::vector<Group>& groups);
  void plan_memory(const std::vector<Group>& groups);
  std::map<uint32_t, uint32_t> share_memory(const std::vector<Group>& groups, std::map<uint32_t, Stretch>& lives) const;
  void make_tensors(const std::vector<Group>& groups);
  dnnl_graph_logical_tensor_t strided(uint32_t value, const std::vector<int64_t>& strides) const;
  uint32_t root(uint32_t value) const { return root_of(plan_, value); }
  void bind(void* const* args);
  void run_group(size_t i) {
    Call& call = calls_[i];
    if (call.own != nullptr) return run_own(*call.own, call.values, i);
    const ThreadScope threads(call.small ? 1 : 0);
    const ThreadTables tables;
    check(dnnl_graph_compiled_partition_execute(call.compiled.get(), device().stream, call.inputs.size(),
                                                call.inputs.data(), call.outputs.size(), call.outputs.data()),
          "running a partition");
  }
  void run_own(const OwnOperator& own, const std::vector<uint32_t>& values, size_t group) const;
  void compile_own(const Group& group, Call& call) const;
  std::unique_ptr<OwnOperator> make_linears(const Group& group, std::vector<Strided> tensors) const;
  bool compile_rows(const Group& group, Call& call);
  bool compile_image(const Group& group, const std::vector<Group>& groups, Call& call);
  bool is_small(const Group& group) const;
  std::unique_ptr<OwnOperator> make_small(const Group& group, std::vector<uint32_t>& values) const;
  bool lies_as(uint32_t one, uint32_t other) const;
  size_t last_reader(const Group& group, uint32_t value) const;
  bool is_led_by_own(const Group& group) const;
  bool is_linear_layer(const Operation& operation) const;
  bool is_own_convolution(const Operation& operation) const;
  std::set<size_t> lay_by_channels(const std::vector<Group>& groups);
  std::unique_ptr<OwnOperator> make_small_operator(const Operation& operation, bool small, bool any_order) const;
  void find_own_groups(const std::vector<Group>& groups);
  bool is_opaque(uint32_t value) const { return plan_.values[value].opaque && plain_.count(value) == 0; }
  std::byte* address(uint32_t value) const;
  std::vector<int64_t> signature(const Group& group) const;
  size_t prepared_bytes(const std::vector<Group>& groups) const;

  const Plan& plan_;
  std::vector<int64_t> symbols_;
  Arena& arena_;
  PanelStore& panels_;
  std::vector<Shape> shapes_;
  std::set<uint32_t> data_;  // constants that are multiplied by weights
  std::set<uint32_t> plain_; // values that some of these read or write, in the layout of their strides
  std::vector<dnnl_graph_logical_tensor_t> logical_;
  size_t arena_bytes_ = 0;
  std::vector<size_t> arena_offsets_;  // of the values, then of what each group needs while it runs
  std::vector<TensorOwner> tensors_;
  std::vector<Call> calls_;
  std::vector<Binding> bindings_;
  std::vector<void*> bound_args_;
  std::byte* bound_arena_ = nullptr;
};

}  // namespace edgex

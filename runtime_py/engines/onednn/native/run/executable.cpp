#include "run/executable.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>


namespace edgex {

namespace {

constexpr size_t kAlignment = 64, kChunk = 1 << 20;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The lowest place where a stretch does not touch those placed before it.
void place(Stretch& stretch, const std::vector<Stretch>& placed) {
  std::vector<const Stretch*> busy;
  for (const Stretch& other : placed) {
    if (other.first <= stretch.last && stretch.first <= other.last) busy.push_back(&other);
  }
  std::sort(busy.begin(), busy.end(), [](const Stretch* a, const Stretch* b) { return a->offset < b->offset; });
  stretch.offset = 0;
  for (const Stretch* other : busy) {
    if (stretch.offset + stretch.bytes <= other->offset) break;
    stretch.offset = std::max(stretch.offset, other->offset + other->bytes);
  }
}

}  // namespace

void Arena::grow(size_t bytes) {
  if (bytes <= bytes_) return;
  bytes_ = 0;  // should there not be so much
  memory_.reset();
  memory_.reset(static_cast<std::byte*>(take_lasting(bytes)));
  if (memory_ == nullptr) throw std::bad_alloc();
  bytes_ = bytes;
  // Its pages are there from now on, and no run takes a fault for one of them.
  const auto chunks = static_cast<int64_t>((bytes + kChunk - 1) / kChunk);
#pragma omp parallel for
  for (int64_t i = 0; i < chunks; i++) {
    const size_t start = static_cast<size_t>(i) * kChunk;
    std::memset(memory_.get() + start, 0, std::min(kChunk, bytes - start));
  }
}

Executable::Executable(const Plan& plan, const std::vector<Group>& groups, const std::vector<int64_t>& symbols,
                       Arena& arena, PanelStore& panels)
    : plan_(plan), symbols_(symbols), arena_(arena), panels_(panels), shapes_(measure(plan, symbols)) {
  find_data();
  compile(groups);
  plan_memory(groups);
  make_tensors(groups);
}

size_t Executable::argument_bytes(uint32_t value) const {
  return extent_bytes(shapes_[value], plan_.values[value].dtype);
}

// oneDNN 3.2 gives wrong numbers where everything that a product reads is declared constant: the first step of a
// recurrent layer, say, whose state starts as zeros, or quantized positions. What is multiplied by weights, and what
// that is computed of where it depends on no input, is never declared so.
void Executable::find_data() {
  std::map<uint32_t, const Operation*> makers;  // of what depends on constants alone
  const auto is_fixed = [&](uint32_t id) {
    return plan_.values[root(id)].storage == Storage::kConstant || makers.count(root(id)) != 0;
  };
  for (const Operation& operation : plan_.operations) {
    const bool weighs = operation.kind == dnnl_graph_op_matmul || operation.kind == dnnl_graph_op_convolution ||
                        operation.kind == dnnl_graph_op_conv_transpose;
    if (operation.inputs.empty()) continue;
    if (weighs && is_fixed(operation.inputs[0])) add_data(root(operation.inputs[0]), makers);
    if (std::all_of(operation.inputs.begin(), operation.inputs.end(), is_fixed)) {
      for (uint32_t output : operation.outputs) makers[root(output)] = &operation;
    }
  }
}

void Executable::add_data(uint32_t value, const std::map<uint32_t, const Operation*>& makers) {
  if (!data_.insert(value).second) return;
  const auto maker = makers.find(value);
  if (maker == makers.end()) return;
  for (uint32_t input : maker->second->inputs) add_data(root(input), makers);
}

dnnl_graph_logical_tensor_t Executable::strided(uint32_t id, const std::vector<int64_t>& strides) const {
  const Value& value = plan_.values[id];
  const bool constant = plan_.values[root(id)].storage == Storage::kConstant && data_.count(root(id)) == 0;
  const bool known = value.dtype != kInt64 && value.dtype != kBool;  // only operators of our own read the others
  dnnl_graph_logical_tensor_t tensor;
  check(dnnl_graph_logical_tensor_init_with_strides(
            &tensor, id, known ? static_cast<dnnl_data_type_t>(value.dtype) : dnnl_data_type_undef, static_cast<int32_t>(value.dims.size()),
            shapes_[id].dims.data(), strides.data(),
            constant ? dnnl_graph_tensor_property_constant : dnnl_graph_tensor_property_variable),
        "describing a tensor");
  return tensor;
}

void Executable::compile(const std::vector<Group>& groups) {
  for (uint32_t i = 0; i < plan_.values.size(); i++) logical_.push_back(strided(i, shapes_[i].strides));
  find_own_groups(groups);
  for (size_t i = 0; i < groups.size(); i++) {
    const Group& group = groups[i];
    Call& call = calls_[i];
    if (group.partition == nullptr) compile_own(group, call);
    if (call.own != nullptr || compile_rows(group, call) || compile_image(group, groups, call)) continue;
    std::vector<const dnnl_graph_logical_tensor_t*> inputs, outputs;
    for (uint32_t value : group.inputs) inputs.push_back(&logical_[value]);
    for (uint32_t value : group.outputs) {
      if (is_opaque(value)) logical_[value].layout_type = dnnl_graph_layout_type_any;
      outputs.push_back(&logical_[value]);
    }
    dnnl_graph_compiled_partition_t made;
    check(dnnl_graph_compiled_partition_create(&made, group.partition.get()), "making a compiled partition");
    call.compiled.reset(made);
    call.small = is_small(group);
    const ThreadScope threads(call.small ? 1 : 0);
    const CompileClock clock;
    check(dnnl_graph_partition_compile(group.partition.get(), made, inputs.size(), inputs.data(), outputs.size(),
                                       outputs.data(), device().engine),
          ("compiling " + group.name).c_str());
    for (uint32_t value : group.outputs) {
      if (!is_opaque(value)) continue;
      check(dnnl_graph_compiled_partition_query_logical_tensor(made, value, &logical_[value]), "reading a layout");
    }
  }
}

// Each intermediate value gets a place in the arena for as long as groups use it; larger ones choose first.
void Executable::plan_memory(const std::vector<Group>& groups) {
  std::map<uint32_t, Stretch> lives;
  const auto use = [&](uint32_t id, size_t group) {
    const uint32_t value = root(id);
    if (plan_.values[value].storage != Storage::kArena) return;
    const auto [life, fresh] = lives.try_emplace(value, Stretch{0, 0, group, group});
    life->second.last = group;
    if (!fresh) return;
    size_t bytes;
    check(dnnl_graph_logical_tensor_get_mem_size(&logical_[value], &bytes), "reading a size");
    life->second.bytes = round_up(std::max(bytes, argument_bytes(value)));
  };
  const auto first_group = static_cast<uint32_t>(plan_.values.size());
  for (size_t i = 0; i < groups.size(); i++) {
    for (uint32_t value : groups[i].inputs) use(value, i);
    for (uint32_t value : groups[i].outputs) use(value, i);
    if (calls_[i].own == nullptr) continue;
    const size_t bytes = round_up(calls_[i].own->scratch_bytes());
    lives.try_emplace(first_group + static_cast<uint32_t>(i), Stretch{0, bytes, i, i});
  }
  const std::map<uint32_t, uint32_t> taken_over = share_memory(groups, lives);
  std::vector<std::pair<uint32_t, Stretch>> largest_first(lives.begin(), lives.end());
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::vector<Stretch> placed;
  size_t total = 0;
  arena_offsets_.assign(plan_.values.size() + groups.size(), 0);
  for (auto& [value, stretch] : largest_first) {
    place(stretch, placed);
    placed.push_back(stretch);
    arena_offsets_[value] = stretch.offset;
    total = std::max(total, stretch.offset + stretch.bytes);
  }
  // Each was written over what came before it in the same memory.
  for (const auto& [value, before] : taken_over) arena_offsets_[value] = arena_offsets_[before];
  arena_bytes_ = total;
  arena_.grow(total);
}

// Where oneDNN adds to one of its inputs, it writes the result over it if both are in one memory, and copies the input
// otherwise. Both are put there where nothing else reads that input any more. Returns whose memory a value has.
std::map<uint32_t, uint32_t> Executable::share_memory(const std::vector<Group>& groups,
                                                      std::map<uint32_t, Stretch>& lives) const {
  std::map<uint32_t, uint32_t> taken_over;
  for (size_t i = 0; i < groups.size(); i++) {
    if (calls_[i].own != nullptr) continue;
    size_t count;
    const dnnl_graph_inplace_pair_t* pairs;
    check(dnnl_graph_compiled_partition_get_inplace_ports(calls_[i].compiled.get(), &count, &pairs), "reading ports");
    for (size_t pair = 0; pair < count; pair++) {
      const auto input = static_cast<uint32_t>(pairs[pair].input_id);
      const auto output = static_cast<uint32_t>(pairs[pair].output_id);
      const auto reads = std::count_if(groups[i].inputs.begin(), groups[i].inputs.end(),
                                       [&](uint32_t id) { return root(id) == root(input); });
      if (root(input) != input || reads != 1) continue;
      const auto first = taken_over.find(input);
      const uint32_t owner = first == taken_over.end() ? input : first->second;
      const auto before = lives.find(owner), after = lives.find(output);
      if (before == lives.end() || after == lives.end() || before == after) continue;
      if (before->second.last != i || after->second.first != i) continue;
      if (before->second.bytes != after->second.bytes) continue;
      before->second.last = after->second.last;
      lives.erase(after);
      taken_over[output] = owner;
      break;
    }
  }
  return taken_over;
}

void Executable::make_tensors(const std::vector<Group>& groups) {
  std::vector<dnnl_graph_tensor_t> made(plan_.values.size());
  const auto tensor_of = [&](uint32_t id) {
    if (made[id] != nullptr) return made[id];
    const Value& memory = plan_.values[root(id)];
    const size_t inside = static_cast<size_t>(shapes_[id].offset) * element_bytes(memory.dtype);
    void* data = nullptr;
    if (memory.storage == Storage::kConstant) {
      data = const_cast<uint8_t*>(plan_.constants) + memory.byte_offset + inside;
    }
    check(dnnl_graph_tensor_create(&made[id], &logical_[id], device().engine, data), "making a tensor");
    tensors_.emplace_back(made[id]);
    if (memory.storage == Storage::kArgument) bindings_.push_back({made[id], memory.index, inside});
    if (memory.storage == Storage::kArena) bindings_.push_back({made[id], -1, arena_offsets_[root(id)] + inside});
    return made[id];
  };
  for (size_t i = 0; i < groups.size(); i++) {
    if (calls_[i].own != nullptr) continue;
    for (uint32_t value : groups[i].inputs) calls_[i].inputs.push_back(tensor_of(value));
    for (uint32_t value : groups[i].outputs) calls_[i].outputs.push_back(tensor_of(value));
  }
  bound_args_.assign(plan_.args.size(), nullptr);
}

std::byte* Executable::address(uint32_t id) const {
  const Value& memory = plan_.values[root(id)];
  const size_t inside = static_cast<size_t>(shapes_[id].offset) * element_bytes(memory.dtype);
  switch (memory.storage) {
    case Storage::kConstant:
      return reinterpret_cast<std::byte*>(const_cast<uint8_t*>(plan_.constants)) + memory.byte_offset + inside;
    case Storage::kArgument:
      return static_cast<std::byte*>(bound_args_[memory.index]) + inside;
    default:
      return arena_.base() + arena_offsets_[root(id)] + inside;
  }
}

void Executable::run_own(const OwnOperator& own, const std::vector<uint32_t>& values, size_t group) const {
  std::array<std::byte*, kMostOwnTensors> tensors;
  std::transform(values.begin(), values.end(), tensors.begin(), [&](uint32_t id) { return address(id); });
  own.run(tensors.data(), arena_.base() + arena_offsets_[plan_.values.size() + group]);
}

void Executable::bind(void* const* args) {
  arena_.grow(arena_bytes_);  // it is gone where there was too little memory for larger sizes
  const bool moved = arena_.base() != bound_arena_;
  if (!moved && std::equal(bound_args_.begin(), bound_args_.end(), args)) return;
  for (const Binding& binding : bindings_) {
    const bool in_arena = binding.argument < 0;
    if (in_arena && !moved) continue;
    auto* base = in_arena ? arena_.base() : static_cast<std::byte*>(args[binding.argument]);
    check(dnnl_graph_tensor_set_data_handle(binding.tensor, base + binding.byte_offset), "giving a tensor its memory");
  }
  bound_arena_ = arena_.base();
  std::copy(args, args + bound_args_.size(), bound_args_.begin());
}

}  // namespace edgex

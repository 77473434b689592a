// What an executable does once, while it is loaded, so that no call of the user pays for it.
#include <cstdlib>
#include <numeric>
#include <set>

#include "library/allocator.h"
#include "run/executable.h"

namespace edgex {

namespace {

// Smaller constants stay where they are: letting their few pages go would cost more than it gives back.
constexpr size_t kLargeBytes = 64 << 10;

}  // namespace

// What oneDNN compiles a group from: groups that are equal in it differ in their constants only.
std::vector<int64_t> Executable::signature(const Group& group) const {
  std::vector<int64_t> numbers(group.name.begin(), group.name.end());
  numbers.push_back(-1);
  const auto add = [&](uint32_t id) {
    const Value& value = plan_.values[id];
    numbers.insert(numbers.end(), {value.dtype, value.opaque, static_cast<int64_t>(value.dims.size())});
    numbers.insert(numbers.end(), shapes_[id].dims.begin(), shapes_[id].dims.end());
    numbers.insert(numbers.end(), shapes_[id].strides.begin(), shapes_[id].strides.end());
  };
  for (uint32_t id : group.inputs) add(id);
  numbers.push_back(-1);
  for (uint32_t id : group.outputs) add(id);
  return numbers;
}

// Of the constants that oneDNN brings into a layout of its own; operators of ours have done so, or read them where they are.
size_t Executable::prepared_bytes(const std::vector<Group>& groups) const {
  std::set<uint32_t> constants;
  for (size_t i = 0; i < groups.size(); i++) {
    if (calls_[i].own != nullptr) continue;
    for (uint32_t input : groups[i].inputs) {
      if (plan_.values[root(input)].storage == Storage::kConstant) constants.insert(root(input));
    }
  }
  return std::accumulate(constants.begin(), constants.end(), size_t{0},
                         [&](size_t bytes, uint32_t id) { return bytes + plan_.values[id].byte_count; });
}

void Executable::warm_up(const std::vector<Group>& groups, const FilePages& file) {
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory;
  std::vector<void*> args(plan_.args.size());
  for (size_t i = 0; i < args.size(); i++) {
    if (plan_.args[i] < 0) continue;
    memory.emplace_back(std::calloc(1, argument_bytes(static_cast<uint32_t>(plan_.args[i]))), std::free);
    if (memory.back() == nullptr) throw std::bad_alloc();
    args[i] = memory.back().get();
  }
  bind(args.data());
  const ConstantScope scope(prepared_bytes(groups));
  std::set<std::vector<int64_t>> seen;
  for (size_t i = 0; i < groups.size(); i++) {
    if (is_cached_attention(groups[i].kind)) continue;  // no text ends at 0
    std::vector<const Value*> constants;
    size_t constant_bytes = 0;
    for (uint32_t input : groups[i].inputs) {
      const Value& value = plan_.values[root(input)];
      if (value.storage != Storage::kConstant || value.byte_count < kLargeBytes) continue;
      constants.push_back(&value);
      constant_bytes += value.byte_count;
    }
    // Without constants there is nothing to prepare but scratch memory, which equal groups share.
    if (!seen.insert(signature(groups[i])).second && constants.empty()) continue;
    const size_t before = held_bytes();
    run_group(i);
    // What is held now in another layout is not read again.
    const bool packed = calls_[i].own != nullptr && calls_[i].own->has_packed();
    if (!packed && held_bytes() < before + constant_bytes) continue;
    for (const Value* value : constants) file.forget(plan_.constants + value->byte_offset, value->byte_count);
  }
  check(dnnl_stream_wait(device().stream), "waiting for the first run");
}

}  // namespace edgex

#include "damage.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace edgex {

namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t count) { return static_cast<size_t>(random() % count); }

template <typename T>
T& any(std::vector<T>& items, Random& random) {
  return items[below(random, items.size())];
}

int64_t odd_number(Random& random, int64_t near) {
  static const int64_t odd[] = {0,  1,  2,  3,   4,   5,       7,       8,       12,        15,        16,        17,
                                31, 32, 33, 64,  255, 1 << 15, 1 << 20, 1 << 30, INT32_MAX, 1LL << 31, 1LL << 40, 1LL << 62,
                                -1, -2, -3, -64, INT64_MIN, INT64_MAX};
  switch (random() % 4) {
    case 0:
      return near + 1;
    case 1:
      return near - 1;
    case 2:
      return near * 2;
    default:
      return odd[below(random, sizeof odd / sizeof *odd)];
  }
}

// near * 2 must not overflow here, where the sanitizer looks too.
void change(int64_t& number, Random& random) { number = odd_number(random, std::clamp<int64_t>(number, -1000000, 1000000)); }

void change_float(float& number, Random& random) {
  static const float odd[] = {0, -0.0f, 1, -1, 0.5f, 1e-38f, 1e38f, 1e-45f, std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  number = odd[below(random, sizeof odd / sizeof *odd)];
}

void change_value(Plan& plan, Random& random) {
  Value& value = any(plan.values, random);
  switch (random() % 12) {
    case 0:
      return change(any(value.dims, random), random);
    case 1:
      return change(any(value.strides, random), random);
    case 2:
      return std::swap(any(value.strides, random), any(value.strides, random));
    case 3:
      value.dims.push_back(1);
      return value.strides.push_back(1);
    case 4:
      if (value.dims.size() == 1) return;
      value.dims.pop_back();
      return value.strides.pop_back();
    case 5:
      value.dtype = static_cast<int>(random() % 8 == 0 ? kInt64 + static_cast<int64_t>(random() % 2) : static_cast<int64_t>(random() % 8));
      return;
    case 6:
      value.opaque = !value.opaque;
      return;
    case 7:
      value.storage = static_cast<Storage>(random() % 5);
      return;
    case 8:
      value.index = static_cast<uint32_t>(random() % 4 == 0 ? random() : below(random, plan.values.size()));
      return;
    case 9: {
      auto number = static_cast<int64_t>(random() % 2 == 0 ? value.byte_offset : value.byte_count);
      change(number, random);
      (random() % 2 == 0 ? value.byte_offset : value.byte_count) = static_cast<uint64_t>(number);
      return;
    }
    case 10:
      return change(value.offset, random);
    default:
      value = any(plan.values, random);
  }
}

void change_attribute(Attribute& attribute, Random& random) {
  switch (random() % 8) {
    case 0:
      attribute.code = static_cast<int>(random() % 0x90);
      return;
    case 1:
      attribute.type = static_cast<Attribute::Type>(random() % 7);
      return;
    case 2:
      attribute.text = random() % 2 == 0 ? "NXC" : std::string(random() % 600, 'x');
      return;
    case 3:
      if (random() % 2 == 0 || attribute.integers.empty()) return attribute.integers.push_back(1);
      return attribute.integers.pop_back();
    case 4:
      if (random() % 2 == 0 || attribute.floats.empty()) return attribute.floats.push_back(1);
      return attribute.floats.pop_back();
    default:
      if (!attribute.floats.empty()) change_float(any(attribute.floats, random), random);
      if (!attribute.integers.empty()) change(any(attribute.integers, random), random);
  }
}

void change_operation(Plan& plan, Random& random) {
  Operation& operation = any(plan.operations, random);
  const auto id = [&] { return static_cast<uint32_t>(below(random, plan.values.size() + 1)); };
  switch (random() % 12) {
    case 0:
      operation.kind = static_cast<int>(random() % 90);
      return;
    case 1:
      operation.kind = random() % 2 == 0 ? kFirstOwn + static_cast<int>(random() % 3) : static_cast<int>(random());
      return;
    case 2: {
      const Operation& other = any(plan.operations, random);
      operation.kind = other.kind;
      if (random() % 2 == 0) operation.attributes = other.attributes;
      return;
    }
    case 3:
      if (!operation.inputs.empty()) any(operation.inputs, random) = id();
      return;
    case 4:
      return operation.inputs.push_back(id());
    case 5:
      if (!operation.inputs.empty()) operation.inputs.pop_back();
      return;
    case 6:
      if (!operation.outputs.empty()) any(operation.outputs, random) = id();
      return;
    case 7:
      operation.name = std::string(random() % 300, static_cast<char>(random() % 2 == 0 ? 'a' : random()));
      operation.alone = !operation.alone;
      return;
    case 8:
      if (!operation.attributes.empty()) operation.attributes.push_back(any(operation.attributes, random));
      return;
    case 9:
      if (!operation.attributes.empty()) operation.attributes.pop_back();
      return;
    default:
      if (!operation.attributes.empty()) change_attribute(any(operation.attributes, random), random);
  }
}

void change_plan(Plan& plan, Random& random) {
  switch (random() % 8) {
    case 0:
      return change(any(plan.args, random), random);
    case 1:
      plan.input_count = static_cast<uint32_t>(below(random, plan.args.size() + 2));
      return;
    case 2:
      std::swap(any(plan.operations, random), any(plan.operations, random));
      return;
    case 3: {
      const Operation copy = any(plan.operations, random);
      return plan.operations.push_back(copy);
    }
    case 4:
      plan.operations.erase(plan.operations.begin() + static_cast<std::ptrdiff_t>(below(random, plan.operations.size())));
      if (plan.operations.empty()) plan.operations.emplace_back();
      return;
    case 5: {
      if (plan.symbols.empty()) return;
      Symbol& symbol = any(plan.symbols, random);
      if (random() % 2 == 0) return change(symbol.hint, random);
      (random() % 2 == 0 ? symbol.arg : symbol.dim) = static_cast<uint32_t>(random() % 5);
      return;
    }
    default: {
      if (plan.expressions.empty()) return;
      Expression& expression = any(plan.expressions, random);
      if (expression.empty()) return;
      Instruction& instruction = any(expression, random);
      if (random() % 2 == 0) return change(instruction.operand, random);
      instruction.step = static_cast<Step>(random() % 9);
    }
  }
}

// What is dense stays so: strides from the order that they were in.
void make_dense(Value& value) {
  std::vector<size_t> order(value.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return value.strides[a] > value.strides[b]; });
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    value.strides[order[i]] = step;
    step *= value.dims[order[i]];
  }
}

// One size becomes another wherever it stands.
void resize(Plan& plan, Random& random) {
  const Size old = any(any(plan.values, random).dims, random);
  const auto now = static_cast<Size>(1 + random() % 40);
  if (old < 1) return;
  for (Value& value : plan.values) {
    if (std::any_of(value.dims.begin(), value.dims.end(), [](Size size) { return size < 0; })) continue;
    std::replace(value.dims.begin(), value.dims.end(), old, now);
    if (value.storage != Storage::kAlias) make_dense(value);
  }
  for (Operation& operation : plan.operations) {
    for (Attribute& attribute : operation.attributes) {
      if (attribute.integers.size() > 1) std::replace(attribute.integers.begin(), attribute.integers.end(), old, now);
    }
  }
}

bool alike(const Value& one, const Value& other) { return one.dims == other.dims && one.dtype == other.dtype; }

// Changes after which a plan may be as good as before: other fusions, other layouts.
void vary(Plan& plan, Random& random) {
  Operation& operation = any(plan.operations, random);
  switch (random() % 5) {
    case 0:
      return resize(plan, random);
    case 1: {  // an activation for another
      static const int unary[] = {0, 26, 27, 29, 36, 44, 58, 60, 61, 62, 68, 70, 75};
      static const int binary[] = {2, 20, 40, 43, 46, 74};
      const bool one = operation.inputs.size() == 1;
      if (one && !operation.attributes.empty()) return;
      operation.kind = one ? unary[random() % 13] : binary[random() % 6];
      operation.attributes.clear();
      return;
    }
    case 2: {  // another tensor of the same size
      if (operation.inputs.empty()) return;
      uint32_t& input = any(operation.inputs, random);
      for (int tries = 0; tries < 20; tries++) {
        const auto other = static_cast<uint32_t>(below(random, plan.values.size()));
        if (input < plan.values.size() && alike(plan.values[other], plan.values[input])) {
          input = other;
          return;
        }
      }
      return;
    }
    case 3: {  // another layout
      Value& value = any(plan.values, random);
      if (value.storage == Storage::kAlias) return;
      value.opaque = value.storage == Storage::kArena && random() % 2 == 0;
      std::shuffle(value.strides.begin(), value.strides.end(), random);
      if (std::all_of(value.dims.begin(), value.dims.end(), [](Size size) { return size > 0; })) make_dense(value);
      return;
    }
    default:
      operation.alone = !operation.alone;
  }
}

}  // namespace

void damage(Plan& plan, Random& random) {
  const uint64_t kind = random() % 8;
  const uint64_t changes = 1 + random() % 3;
  for (uint64_t i = 0; i < changes; i++) {
    if (kind < 4) vary(plan, random);
    if (kind >= 4 || (kind == 3 && i == 0)) {
      switch (random() % 5) {
        case 0:
        case 1:
          change_value(plan, random);
          break;
        case 2:
        case 3:
          change_operation(plan, random);
          break;
        default:
          change_plan(plan, random);
      }
    }
  }
}

}  // namespace edgex

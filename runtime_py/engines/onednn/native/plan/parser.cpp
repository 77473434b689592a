#include "plan/parser.h"

#include <algorithm>
#include <cstring>

#include "plan/operators.h"

namespace edgex {

namespace {

// Plans of the largest models have some thousand of each; what is compared with each other must end.
constexpr uint32_t kMostValues = 1 << 18;
constexpr size_t kLongestName = 256;
// Of constants, and of where they lie: a number is read where it is.
constexpr size_t kConstantAlignment = 8;

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  uint32_t u32() { return number<uint32_t>(); }
  int64_t i64() { return number<int64_t>(); }

  // A count of things of at least `each` bytes: more than fit into the rest cannot be meant.
  uint32_t count(size_t each) {
    const uint32_t value = u32();
    require_sound(value <= left_ / each, "a count goes past the end");
    return value;
  }

  std::string text() {
    const uint32_t length = count(1);
    return std::string(reinterpret_cast<const char*>(take(length)), length);
  }

  template <typename T>
  std::vector<T> numbers() {
    std::vector<T> values(count(sizeof(T)));
    for (T& value : values) value = number<T>();
    return values;
  }

  bool flag() {
    const uint32_t value = u32();
    require_sound(value <= 1, "a flag that is neither");
    return value == 1;
  }

  bool empty() const { return left_ == 0; }

 private:
  const uint8_t* take(size_t bytes) {
    require_sound(bytes <= left_, "it ends too early");
    const uint8_t* start = data_;
    data_ += bytes;
    left_ -= bytes;
    return start;
  }

  const uint8_t* data_;
  size_t left_;
};

template <typename E>
E read_enum(Reader& reader) {
  const uint32_t value = reader.u32();
  require_sound(value < static_cast<uint32_t>(E::kCount), "an unknown code");
  return static_cast<E>(value);
}

Expression read_expression(Reader& reader, size_t symbols) {
  Expression expression(reader.count(12));
  size_t depth = 0;
  for (Instruction& instruction : expression) {
    instruction.step = read_enum<Step>(reader);
    instruction.operand = reader.i64();
    if (instruction.step == Step::kConstant || instruction.step == Step::kSymbol) {
      if (instruction.step == Step::kSymbol) {
        require_sound(instruction.operand >= 0 && static_cast<uint64_t>(instruction.operand) < symbols, "an unknown symbol");
      }
      depth++;
    } else {
      require_sound(depth >= 2, "an expression without operands");
      depth--;
    }
  }
  require_sound(depth == 1, "an expression without a result");
  return expression;
}

Size read_size(Reader& reader, const Plan& plan) {
  const Size size = reader.i64();
  require_sound(size >= 0 || static_cast<uint64_t>(-(size + 1)) < plan.expressions.size(), "an unknown expression");
  return size;
}

// The sizes are checked with all others, in `measure`; here that they are fixed, and that they end inside the constants.
void check_constant(const Plan& plan, const Value& value) {
  require_sound(value.byte_offset <= plan.constants_bytes && value.byte_count <= plan.constants_bytes - value.byte_offset,
                "a constant goes past the end");
  require_sound(value.byte_offset % element_bytes(value.dtype) == 0, "a constant between two places");
  uint64_t bytes = element_bytes(value.dtype);
  for (Size size : value.dims) {
    require_sound(size > 0, "a constant without fixed size");
    require_sound(!__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes), "a constant of impossible size");
  }
  require_sound(std::all_of(value.strides.begin(), value.strides.end(), [](Size size) { return size >= 0; }),
                "a constant without fixed size");
  require_sound(bytes <= value.byte_count, "a constant too short");
}

Value read_value(Reader& reader, const Plan& plan) {
  Value value;
  value.dtype = static_cast<int>(reader.u32());
  require_sound(element_bytes(value.dtype) != 0, "an unknown element type");
  value.opaque = reader.flag();
  const uint32_t rank = reader.count(16);
  require_sound(rank >= 1 && rank <= kMaxRank, "an impossible number of dimensions");
  for (uint32_t i = 0; i < rank; i++) value.dims.push_back(read_size(reader, plan));
  for (uint32_t i = 0; i < rank; i++) value.strides.push_back(read_size(reader, plan));
  value.storage = read_enum<Storage>(reader);
  value.index = reader.u32();
  value.byte_offset = reader.number<uint64_t>();
  value.byte_count = reader.number<uint64_t>();
  value.offset = read_size(reader, plan);
  require_sound(!value.opaque || value.storage == Storage::kArena, "a free layout where memory is given");
  const bool refers = value.storage == Storage::kArgument || value.storage == Storage::kAlias;
  require_sound(refers || value.index == 0, "memory with a number that it has not");
  require_sound(value.storage == Storage::kAlias || value.offset == 0, "a value that begins inside of its memory");
  if (value.storage == Storage::kConstant) {
    check_constant(plan, value);
  } else {
    require_sound(value.byte_offset == 0 && value.byte_count == 0, "a place among the constants for what is none");
  }
  if (value.storage == Storage::kArgument) require_sound(value.index < plan.args.size(), "an unknown argument");
  if (value.storage == Storage::kAlias) {
    require_sound(value.index < plan.values.size(), "a view of nothing");
    const Value& root = plan.values[value.index];
    require_sound(root.storage != Storage::kAlias && !root.opaque && root.dtype == value.dtype, "a view of no memory");
  }
  return value;
}

Attribute read_attribute(Reader& reader) {
  Attribute attribute;
  attribute.code = static_cast<int>(reader.u32());
  attribute.type = read_enum<Attribute::Type>(reader);
  switch (attribute.type) {
    case Attribute::Type::kFloat:
    case Attribute::Type::kFloats:
      attribute.floats = reader.numbers<float>();
      break;
    case Attribute::Type::kString:
      attribute.text = reader.text();
      break;
    default:
      attribute.integers = reader.numbers<int64_t>();
  }
  const bool single = attribute.type == Attribute::Type::kInteger || attribute.type == Attribute::Type::kBool;
  require_sound(!single || attribute.integers.size() == 1, "an attribute without its one value");
  require_sound(attribute.type != Attribute::Type::kFloat || attribute.floats.size() == 1, "an attribute without its value");
  return attribute;
}

// `written` tells of each value whether an operator before this one made it, or it was there from the start.
Operation read_operation(Reader& reader, const Plan& plan, std::vector<bool>& written) {
  Operation operation;
  operation.kind = static_cast<int>(reader.u32());
  operation.debug_handle = reader.u32();
  operation.alone = reader.flag();
  operation.name = reader.text();
  // It is printed, in messages and profiles.
  require_sound(operation.name.size() <= kLongestName &&
                    std::all_of(operation.name.begin(), operation.name.end(), [](char c) { return c > ' ' && c <= '~'; }),
                "an operator with an odd name");
  operation.inputs = reader.numbers<uint32_t>();
  operation.outputs = reader.numbers<uint32_t>();
  for (uint32_t input : operation.inputs) {
    require_sound(input < plan.values.size(), "an operator of an unknown value");
    require_sound(written[root_of(plan, input)], "an operator before its input");
  }
  for (uint32_t output : operation.outputs) {
    require_sound(output < plan.values.size() && !written[output], "a value made twice");
    require_sound(plan.values[output].storage != Storage::kAlias, "an operator that writes into a view");
    written[output] = true;
  }
  const uint32_t attributes = reader.count(8);
  for (uint32_t i = 0; i < attributes; i++) operation.attributes.push_back(read_attribute(reader));
  check_operation(plan, operation);
  return operation;
}

void read_body(Reader& reader, Plan& plan) {
  const uint32_t symbols = reader.count(16);
  for (uint32_t i = 0; i < symbols; i++) {
    Symbol symbol;
    symbol.arg = reader.u32();
    symbol.dim = reader.u32();
    symbol.hint = reader.i64();
    require_sound(symbol.hint >= 1 && symbol.hint <= INT32_MAX, "a symbol of impossible size");
    plan.symbols.push_back(symbol);
  }
  const uint32_t expressions = reader.count(4);
  for (uint32_t i = 0; i < expressions; i++) plan.expressions.push_back(read_expression(reader, symbols));
  plan.input_count = reader.u32();
  plan.args = reader.numbers<int64_t>();
  require_sound(plan.input_count <= plan.args.size(), "more inputs than arguments");
  const uint32_t values = reader.count(48);
  require_sound(values <= kMostValues && plan.args.size() <= kMostValues, "more values than any model has");
  for (uint32_t i = 0; i < values; i++) plan.values.push_back(read_value(reader, plan));
  std::vector<bool> written(values), argument(values);
  for (size_t i = 0; i < plan.args.size(); i++) {
    const int64_t id = plan.args[i];
    require_sound(id >= -1 && id < static_cast<int64_t>(values), "an argument that is no value");
    require_sound(id >= 0 || i < plan.input_count, "an output that is no value");
    if (id < 0) continue;
    // An output may be a view of the value that lies in its memory; an input is the value itself.
    const uint32_t root = root_of(plan, static_cast<uint32_t>(id));
    const Value& value = plan.values[root];
    require_sound(value.storage == Storage::kArgument && value.index == i && !argument[root], "an argument of other memory");
    argument[root] = true;
    require_sound(i >= plan.input_count || root == static_cast<uint64_t>(id), "an input that is a view");
    if (i < plan.input_count) written[root] = true;
  }
  for (uint32_t i = 0; i < values; i++) {
    require_sound((plan.values[i].storage == Storage::kArgument) == argument[i], "a value in the memory of no argument");
  }
  for (const Symbol& symbol : plan.symbols) {
    require_sound(symbol.arg < plan.input_count && plan.args[symbol.arg] >= 0, "a symbol of no input");
    require_sound(symbol.dim < plan.values[static_cast<size_t>(plan.args[symbol.arg])].dims.size(), "a symbol of no size");
  }
  for (uint32_t i = 0; i < values; i++) written[i] = written[i] || plan.values[i].storage == Storage::kConstant;
  const uint32_t operations = reader.count(28);
  for (uint32_t i = 0; i < operations; i++) plan.operations.push_back(read_operation(reader, plan, written));
  check_memory(plan);
  for (size_t i = plan.input_count; i < plan.args.size(); i++) {
    require_sound(written[root_of(plan, static_cast<uint32_t>(plan.args[i]))], "an output that nothing makes");
  }
  require_sound(reader.empty(), "bytes left over");
}

}  // namespace

uint64_t checksum(const uint8_t* data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * 0x100000001b3u;
  return hash;
}

std::string parse_plan(const void* data, size_t size, Plan& plan) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  try {
    require_sound(data != nullptr && size >= kHeaderBytes, "it is shorter than its header");
    require_sound(std::memcmp(bytes, kMagic, 8) == 0, "it is no plan");
    Reader header(bytes + 8, kHeaderBytes - 8);
    const uint32_t version = header.u32();
    require_sound(version >= 1 && version <= kVersion, "another version of the format");
    require_sound(header.u32() == 0, "a header with more than it has");
    const auto body = header.number<uint64_t>();
    const auto constants = header.number<uint64_t>();
    const auto constants_bytes = header.number<uint64_t>();
    const auto expected = header.number<uint64_t>();
    require_sound(body <= size - kHeaderBytes, "it ends too early");
    require_sound(constants >= kHeaderBytes + body && constants <= size && constants_bytes <= size - constants,
            "its constants go past the end");
    require_sound(checksum(bytes + kHeaderBytes, body) == expected, "its checksum differs");
    require_sound(constants_bytes == 0 || reinterpret_cast<uintptr_t>(bytes + constants) % kConstantAlignment == 0,
                  "its constants lie between two places");
    plan = Plan();
    plan.constants = bytes + constants;
    plan.constants_bytes = constants_bytes;
    Reader reader(bytes + kHeaderBytes, body);
    read_body(reader, plan);
  } catch (const DamagedPlan& damage) {
    return damage.what();
  }
  return "";
}

}  // namespace edgex

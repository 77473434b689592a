// A region of the program as a oneDNN graph: what `parse_plan` makes of a delegate's bytes in a .pte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace edgex {

// What edgex never writes: damage, or a file made to do harm. Thrown before anything is computed with it.
struct DamagedPlan : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require_sound(bool condition, const char* otherwise) {
  if (!condition) throw DamagedPlan(otherwise);
}

// A size known at export, or an expression over the sizes of the inputs.
// Non-negative: the size itself. Negative: expression number -(size + 1).
using Size = int64_t;

constexpr size_t kMaxRank = 12;

// Element types that plans hold, as oneDNN numbers them (dnnl_data_type_t); the last two oneDNN 3.2 does not have.
constexpr int kBfloat16 = 2, kFloat32 = 3, kInt32 = 4, kInt8 = 5, kUint8 = 6, kInt64 = 1 << 16,
              kBool = (1 << 16) + 1;

// Kinds of operators that the backend runs by itself, behind all of oneDNN's.
constexpr int kFirstOwn = 1 << 16;
// kAttention gives a row that may look at nothing the mean of all values, kGuardedAttention 0 as PyTorch's operator does, and
// kSoftmaxAttention NaN as a softmax does.
constexpr int kAttention = kFirstOwn, kEmbedding = kFirstOwn + 1, kGuardedAttention = kFirstOwn + 2,
              kSoftmaxAttention = kFirstOwn + 3;
// Of two tensors, each repeated and laid out in any way.
constexpr int kAdd = kFirstOwn + 4, kSubtract = kFirstOwn + 5, kMultiply = kFirstOwn + 6, kDivide = kFirstOwn + 7,
              kMaximum = kFirstOwn + 8, kMinimum = kFirstOwn + 9;
// Of a mask and two tensors, each repeated in any way; and the elements that numbers along one dimension choose.
constexpr int kWhere = kFirstOwn + 10, kGather = kFirstOwn + 11;
// Over a cache, two of the caller's inputs, that it writes.
constexpr int kCachedAttention = kFirstOwn + 12;
// Linear layers with weights in few bits, whose inputs are quantized while they run.
constexpr int kLinear4Bit = kFirstOwn + 13, kLinear8Bit = kFirstOwn + 14;
// Tensors one behind the other, also of sizes that oneDNN's operator does not take.
constexpr int kConcat = kFirstOwn + 15;
// Over a cache in 8 bits, four of the caller's inputs: with the scales.
constexpr int kCachedAttention8 = kFirstOwn + 16;
// Of each number.
constexpr int kSine = kFirstOwn + 17, kCosine = kFirstOwn + 18;
// Elements, and rows, that are added at the places that numbers along one dimension name.
constexpr int kScatterAdd = kFirstOwn + 19, kAddRows = kFirstOwn + 20;
// Attributes of operators of our own, behind all of oneDNN's: how many tokens back an attention sees, 0 for all.
constexpr int kWindow = 1 << 16;

inline bool is_cached_attention(int kind) { return kind == kCachedAttention || kind == kCachedAttention8; }

inline bool is_own_attention(int kind) {
  return kind == kAttention || kind == kGuardedAttention || kind == kSoftmaxAttention;
}

inline bool is_own_binary(int kind) { return kind >= kAdd && kind <= kMinimum; }

inline bool is_own_unary(int kind) { return kind == kSine || kind == kCosine; }

inline bool is_scatter(int kind) { return kind == kScatterAdd || kind == kAddRows; }

struct Symbol {
  uint32_t arg;   // delegate argument whose size gives the symbol its value
  uint32_t dim;
  int64_t hint;   // its value in the example, with which the plan is warmed up
};

enum class Step : uint32_t { kConstant, kSymbol, kAdd, kMultiply, kFloorDivide, kModulo, kMaximum, kMinimum, kCount };

// Postfix code: operands push, operators take two and push one.
struct Instruction {
  Step step;
  int64_t operand;
};
using Expression = std::vector<Instruction>;

enum class Storage : uint32_t { kArena, kArgument, kConstant, kAlias, kCount };

struct Value {
  int dtype = 0;                // one of those above
  bool opaque = false;          // oneDNN may choose the layout
  std::vector<Size> dims;
  std::vector<Size> strides;    // in elements
  Storage storage = Storage::kArena;
  uint32_t index = 0;           // kArgument: argument; kAlias: the value whose memory it shares
  uint64_t byte_offset = 0;     // kConstant: place among the constants
  uint64_t byte_count = 0;      // kConstant
  Size offset = 0;              // kAlias: first element
};

struct Attribute {
  enum class Type : uint32_t { kFloat, kFloats, kInteger, kIntegers, kBool, kString, kCount };
  int code = 0;                 // dnnl_graph_op_attr_t
  Type type = Type::kFloat;
  std::vector<float> floats;
  std::vector<int64_t> integers;
  std::string text;
};

struct Operation {
  int kind = 0;                 // dnnl_graph_op_kind_t, or one of ours
  uint32_t debug_handle = 0;    // ExecuTorch's number of the operator that it comes from
  bool alone = false;           // nothing after it may be fused into it
  std::string name;             // what the profiler shows
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<Attribute> attributes;
};

struct Plan {
  std::vector<Symbol> symbols;
  std::vector<Expression> expressions;
  uint32_t input_count = 0;     // the first arguments are inputs, the rest outputs
  std::vector<int64_t> args;    // value of each delegate argument; -1: not a tensor
  std::vector<Value> values;
  std::vector<Operation> operations;
  const uint8_t* constants = nullptr;  // inside the parsed bytes
  size_t constants_bytes = 0;
};

// The value of a size, given those of the symbols; false: overflow, or a division by zero.
bool evaluate(const Plan& plan, Size size, const std::vector<int64_t>& symbols, int64_t& result);

// Bytes of one element; 0 for a type that no plan holds.
size_t element_bytes(int dtype);

// The value whose memory a value lies in: itself, or what it is a view of.
inline uint32_t root_of(const Plan& plan, uint32_t value) {
  return plan.values[value].storage == Storage::kAlias ? plan.values[value].index : value;
}

}  // namespace edgex

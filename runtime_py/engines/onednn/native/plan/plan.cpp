#include "plan/plan.h"

#include <algorithm>

namespace edgex {

namespace {

// Both round towards minus infinity, as Python does.
int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return (rest != 0 && (rest < 0) != (b < 0)) ? rest + b : rest;
}

bool apply(Step step, int64_t a, int64_t b, int64_t& result) {
  switch (step) {
    case Step::kAdd:
      return !__builtin_add_overflow(a, b, &result);
    case Step::kMultiply:
      return !__builtin_mul_overflow(a, b, &result);
    case Step::kMaximum:
      result = std::max(a, b);
      return true;
    case Step::kMinimum:
      result = std::min(a, b);
      return true;
    case Step::kFloorDivide:
    case Step::kModulo:
      if (b == 0 || (a == INT64_MIN && b == -1)) return false;
      result = step == Step::kFloorDivide ? floor_divide(a, b) : modulo(a, b);
      return true;
    default:
      return false;
  }
}

}  // namespace

bool evaluate(const Plan& plan, Size size, const std::vector<int64_t>& symbols, int64_t& result) {
  if (size >= 0) {
    result = size;
    return true;
  }
  std::vector<int64_t> stack;
  for (const Instruction& instruction : plan.expressions[static_cast<size_t>(-(size + 1))]) {
    if (instruction.step == Step::kConstant) {
      stack.push_back(instruction.operand);
    } else if (instruction.step == Step::kSymbol) {
      stack.push_back(symbols[static_cast<size_t>(instruction.operand)]);
    } else {
      const int64_t b = stack.back();
      stack.pop_back();
      if (!apply(instruction.step, stack.back(), b, stack.back())) return false;
    }
  }
  result = stack.back();
  return true;
}

size_t element_bytes(int dtype) {
  switch (dtype) {
    case kBfloat16:
      return 2;
    case kFloat32:
    case kInt32:
      return 4;
    case kInt64:
      return 8;
    case kInt8:
    case kUint8:
    case kBool:
      return 1;
    default:
      return 0;
  }
}

}  // namespace edgex

// A plan as bytes, the inverse of the parser: so that what is damaged is a plan's meaning, not the place of its bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "plan/parser.h"

namespace edgex {

class Writer {
 public:
  template <typename T>
  void number(T value) {
    const auto* start = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), start, start + sizeof(T));
  }

  void u32(uint64_t value) { number(static_cast<uint32_t>(value)); }

  template <typename T>
  void numbers(const std::vector<T>& values) {
    u32(values.size());
    for (const T& value : values) number(value);
  }

  void text(const std::string& text) {
    u32(text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }

  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

inline void write_value(Writer& writer, const Value& value) {
  writer.u32(static_cast<uint32_t>(value.dtype));
  writer.u32(value.opaque);
  writer.u32(value.dims.size());
  for (Size size : value.dims) writer.number(size);
  for (size_t i = 0; i < value.dims.size(); i++) writer.number(i < value.strides.size() ? value.strides[i] : Size{1});
  writer.u32(static_cast<uint32_t>(value.storage));
  writer.u32(value.index);
  writer.number(value.byte_offset);
  writer.number(value.byte_count);
  writer.number(value.offset);
}

inline void write_attribute(Writer& writer, const Attribute& attribute) {
  writer.u32(static_cast<uint32_t>(attribute.code));
  writer.u32(static_cast<uint32_t>(attribute.type));
  if (attribute.type == Attribute::Type::kString) return writer.text(attribute.text);
  const bool floats = attribute.type == Attribute::Type::kFloat || attribute.type == Attribute::Type::kFloats;
  floats ? writer.numbers(attribute.floats) : writer.numbers(attribute.integers);
}

inline std::vector<uint8_t> write_plan(const Plan& plan) {
  Writer body;
  body.u32(plan.symbols.size());
  for (const Symbol& symbol : plan.symbols) {
    body.u32(symbol.arg);
    body.u32(symbol.dim);
    body.number(symbol.hint);
  }
  body.u32(plan.expressions.size());
  for (const Expression& expression : plan.expressions) {
    body.u32(expression.size());
    for (const Instruction& instruction : expression) {
      body.u32(static_cast<uint32_t>(instruction.step));
      body.number(instruction.operand);
    }
  }
  body.u32(plan.input_count);
  body.numbers(plan.args);
  body.u32(plan.values.size());
  for (const Value& value : plan.values) write_value(body, value);
  body.u32(plan.operations.size());
  for (const Operation& operation : plan.operations) {
    body.u32(static_cast<uint32_t>(operation.kind));
    body.u32(operation.debug_handle);
    body.u32(operation.alone);
    body.text(operation.name);
    body.numbers(operation.inputs);
    body.numbers(operation.outputs);
    body.u32(operation.attributes.size());
    for (const Attribute& attribute : operation.attributes) write_attribute(body, attribute);
  }
  Writer all;
  for (size_t i = 0; i < 8; i++) all.number(kMagic[i]);
  all.u32(kVersion);
  all.u32(0);
  const uint64_t bytes = body.bytes().size(), start = (kHeaderBytes + bytes + 63) / 64 * 64;
  all.number(bytes);
  all.number(start);
  all.number(static_cast<uint64_t>(plan.constants_bytes));
  all.number(checksum(body.bytes().data(), bytes));
  std::vector<uint8_t> found = all.bytes();
  found.insert(found.end(), body.bytes().begin(), body.bytes().end());
  found.resize(start);
  found.insert(found.end(), plan.constants, plan.constants + plan.constants_bytes);
  return found;
}

}  // namespace edgex

#pragma once

// Tensors in a file: a line of text for each, then their values. A file is any number of such sets, one after the other.
//
//   edgex-tensors 2\n
//   float32 1x3x8x8 x\n
//   int64 scalar step\n
//   <768 bytes><8 bytes>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace edgex {

// What the user, or the file, did wrong; everything else is an engine's failure.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Dtype { kFloat32, kFloat64, kFloat16, kBfloat16, kInt8, kInt16, kInt32, kInt64, kUint8, kBool };

struct Tensor {
  std::string name;
  Dtype dtype = Dtype::kFloat32;
  std::vector<int64_t> sizes;
  std::shared_ptr<uint8_t> data;  // with room behind: XNNPACK's kernels read up to 16 bytes past the end

  size_t count() const;
  size_t bytes() const;
  void allocate();
};

size_t size_of(Dtype dtype);
const char* name_of(Dtype dtype);
Dtype parse_dtype(const std::string& name);          // throws BadInput
std::vector<int64_t> parse_sizes(const std::string& text);  // throws BadInput
std::string format_sizes(const std::vector<int64_t>& sizes);

// One set; throws BadInput where the file ends early or is none.
std::vector<Tensor> read_tensors(std::istream& stream);
void write_tensors(std::ostream& stream, const std::vector<Tensor>& tensors);

}  // namespace edgex

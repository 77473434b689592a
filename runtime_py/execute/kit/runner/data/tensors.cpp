#include "data/tensors.h"

#include <istream>
#include <ostream>
#include <sstream>

namespace edgex {

namespace {

struct Kind {
  Dtype dtype;
  const char* name;
  size_t bytes;
};

constexpr Kind kKinds[] = {
    {Dtype::kFloat32, "float32", 4}, {Dtype::kFloat64, "float64", 8}, {Dtype::kFloat16, "float16", 2},
    {Dtype::kBfloat16, "bfloat16", 2}, {Dtype::kInt8, "int8", 1}, {Dtype::kInt16, "int16", 2},
    {Dtype::kInt32, "int32", 4}, {Dtype::kInt64, "int64", 8}, {Dtype::kUint8, "uint8", 1}, {Dtype::kBool, "bool", 1},
};

constexpr size_t kRoomBehind = 64;
constexpr char kMagic[] = "edgex-tensors ";
constexpr size_t kMostTensors = 100000;
constexpr size_t kMostBytes = size_t{1} << 40;

std::string read_line(std::istream& stream) {
  std::string line;
  if (!std::getline(stream, line)) throw BadInput("the file of tensors ends early");
  return line;
}

}  // namespace

size_t size_of(Dtype dtype) {
  for (const Kind& kind : kKinds)
    if (kind.dtype == dtype) return kind.bytes;
  throw BadInput("unknown dtype");
}

const char* name_of(Dtype dtype) {
  for (const Kind& kind : kKinds)
    if (kind.dtype == dtype) return kind.name;
  throw BadInput("unknown dtype");
}

Dtype parse_dtype(const std::string& name) {
  for (const Kind& kind : kKinds)
    if (name == kind.name) return kind.dtype;
  throw BadInput("unknown dtype: " + name);
}

std::vector<int64_t> parse_sizes(const std::string& text) {
  std::vector<int64_t> sizes;
  if (text == "scalar") return sizes;
  std::istringstream parts(text);
  std::string part;
  while (std::getline(parts, part, 'x')) {
    if (part.empty() || part.size() > 12 || part.find_first_not_of("0123456789") != std::string::npos)
      throw BadInput("no sizes of a tensor: " + text);
    sizes.push_back(std::stoll(part));
  }
  if (sizes.empty()) throw BadInput("no sizes of a tensor: " + text);
  return sizes;
}

std::string format_sizes(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

size_t Tensor::count() const {
  size_t product = 1;
  for (const int64_t size : sizes) {
    if (size != 0 && product > kMostBytes / static_cast<size_t>(size)) throw BadInput("the tensor is too large");
    product *= static_cast<size_t>(size);
  }
  return product;
}

size_t Tensor::bytes() const { return count() * size_of(dtype); }

void Tensor::allocate() {
  data = std::shared_ptr<uint8_t>(new uint8_t[bytes() + kRoomBehind](), std::default_delete<uint8_t[]>());
}

std::vector<Tensor> read_tensors(std::istream& stream) {
  const std::string head = read_line(stream);
  if (head.rfind(kMagic, 0) != 0) throw BadInput("this is no file of tensors");
  const std::vector<int64_t> count = parse_sizes(head.substr(sizeof(kMagic) - 1));
  if (count.size() != 1 || count[0] > static_cast<int64_t>(kMostTensors)) throw BadInput("this is no file of tensors");
  std::vector<Tensor> tensors(static_cast<size_t>(count[0]));
  for (Tensor& tensor : tensors) {
    std::istringstream line(read_line(stream));
    std::string dtype, sizes;
    line >> dtype >> sizes;
    line.get();
    std::getline(line, tensor.name);
    tensor.dtype = parse_dtype(dtype);
    tensor.sizes = parse_sizes(sizes);
  }
  for (Tensor& tensor : tensors) {
    tensor.allocate();
    const auto wanted = static_cast<std::streamsize>(tensor.bytes());
    stream.read(reinterpret_cast<char*>(tensor.data.get()), wanted);
    if (stream.gcount() != wanted) throw BadInput("the file of tensors ends early");
  }
  return tensors;
}

void write_tensors(std::ostream& stream, const std::vector<Tensor>& tensors) {
  stream << kMagic << tensors.size() << "\n";
  for (const Tensor& tensor : tensors)
    stream << name_of(tensor.dtype) << " " << format_sizes(tensor.sizes) << " " << tensor.name << "\n";
  for (const Tensor& tensor : tensors)
    stream.write(reinterpret_cast<const char*>(tensor.data.get()), static_cast<std::streamsize>(tensor.bytes()));
}

}  // namespace edgex

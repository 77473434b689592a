// Damages plans in many ways and parses them; built with AddressSanitizer, so that one read outside of the bytes ends it.
// Usage: fuzz PLAN ROUNDS. Prints how many plans were accepted and refused.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "plan/parser.h"

namespace {

volatile uint64_t sink;

// What the backend does with a plan that passed: sizes for given symbols, and the constants it names.
void use(const edgex::Plan& plan, std::mt19937_64& random) {
  std::vector<int64_t> symbols(plan.symbols.size());
  for (int64_t& symbol : symbols) symbol = static_cast<int64_t>(random() % 9);
  for (const edgex::Value& value : plan.values) {
    int64_t size;
    for (edgex::Size dim : value.dims) edgex::evaluate(plan, dim, symbols, size);
    for (edgex::Size stride : value.strides) edgex::evaluate(plan, stride, symbols, size);
    edgex::evaluate(plan, value.offset, symbols, size);
    if (value.storage != edgex::Storage::kConstant) continue;
    for (uint64_t i = 0; i < value.byte_count; i++) sink = sink + plan.constants[value.byte_offset + i];
  }
}

void damage(std::vector<uint8_t>& bytes, std::mt19937_64& random) {
  static const uint32_t odd[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
  const uint64_t changes = 1 + random() % 4;
  for (uint64_t i = 0; i < changes && !bytes.empty(); i++) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1u << (random() % 8)));
        break;
      case 2:
        if (at / 4 * 4 + 4 <= bytes.size()) std::memcpy(&bytes[at / 4 * 4], &odd[random() % 5], 4);
        break;
      default:
        if (random() % 8 == 0) bytes.resize(at);
    }
  }
}

}  // namespace

int main(int, char** argv) {
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<uint8_t> original((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const long rounds = std::atol(argv[2]);
  std::mt19937_64 random(1);
  long accepted = 0, refused = 0;
  for (long round = 0; round <= rounds; round++) {
    std::vector<uint8_t> bytes = original;
    if (round > 0) damage(bytes, random);
    // Nine of ten get a checksum that fits, or nothing behind it would be reached.
    if (round % 10 != 9 && bytes.size() >= edgex::kHeaderBytes) {
      uint64_t body;
      std::memcpy(&body, &bytes[16], 8);
      if (body <= bytes.size() - edgex::kHeaderBytes) {
        const uint64_t sum = edgex::checksum(bytes.data() + edgex::kHeaderBytes, body);
        std::memcpy(&bytes[40], &sum, 8);
      }
    }
    // A block of exactly this size: the sanitizer sees the first byte after it.
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    edgex::Plan plan;
    if (edgex::parse_plan(exact.get(), bytes.size(), plan).empty()) {
      accepted++;
      use(plan, random);
    } else {
      refused++;
    }
    if (round == 0 && accepted != 1) return 2;
  }
  std::printf("%ld %ld\n", accepted, refused);
  return 0;
}

#include "generate/random.h"

#include <cstddef>

namespace edgex {

namespace {

using Wide = unsigned __int128;

constexpr Wide kMultiplier = (Wide{2549297995355413924ULL} << 64) | 4865540595714422341ULL;
constexpr size_t kPool = 4, kSeedWords = 8;

// Two hashes of SeedSequence: one fills its pool, the other reads it; each has a start and a multiplier.
struct Hash {
  uint32_t constant, multiplier;
  uint32_t operator()(uint32_t value) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ value >> 16;
  }
};

uint32_t mix(uint32_t left, uint32_t right) {
  const uint32_t mixed = 0xca01f9ddU * left - 0x4973f715U * right;
  return mixed ^ mixed >> 16;
}

Wide join(const uint32_t* words) {
  const auto pair = [&](size_t at) { return uint64_t{words[at + 1]} << 32 | words[at]; };
  return Wide{pair(0)} << 64 | pair(2);
}

}  // namespace

Random::Random(uint64_t seed) {
  uint32_t pool[kPool] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
  Hash fill{0x43b0d7e5U, 0x931e8875U};
  for (uint32_t& word : pool) word = fill(word);
  for (size_t from = 0; from < kPool; from++)
    for (size_t to = 0; to < kPool; to++)
      if (from != to) pool[to] = mix(pool[to], fill(pool[from]));
  Hash read{0x8b51f9ddU, 0x58f38dedU};
  uint32_t words[kSeedWords];
  for (size_t at = 0; at < kSeedWords; at++) words[at] = read(pool[at % kPool]);
  increment_ = join(words + 4) << 1 | 1;
  state_ = increment_ + join(words);
  state_ = state_ * kMultiplier + increment_;
}

uint64_t Random::next() {
  state_ = state_ * kMultiplier + increment_;
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const auto turns = static_cast<unsigned>(state_ >> 122);
  return folded >> turns | folded << (-turns & 63);
}

double Random::draw() { return static_cast<double>(next() >> 11) * 0x1p-53; }

}  // namespace edgex

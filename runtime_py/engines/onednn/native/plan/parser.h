// Reads a plan from bytes that may be damaged. Depends on neither oneDNN nor ExecuTorch, so that it can be fuzzed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace edgex {

// Little-endian. Header: magic "EDGEXDNN", u32 version, u32 zero, u64 bytes of the body, u64 offset of the constants,
// u64 their bytes, u64 FNV-1a of the body. Then the body, in the order of the fields of `Plan`; counts are u32.
constexpr char kMagic[] = "EDGEXDNN";
// Version 2 may hold attentions, version 3 embeddings too, version 4 operators of two tensors and attentions with two masks,
// version 5 what masks and numbers choose, version 6 attention over a cache, weights in few bits and concatenations of any
// size, version 7 caches in 8 bits, version 8 sines, version 9 what is scattered; the rest is as in version 1.
constexpr uint32_t kVersion = 9;
constexpr size_t kHeaderBytes = 48;

// Returns the cause, empty when `plan` is complete. `data` must outlive `plan`, which points to the constants in it.
// A plan that passes has every index in range, every operator of a kind that edgex writes and after what it reads, and every
// constant inside `data`. Whether sizes fit each other depends on the inputs': `measure` tells.
std::string parse_plan(const void* data, size_t size, Plan& plan);

uint64_t checksum(const uint8_t* data, size_t size);

}  // namespace edgex

// Attention over many places in blocks of rows, so that its scores never leave the processor's cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace edgex {

// The code of this operator in plans, outside of oneDNN's own.
constexpr int kAttention = 1 << 16;

// A tensor, in elements.
struct Strided {
  std::vector<int64_t> dims, strides;
};

// softmax(query x key * scale + mask) x value. oneDNN 3.2 makes three partitions of it, between which all scores lie in
// memory: 54 MB for six heads over 1,500 places. Here each thread takes a block of a head's rows through all three. The
// scores are float32 in any case.
class Attention {
 public:
  // query: (..., rows, size); key: (..., size, columns); value: (..., columns, width); result: (..., rows, width).
  // mask: repeated to (..., rows, columns), or null. All are of the one type, kFloat32 or kBfloat16. Compiles for the
  // threads that OpenMP gives now. Throws OneDnnError where the shapes do not fit each other.
  Attention(int dtype, const Strided& query, const Strided& key, const Strided& value, const Strided* mask,
            const Strided& result, float scale);
  ~Attention();

  // Memory that a run needs, aligned to 64; nothing in it is kept between runs.
  size_t scratch_bytes() const;

  void run(const void* query, const void* key, const void* value, const void* mask, void* result,
           std::byte* scratch) const;

  class Kernels;

 private:
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace edgex

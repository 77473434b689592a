// The products with 8-bit weights of every processor, by number: 0 plain, 1 AVX2, 2 AVX-512 VNNI.
#include "lowbits/eight.cpp"

extern "C" int multiply_eight(int which, const edgex::LowBitProduct* product, int64_t first, int64_t end) {
  if (which == 0) edgex::multiply_plain(*product, first, end);
#if defined(__x86_64__)
  if (which == 1 && !edgex::has_avx2()) return 0;
  if (which == 2 && !edgex::has_vnni()) return 0;
  if (which == 1) edgex::multiply_avx2(*product, first, end);
  if (which == 2) edgex::multiply_vnni(*product, first, end);
#endif
  return 1;
}

#include "convolution/rows.h"

#include <algorithm>

#include "operators/numbers.h"

namespace edgex {

namespace {

// Numbers of a range, of which some lie inside an image.
struct Range {
  int64_t first, end;
};

int64_t divide_up(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// The taps of a window that lie on the image.
Range taps_inside(const Taps& along, int64_t place) {
  const int64_t start = place * along.stride - along.before;
  const int64_t first = std::clamp<int64_t>(divide_up(-start, along.hole), 0, along.taps);
  return {first, std::clamp<int64_t>(divide_up(along.size - start, along.hole), first, along.taps)};
}

// The places of the result whose windows lie on the image whole.
Range places_inside(const Taps& along) {
  const int64_t first = std::min(divide_up(along.before, along.stride), along.made);
  const int64_t last = along.size - 1 - (along.taps - 1) * along.hole + along.before;
  return {first, last < 0 ? first : std::clamp<int64_t>(last / along.stride + 1, first, along.made)};
}

struct Row {
  const Taps& columns;
  Range rows, whole;     // of taps along the other dimension; of windows that lie on the image
  int64_t image_row;     // from one row of taps to the next, in numbers of the image
  int64_t panel_width;   // of a tap's weights
  int64_t channels;
  const float *image, *weights, *added;  // the image's row of tap 0, which may be outside
  float* result;
};

// Adds to `sums` what some taps of kPlaces windows, the next of which is `apart` numbers away, read along one row.
template <int kWidth, int kPlaces, int kVectors>
EDGEX_INLINE void add_taps(typename Register<kWidth>::Type (*sums)[kVectors], const float* image, const float* weights,
                           Range taps, int64_t apart, int64_t hole, int64_t panel_width) {
  using Vector = typename Register<kWidth>::Type;
  image += taps.first * hole;
  weights += taps.first * panel_width;
  for (int64_t x = taps.first; x < taps.end; x++, image += hole, weights += panel_width) {
    Vector factors[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) factors[j] = *reinterpret_cast<const Vector*>(weights + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kPlaces; i++) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; j++) {
        sums[i][j] += factors[j] * *reinterpret_cast<const Vector*>(image + i * apart + j * kWidth);
      }
    }
  }
}

// Windows that follow each other: their sums stay in registers. At the border, the taps that all of them have come first,
// then those of each one alone.
template <int kWidth, int kPlaces, int kVectors, bool kBorder>
EDGEX_INLINE void convolve_tile(const Row& row, int64_t place, int64_t channel) {
  using Vector = typename Register<kWidth>::Type;
  const Taps& along = row.columns;
  Vector sums[kPlaces][kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; j++) {
    Vector start = {};
    if (row.added != nullptr) start = *reinterpret_cast<const Vector*>(row.added + channel + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kPlaces; i++) sums[i][j] = start;
  }
  const int64_t apart = along.stride * along.step, hole = along.hole * along.step;
  const int64_t start = (place * along.stride - along.before) * along.step + channel;
  Range shared{0, along.taps};
  Range inside[kPlaces];
  if constexpr (kBorder) {
    for (int i = 0; i < kPlaces; i++) {
      inside[i] = taps_inside(along, place + i);
      shared = {std::max(shared.first, inside[i].first), std::min(shared.end, inside[i].end)};
    }
    shared.end = std::max(shared.first, shared.end);
  }
  for (int64_t y = row.rows.first; y < row.rows.end; y++) {
    const float* const image = row.image + (y * row.image_row + start);
    const float* const weights = row.weights + y * along.taps * row.panel_width + channel;
    add_taps<kWidth, kPlaces, kVectors>(sums, image, weights, shared, apart, hole, row.panel_width);
    if constexpr (kBorder) {
#pragma GCC unroll 8
      for (int i = 0; i < kPlaces; i++) {
        const Range ahead{inside[i].first, std::min(shared.first, inside[i].end)};
        const Range behind{std::max(shared.end, inside[i].first), inside[i].end};
        add_taps<kWidth, 1, kVectors>(sums + i, image + i * apart, weights, ahead, apart, hole, row.panel_width);
        add_taps<kWidth, 1, kVectors>(sums + i, image + i * apart, weights, behind, apart, hole, row.panel_width);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPlaces; i++) {
    float* const to = row.result + (place + i) * along.result_step + channel;
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; j++) *reinterpret_cast<Vector*>(to + j * kWidth) = sums[i][j];
  }
}

template <int kWidth, int kPlaces, int kVectors>
EDGEX_INLINE void convolve_places(const Row& row, int64_t place, int64_t channel) {
  if (place >= row.whole.first && place + kPlaces <= row.whole.end) {
    convolve_tile<kWidth, kPlaces, kVectors, false>(row, place, channel);
  } else {
    convolve_tile<kWidth, kPlaces, kVectors, true>(row, place, channel);
  }
}

// Channels from `channel` on in registers of a width, as many of them at once as kVectors says. Places that are left are
// computed with some before them once more: a sum by itself waits for its last number longest.
template <int kWidth, int kPlaces, int kVectors>
EDGEX_INLINE int64_t convolve_channels(const Row& row, int64_t channel) {
  constexpr int kFew = 4;
  const int64_t made = row.columns.made;
  for (; channel + kWidth * kVectors <= row.channels; channel += kWidth * kVectors) {
    for (int64_t place = 0; place < made;) {
      if (made >= kPlaces && made - place > kFew) {
        convolve_places<kWidth, kPlaces, kVectors>(row, std::min(place, made - kPlaces), channel);
        place += kPlaces;
      } else if (made >= kFew) {
        convolve_places<kWidth, kFew, kVectors>(row, std::min(place, made - kFew), channel);
        place += kFew;
      } else {
        convolve_places<kWidth, 1, kVectors>(row, place++, channel);
      }
    }
  }
  return channel;
}

// A processor's register, and the tile whose sums, weights and one number fit into its registers.
template <int kRegister, int kPlaces, int kVectors>
EDGEX_INLINE void convolve_all(const Row& row) {
  int64_t at = convolve_channels<kRegister, kPlaces, kVectors>(row, 0);
  at = convolve_channels<kRegister, kPlaces, 1>(row, at);
  convolve_channels<1, kPlaces, 1>(row, at);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void convolve_avx512(const Row& row) { convolve_all<16, 8, 2>(row); }
__attribute__((target("avx2,fma"))) void convolve_avx2(const Row& row) { convolve_all<8, 6, 2>(row); }
#endif
void convolve_plain(const Row& row) { convolve_all<4, 6, 2>(row); }

using Convolve = void (*)(const Row&);

Convolve choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return convolve_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return convolve_avx2;
#endif
  return convolve_plain;
}

Row describe(const ChannelWindow& window, int64_t row, int64_t channels, const float* image, const float* weights,
             const float* added, float* result) {
  const Taps& rows = window.rows;
  const int64_t start = row * rows.stride - rows.before;
  return {window.columns,        taps_inside(rows, row), places_inside(window.columns),
          rows.hole * rows.step, pad_to_lanes(channels), channels,
          image + start * rows.step, weights, added, result + row * rows.result_step};
}

}  // namespace

void convolve_row(const ChannelWindow& window, int64_t row, int64_t channels, const float* image, const float* weights,
                  const float* added, float* result) {
  static const Convolve convolve = choose();
  convolve(describe(window, row, channels, image, weights, added, result));
}

}  // namespace edgex

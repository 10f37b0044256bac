// Engine: the sliding window with any seven taps, and which variant of the Gaussian blur is the
// default for a problem.
#pragma once

#include "gaussian_blur/tiles.cuh"
#include "image/engine_lane_per_row.cuh"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// Taps, packed as four bytes per word: `along` the row, taps 0 to 3 and 4 to 6; `down` the columns,
// taps 5, 6, 3, 4 and 1, 2, none, 0. A sum of products is divided by the square of the taps' sum,
// by multiplication by a reciprocal and a shift.
struct TapOptions {
  unsigned along[2], down[2];
  unsigned reciprocal;
  int shift;
};

TapOptions tap_options(const int* given) {
  constexpr int kTaps = GaussianBlur::kTaps, kNone = kTaps;
  unsigned taps[kTaps + 1] = {}, sum = 0;
  for (int i = 0; i < kTaps; ++i) sum += static_cast<unsigned>(given[i]);
  // A single non-zero tap only moves pixels, independent of its value. It is replaced by 2, because
  // a tap of 256 does not fit into a byte, and the reciprocal of 1 does not fit into 32 bits.
  const bool single = std::count(given, given + kTaps, 0) == kTaps - 1;
  for (int i = 0; i < kTaps; ++i)
    taps[i] = single ? 2 * (given[i] > 0) : static_cast<unsigned>(given[i]);
  if (single) sum = 2;
  const auto word = [&](int a, int b, int c, int d) {
    return taps[a] | taps[b] << 8 | taps[c] << 16 | taps[d] << 24;
  };
  // Exact for sums of products up to 255 * divisor, because the error of the reciprocal then adds
  // less than the distance to the next integer.
  const std::uint64_t divisor = std::uint64_t{sum} * sum;
  int shift = 0;
  while (std::uint64_t{1} << (32 + shift) <= 255 * divisor * divisor) ++shift;
  const std::uint64_t reciprocal = ((std::uint64_t{1} << (32 + shift)) + divisor - 1) / divisor;
  return {{word(0, 1, 2, 3), word(4, 5, 6, kNone)},
          {word(5, 6, 3, 4), word(1, 2, kNone, 0)},
          static_cast<unsigned>(reciprocal),
          shift};
}

// Gaussian blur with any seven taps. Along the rows, it uses dot products of bytes as above. Down
// the columns, the sums of two pixels do not fit into one register, so each pixel takes four dot
// products of pairs of rows:
//
//   seven rows, newest last    i-6  i-5  i-4  i-3  i-2  i-1   i
//   tap                         0    1    2    3    4    5    6
//                              (    early    ) (3    4)  (5   6)
template <int kWords>
class GaussianAnyTapsStage {
 public:
  static constexpr int kRadius = 3;
  using Options = TapOptions;

  // In bands from the bottom up, rows arrive in reverse order, so the taps are reversed, too.
  __device__ GaussianAnyTapsStage(int direction, const Options& options) : taps_(options) {
    if (direction > 0) return;
    taps_.down[0] = __byte_perm(options.along[0], options.along[1], 0x2301);
    taps_.down[1] = __byte_perm(options.along[0], options.along[1], 0x6745);
  }

  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& in) {
    const int now = step % 4, last = (step + 3) % 4, earlier = (step + 2) % 4;
    PackedPixels<kWords> out = {};
#pragma unroll
    for (int pixel = 0; pixel < 4 * kWords; ++pixel) {
      const unsigned row = __dp4a(in.four_from(pixel - 3), taps_.along[0],
                                  __dp4a(in.four_from(pixel + 1), taps_.along[1], 0u));
      const unsigned pair = __byte_perm(pairs_[last][pixel], row, 0x5432);
      const unsigned before = pairs_[earlier][pixel];
      const unsigned sum =
          __dp2a_lo(pair, taps_.down[0], __dp2a_hi(before, taps_.down[0], early_[now][pixel]));
      early_[now][pixel] = __dp2a_lo(pair, taps_.down[1], __dp2a_hi(before, taps_.down[1], 0u));
      pairs_[now][pixel] = pair;
      out.at[pixel / 4] |= __umulhi(sum, taps_.reciprocal) >> taps_.shift << (8 * (pixel % 4));
    }
    return out;
  }

 private:
  Options taps_;
  unsigned pairs_[4][4 * kWords] = {};  // sums along two rows, the earlier row in the lower half
  unsigned early_[4][4 * kWords] = {};  // products of the first three taps, for four rows later
};

#endif

const char* why_not_options(const GaussianBlur& p) {
  return p.border == Border::kConstant && p.default_taps()
             ? nullptr
             : "only border=\"constant\" and the default taps are supported";
}

// Shapes of the sliding window. With 16 pixels per lane, the fewest halo pixels are loaded per row,
// but the image must be large: 2560 x 1600 pixels take 8.6 us with 16 and 8.3 us with eight (H200,
// 2026). The other values were the fastest tried on an H200.
constexpr WindowTuning blur_tuning(int words, RowStart start, bool extends, bool any_taps) {
  const bool large = words == 4, aligned = start == RowStart::kVectors;
  return {.ring_rows = any_taps || (large && extends) || !aligned ? 4 : 8,
          .blocks = any_taps || (large && (extends || !aligned)) ? 4
                    : large                                      ? 5
                    : words == 2 && !aligned                     ? 6
                                                                 : 8,
          .warps = large ? 12 : 10,
          .tail_percent = aligned ? 0 : 80};
}

template <int kWords, RowStart kStart, bool kExtends, bool kAnyTaps_ = false>
struct BlurShape
    : WindowShape<GaussianBlur,
                  SlidingWindow{.words = kWords, .in = kStart, .out = kStart, .extends = kExtends},
                  blur_tuning(kWords, kStart, kExtends, kAnyTaps_)> {
  static constexpr bool kAnyTaps = kAnyTaps_;
};

RowStart row_start_of(const GaussianBlur& p) {
  return std::min(row_start(p.gray, p.cols()), row_start(p.out, p.cols()));
}

// 89 x 53 pixels take 5.9 us with `separable` and 6.6 us with `two_pixels`. 300 x 301 pixels
// take 6.3 us, 6.9 us and, with `float_taps`, 7.3 us (H200, L2 flushed, 2026).
const char* why_separable_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  return why_not_options(p) == nullptr &&
                 pixels_of_tiles<1, 1>(p, {kBlockCols, kTwoPassBlockRows}) <= kVeryFewPixels.on(gpu)
             ? "separable is faster for very small images"
             : nullptr;
}

// For 676 x 615 pixels, `float_taps` takes 6.8 us, `dot_product` 26.9 us and the sliding
// window 11.6 us. For 1081 x 1923 pixels, they take 13.4, 25.1 and 13.1 us (H200, L2 flushed,
// 2026).
const char* why_float_taps_is_faster(const GaussianBlur& p, const Hardware& gpu) {
  if (const char* const reason = why_separable_is_faster(p, gpu)) return reason;
  return why_not_options(p) == nullptr && row_start_of(p) != RowStart::kVectors &&
                 pixels_of_tiles<2, 2>(p, {kBlockCols, kTwoPassBlockRows}) < kFewTilePixels.on(gpu)
             ? "float_taps is faster for small images with unaligned rows"
             : nullptr;
}

const char* why_not_blur_lanes(const GaussianBlur& p) {
  const char* const reason = why_not_options(p);
  return reason != nullptr ? reason : why_not_lanes(p);
}

const char* why_lanes_are_slower(const GaussianBlur& p, const Hardware& gpu) {
  // A tile of a block is wider than a narrow image, so most threads of `float_taps` are idle.
  const bool narrow = p.cols() <= kMaxRowCols;
  const char* const reason = narrow ? why_separable_is_faster(p, gpu) : why_float_taps_is_faster(p, gpu);
  return reason != nullptr ? reason : why_lanes_slower(p, gpu, row_start_of(p));
}

// Calls `visit` with the shape for a problem.
constexpr auto with_shape = [](const GaussianBlur& p, const Hardware& gpu, auto visit) {
  const RowStart start = row_start_of(p);
  const bool extends = p.border != Border::kConstant,
             many = has_many_pixels(p, start == RowStart::kVectors, gpu);
  const auto with_general_start = [&](auto general) {
    return start == RowStart::kVectors ? general(kRowStart<RowStart::kVectors>)
                                       : general(kRowStart<RowStart::kBytes>);
  };
  if (!p.default_taps())
    return with_general_start([&](auto start) {
      return extends ? visit(BlurShape<2, start, true, true>{})
                     : visit(BlurShape<2, start, false, true>{});
    });
  if (extends)
    return with_general_start([&](auto start) {
      return many ? visit(BlurShape<4, start, true>{}) : visit(BlurShape<2, start, true>{});
    });
  if (p.cols() <= kNarrowCols) return visit(BlurShape<1, RowStart::kBytes, false>{});
  return with_row_start(start, [&](auto start) {
    return many ? visit(BlurShape<4, start, false>{}) : visit(BlurShape<2, start, false>{});
  });
};

#ifdef __CUDACC__

template <class Shape>
void launch_window(const GaussianBlur& p, const Launch& go) {
  const auto start = [&](auto kernel, auto options) {
    launch(go, kernel, p.gray.as<const std::uint8_t>(), p.border, p.out.as<std::uint8_t>(),
           bands_of<Shape>(p, go.hardware), options);
  };
  if constexpr (Shape::kAnyTaps) {
    start(sliding_window<Shape, GaussianAnyTapsStage<Shape::kWords>>, tap_options(p.taps));
  } else {
    using Stage = GaussianStage<Shape::kWords>;
    start(sliding_window<Shape, Stage>, typename Stage::Options{});
  }
}

#endif

}  // namespace
}  // namespace ado::cuda

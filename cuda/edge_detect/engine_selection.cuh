// Engine: the shapes of the fused step, and which pipeline is the default for narrow images.
#pragma once

#include "image/engine_bands.cuh"
#include "routines/edge_detect.hpp"

namespace ado::cuda {
namespace {

// With four rows in the ring instead of eight, the kernel takes 337 us instead of 329. With bands
// of 16 rows, in which a third of the loaded rows are halo rows, it takes 409 us. Five blocks per
// multiprocessor leave 96 registers per thread. With six, registers spill and the kernel takes 392
// us (16384 x 16384 pixels of four channels, H200, 2026).
//
// kWide: a warp has lanes of at most two bands, and a block needs 34 KiB of shared memory for eight
// rows instead of 41 KiB. Five blocks then leave 60 KiB for L1 instead of 28 KiB.
template <int kChannels, int kWords, RowStart kIn, RowStart kOut, bool kWide = false>
using FusedShape =
    WindowShape<EdgeDetect,
                SlidingWindow{
                    .channels = kChannels, .words = kWords, .in = kIn, .out = kOut, .wide = kWide},
                WindowTuning{.ring_rows = kIn == RowStart::kVectors ? 8 : 4,
                             .blocks = kOut == RowStart::kVectors ? (kWords == 1 ? 8 : 5)
                                                                  : (kWords == 1 ? 6 : 4),
                             .warps = 11,
                             .tail_percent = kOut == RowStart::kVectors ? 0 : 80}>;

// Images with fewer pixels have too few warps with eight pixels per lane: 1600 x 2560 pixels take
// 13.8 us with four pixels per lane and 14.2 us with eight (H200, 2026).
constexpr MeasuredOnH200 kFewPixels{6 << 20};

// Calls `visit` with the shape for a problem.
template <int kWords, class Visit>
auto with_shape_of_words(const EdgeDetect& p, Visit visit) {
  const RowStart in = row_start(p.rgba, p.cols() * p.channels());
  const RowStart out = row_start(p.out, p.cols(), 4 * kWords);
  if (std::min(in, out) == RowStart::kVectors && p.cols() >= kWarpSize * 4 * kWords)
    return p.channels() == 3
               ? visit(FusedShape<3, kWords, RowStart::kVectors, RowStart::kVectors, true>{})
               : visit(FusedShape<4, kWords, RowStart::kVectors, RowStart::kVectors, true>{});
  if (p.channels() == 3)
    return with_row_start(std::min(in, out),
                          [&](auto start) { return visit(FusedShape<3, kWords, start, start>{}); });
  if (in == RowStart::kBytes)
    return visit(FusedShape<4, kWords, RowStart::kBytes, RowStart::kBytes>{});
  return with_row_start(std::min(in, out), [&](auto start) {
    constexpr RowStart kOfWords = start == RowStart::kVectors ? start : RowStart::kWords;
    return visit(FusedShape<4, kWords, kOfWords, start>{});
  });
}

constexpr auto with_shape = [](const EdgeDetect& p, const Hardware& gpu, auto visit) {
  if (p.cols() <= kNarrowCols || p.out.elements() < kFewPixels.on(gpu))
    return with_shape_of_words<1>(p, visit);
  return with_shape_of_words<2>(p, visit);
};

// In narrow images, most lanes of a band of `fused` are outside the image or separate two bands.
// With three channels, lanes also load more bytes that other lanes need. The limits follow from
// times of `fused` and of lane_per_row in sobel and gaussian_blur on an H200.
const char* why_narrow_is_slower(const EdgeDetect& p, const Hardware& gpu) {
  constexpr Tuned<std::int64_t> kMaxColsRgb{.value = 16, .device = "H200"},
      kMaxCols{.value = 8, .device = "H200"};
  constexpr MeasuredOnH200 kFewNarrowPixels{1 << 20};
  if (p.cols() > (p.channels() == 3 ? kMaxColsRgb : kMaxCols).on(gpu))
    return "fused moves fewer bytes, and rows are wide enough for several lanes";
  return p.out.elements() < kFewNarrowPixels.on(gpu)
             ? "the image is so small that three launches are slower than one"
             : nullptr;
}

}  // namespace
}  // namespace ado::cuda

// Bands: the parts of an image that the sliding window processes from one end to the other, and
// their resource usage.
//
//              lanes of a row, each a few pixels wide
//            +--+--+--+--+--+--+--+--+--+
//   band 0   |  |  |  |  |  |  |  |  |  |    even bands: from the top row down
//            |  v  |  v  |  v  |  v  |  |
//            +--+--+--+--+--+--+--+--+--+
//   band 1   |  ^  |  ^  |  ^  |  ^  |  |    odd bands: from the bottom row up
//            |  |  |  |  |  |  |  |  |  |
//            +--+--+--+--+--+--+--+--+--+
//
// The lanes of all bands of all images are numbered consecutively, and warps take them in this
// order. So a warp may contain the end of a band and the beginning of the next one, and few lanes
// have nothing to do, whatever the width of the image. The lanes of a warp that belong to one band
// are a segment.
//
// A lane also loads `radius` rows above and below its band. Directions alternate, so that the two
// bands at a seam load the rows of the seam at about the same time, and DRAM is read once for both.
#pragma once

#include <algorithm>
#include <type_traits>

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "common/warp.cuh"
#include "core/array.hpp"

namespace ado::cuda {

inline constexpr Extent kWindowBlock{128};  // four warps with consecutive lanes

// Tuned on an H200 (132 multiprocessors). The grid is computed before the device is known, so the
// height of a band does not adapt to the device. The results are the same on every device. On other
// devices, the end of the kernel, when few blocks are left to run, may take longer.
inline constexpr int kTunedMultiprocessors = 132;

// Images with at least this many pixels have enough bands for 16 pixels per lane. Tuned on an H200.
inline constexpr std::int64_t kManyPixels = 1 << 24;

// In rows with at most this many columns, a lane has four pixels.
inline constexpr std::int64_t kNarrowCols = 24;

// Multiples at which all rows of an array begin, in bytes. In `kVectors`, rows also end there.
enum class RowStart { kBytes = 1, kWords = 4, kVectors = 16 };

template <RowStart kStart>
inline constexpr std::integral_constant<RowStart, kStart> kRowStart;

// Calls `visit` with `start` as a constant.
template <class Visit>
auto with_row_start(RowStart start, Visit visit) {
  return start == RowStart::kVectors ? visit(kRowStart<RowStart::kVectors>)
         : start == RowStart::kWords ? visit(kRowStart<RowStart::kWords>)
                                     : visit(kRowStart<RowStart::kBytes>);
}

// Where all lanes of a warp are. What a warp does not need is not compiled into its loop.
enum class Place {
  kInside,    // not at the beginning or end of a row: nothing has to be masked
  kAtEnds,    // some lanes are at the beginning or end of a row
  kAnywhere,  // in addition, vectors could be outside the array, or rows shorter than a lane
};
template <Place kPlace>
using AtPlace = std::integral_constant<Place, kPlace>;

// Compile-time configuration of the kernel.
struct SlidingWindow {
  int channels = 1;
  int words;               // words of four packed pixels per lane
  int radius;              // rows and columns on either side that all stages together need
  RowStart in, out;        // kVectors for `out`: multiples of the pixels of a lane
  bool halo_words = true;  // true: every lane also loads the words beside its own. false:
                           // neighbours come by shuffle, and the outer lanes of a warp only serve
                           // the others. A second stage always needs the latter.
  bool extends = false;    // true: the border extends the image. false: zeros surround it
  int min_lanes = 8;       // per row. Rows with fewer pixels leave lanes idle.
  int ring_rows = 4;       // rows in the shared-memory ring; all but one are in flight
  int blocks;              // per multiprocessor; limits the registers per thread
  int warps;               // per multiprocessor; bands become lower until there are this many
  int max_rows;            // approximate limit of a band's height
};

template <SlidingWindow kWindow>
struct WindowShape {
  static constexpr int kChannels = kWindow.channels, kWords = kWindow.words;
  static constexpr int kRadius = kWindow.radius;
  static constexpr RowStart kIn = kWindow.in, kOut = kWindow.out;
  static constexpr bool kHaloWords = kWindow.halo_words, kExtends = kWindow.extends;
  static constexpr int kRingRows = kWindow.ring_rows, kBlocks = kWindow.blocks;
  static constexpr int kWarps = kWindow.warps, kMaxRows = kWindow.max_rows;

  static constexpr int kPixels = 4 * kWords;  // per lane
  static constexpr bool kAlignedOut = kOut == RowStart::kVectors;
  static constexpr bool kAlignedIn = kIn == RowStart::kVectors;
  // True if the lanes at the ends of a row take more instructions than the others.
  static constexpr bool kHasEdges = !kAlignedIn || !kAlignedOut || kExtends;

  static_assert(!kHaloWords || (kChannels == 1 && kRadius <= 4), "a side has one word");
  static_assert(kHaloWords || kRadius <= kPixels, "one lane on each side serves the others");
  static_assert(!kExtends || kHaloWords, "the pixels outside are inserted into the halo words");
  static_assert((kWords & (kWords - 1)) == 0, "vectors are shifted by powers of two");

  // True if lanes load whole vectors of RGBA pixels even if rows begin between vectors, and move
  // the luminances instead.
  static constexpr bool kMovesGray = kChannels == 4 && kIn == RowStart::kWords;

  // The lanes that store are kFirstLane to kLastLane. In unaligned rows, a stored vector combines
  // the pixels of a lane and of its right neighbour. The moved
  // luminances of the last lane lack its right neighbour, too.
  static constexpr int kFirstLane = kHaloWords ? 0 : 1;
  static constexpr int kLastLane = kWarpSize - 1 - (kHaloWords ? 0 : 1) - (kAlignedOut ? 0 : 1) -
                                   (kMovesGray && kWords == 1 ? 1 : 0);
  static constexpr int kStoringLanes = kLastLane - kFirstLane + 1;

  // Without halo words, one lane outside the image separates two bands: its pixels are zero.
  static constexpr int kSeparators = kHaloWords ? 0 : 1;
  static constexpr int kMinLanes = kWindow.min_lanes;

  // Bytes of a lane in a row: kHalo before its own, its own, and kHalo after them. They begin
  // anywhere in a vector, but at most at byte kLastStart.
  static constexpr int kLaneBytes = kPixels * kChannels, kHalo = kHaloWords ? 4 : 0;
  static constexpr bool kWholeVectors = kLaneBytes % kVectorBytes == 0;
  static constexpr int kLastStart = kIn == RowStart::kBytes ? kVectorBytes - 1
                                    : !kAlignedIn           ? kVectorBytes - 4
                                    : kWholeVectors         ? (kVectorBytes - kHalo) % kVectorBytes
                                                            : kVectorBytes - 4;
  // Vectors that contain them. Every lane copies the first ones, which are enough for the next lane
  // to continue. The last lane of a segment copies all.
  static constexpr int kOwnVectors = (kLaneBytes + kVectorBytes - 1) / kVectorBytes;
  static constexpr int kAllVectors =
      kMovesGray ? kOwnVectors
                 : (kLastStart + kLaneBytes + 2 * kHalo + kVectorBytes - 1) / kVectorBytes;

  // A slot of the ring has one row per segment, with kPadVectors between segments.
  static constexpr int kMaxSegments = (kWarpSize - 2 + kMinLanes) / kMinLanes + 1;
  static constexpr int kPadVectors = kLaneBytes % 8 == 0 ? 2 : 3;
  static constexpr int kSlotBytes =
      kWarpSize * kLaneBytes + kMaxSegments * kPadVectors * kVectorBytes;
  static constexpr int kRingBytes = kRingRows * kSlotBytes;  // per warp

  // Unrolled iterations. The number is a multiple of the length of every ring, so that ring
  // positions are compile-time constants.
  static constexpr int kUnrolled = kRingRows > 4 ? kRingRows : 4;
  static_assert(kUnrolled % 4 == 0 && kUnrolled % kRingRows == 0);
};

// The bands of a batch, `height` rows each.
struct Bands {
  std::int64_t images, rows, cols;
  std::int64_t lanes;  // of a row
  std::int64_t down;   // bands per image
  int height;

  ADO_HOST_DEVICE std::int64_t all_lanes() const { return images * down * lanes; }
};

// Bands of at most the given height.
template <class Shape, class Routine>
Bands bands_of_height(const Routine& p, std::int64_t height) {
  Bands b{
      .images = p.images(), .rows = p.rows(), .cols = p.cols(), .lanes = 0, .down = 0, .height = 0};
  if (b.images == 0 || b.rows == 0 || b.cols == 0) return b;
  b.lanes = std::max<std::int64_t>(ceil_div(b.cols, Shape::kPixels) + Shape::kSeparators,
                                   Shape::kMinLanes);
  b.down = ceil_div(b.rows, height);
  b.height = static_cast<int>(ceil_div(b.rows, b.down));
  return b;
}

// Makes bands as high as possible, within limits, while there are enough warps for the device. A
// band of h rows loads h + 2 kRadius rows, so low bands load more rows in total. With high bands,
// few blocks run for a long time at the end. Lower bands in the last quarter of an image, or a
// number of bands that fills the multiprocessors evenly, gained nothing.
template <class Shape, class Routine>
Bands bands_of(const Routine& p) {
  constexpr std::int64_t kMinRows = 4;
  constexpr double kWarps = kTunedMultiprocessors * Shape::kWarps;
  const Bands rows = bands_of_height<Shape>(p, 1);
  const double even = static_cast<double>(rows.all_lanes()) / Shape::kStoringLanes / kWarps;
  std::int64_t height = even < kMinRows          ? kMinRows
                        : even < Shape::kMaxRows ? static_cast<std::int64_t>(even)
                                                 : Shape::kMaxRows;
  // Whole iterations of the unrolled loop.
  height = ceil_div(height + 2 * Shape::kRadius, Shape::kUnrolled) * Shape::kUnrolled -
           2 * Shape::kRadius;
  return bands_of_height<Shape>(p, height);
}

// Variants of the filters that start a block per tile are faster than the sliding window if the
// tiles have fewer pixels than this: a warp of the sliding window takes 5 us and more for one band.
// Measured on an H200: 4.9 against 5.8 us for 16 images of 224 x 224 pixels.
inline constexpr double kFewTilePixels = 1 << 21;

// The multiple at which all rows of an array begin, up to `vector` bytes.
inline RowStart row_start(const Array& array, std::int64_t row_bytes, int vector = kVectorBytes) {
  const auto all_at = [&](int bytes) {
    return row_bytes % bytes == 0 && starts_at_vector(array.data, bytes);
  };
  return all_at(vector) ? RowStart::kVectors : all_at(4) ? RowStart::kWords : RowStart::kBytes;
}

// ---------------------------------------------------------------------------------------------
// Fields of a variant that runs the sliding window. kWithShape calls a visitor with the WindowShape
// for a problem.

template <class Shape>
std::int64_t warps_of(const Bands& b) {
  return ceil_div(b.all_lanes(), Shape::kStoringLanes);
}

template <class Routine, auto kWithShape>
Extent window_grid(const Routine& p, Extent block) {
  return kWithShape(p, [&]<class Shape>(Shape) -> Extent {
    const std::int64_t warps = warps_of<Shape>(bands_of<Shape>(p));
    if (warps == 0) return {};
    return grid_of(ceil_div(warps, block.x / kWarpSize), 1);
  });
}

template <class Routine, auto kWithShape>
std::size_t window_shared_bytes(const Routine& p, Extent block) {
  return kWithShape(
      p, [&]<class Shape>(Shape) { return std::size_t{block.x} / kWarpSize * Shape::kRingBytes; });
}

// Approximate number of requested bytes. Pixels outside the image are not requested. If the border
// extends the image, the rows that replace rows outside the image are requested.
template <class Routine, auto kWithShape>
double window_bytes(const Routine& p) {
  return kWithShape(p, [&]<class Shape>(Shape) -> double {
    const Bands b = bands_of<Shape>(p);
    if (b.down == 0) return 0;
    // A warp loads the bytes of all its lanes, and the halo at its ends.
    constexpr double kPerLane =
        static_cast<double>(kWarpSize * Shape::kLaneBytes +
                            (Shape::kAllVectors - Shape::kOwnVectors) * kVectorBytes) /
        Shape::kStoringLanes;
    const double row = std::max<double>(static_cast<double>(b.cols * Shape::kChannels),
                                        static_cast<double>(b.cols) / Shape::kPixels * kPerLane);
    const std::int64_t rows = b.rows + 2 * Shape::kRadius * (b.down - (Shape::kExtends ? 0 : 1));
    return static_cast<double>(b.images) *
           (static_cast<double>(rows) * row + static_cast<double>(b.rows) * b.cols);
  });
}

// Pixels that a stage processes, including those of halo rows and halo lanes, and of the iterations
// that complete the last unrolled loop of a band.
template <class Routine, auto kWithShape>
double window_pixels(const Routine& p) {
  return kWithShape(p, [&]<class Shape>(Shape) -> double {
    const Bands b = bands_of<Shape>(p);
    if (b.down == 0) return 0;
    const std::int64_t rows =
        ceil_div(b.height + 2 * Shape::kRadius, Shape::kUnrolled) * Shape::kUnrolled;
    return static_cast<double>(warps_of<Shape>(b)) * rows * kWarpSize * Shape::kPixels;
  });
}

#ifdef __CUDACC__

// Quotient of non-negative numbers. Most numbers have 32 bits, and a 64-bit division takes four
// times as long.
__device__ inline std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

// Limits a distance within an image to 32 bits. Larger distances become kFar, which is beyond every
// band.
inline constexpr int kFar = 1 << 24;
__device__ inline int clamp_distance(std::int64_t distance) {
  return static_cast<int>(min(max(distance, std::int64_t{-kFar}), std::int64_t{kFar}));
}

// Where a lane is: its segment, its columns, and the rows of its band in the order of the loads.
struct LaneWalk {
  bool exists;                // false: the lane has nothing to load
  bool first_in_row;          // the left neighbour is outside the image
  bool last_in_segment;       // the right neighbour is in another warp or band
  int segment, segment_lane;  // number of the segment in the warp, and of the lane in the segment
  int end;                    // columns from the first one of the lane to the end of the image
  std::int64_t col, image;
  std::int64_t row;         // the first row that is loaded
  int direction;            // 1: down the image, -1: up
  int count;                // number of rows that are loaded
  int top, bottom;          // loaded row i is inside the image if -top <= i < bottom
  int inside, inside_rows;  // index of the first loaded row inside the image, and their number

  template <class Shape>
  __device__ LaneWalk(const Bands& bands, std::int64_t warp, int lane, Shape) {
    // One row of lanes is added, so that the first lane of the grid has no negative number.
    const std::int64_t start = warp * Shape::kStoringLanes - Shape::kFirstLane + bands.lanes;
    std::int64_t band = divide(start, bands.lanes);
    std::int64_t row_lane = start - band * bands.lanes + lane;
    segment = 0;
    if (bands.lanes >= kWarpSize) {
      if (row_lane >= bands.lanes) segment = 1;
    } else {
      segment = static_cast<int>(row_lane) / static_cast<int>(bands.lanes);
    }
    row_lane -= segment * bands.lanes;
    band += segment - 1;
    segment_lane = static_cast<int>(min(std::int64_t{lane}, row_lane));
    col = row_lane * Shape::kPixels;
    end = clamp_distance(bands.cols - col);
    first_in_row = row_lane == 0;
    last_in_segment = lane == kWarpSize - 1 || row_lane == bands.lanes - 1;

    image = bands.images == 1 ? 0 : divide(max(band, std::int64_t{0}), bands.down);
    // The first vector of a lane beyond the end of a row may contain the last pixels of the row.
    exists = band >= 0 && band < bands.images * bands.down &&
             end * Shape::kChannels + Shape::kHalo > -kVectorBytes;
    band -= image * bands.down;
    const std::int64_t first = band * bands.height;
    const int height = static_cast<int>(min(bands.rows - first, std::int64_t{bands.height}));
    const bool up = band % 2 != 0;
    direction = up ? -1 : 1;
    count = exists ? height + 2 * Shape::kRadius : 0;
    row = up ? first + height - 1 + Shape::kRadius : first - Shape::kRadius;
    top = clamp_distance(up ? bands.rows - 1 - row : row);
    bottom = clamp_distance(up ? row + 1 : bands.rows - row);
    inside = max(-top, 0);
    inside_rows = min(bottom, count) - inside;
    if (!exists) inside_rows = 0;
  }

  // Returns true if the index-th row is inside the image.
  __device__ bool has_row(int index) const {
    return static_cast<unsigned>(index - inside) < static_cast<unsigned>(inside_rows);
  }
};

// Adds `pitch` to `p`. It is written in assembly so that the compiler keeps one pointer. Otherwise,
// it keeps one pointer per iteration of an unrolled loop, which takes registers.
template <class T>
__device__ void advance(T*& p, std::int64_t pitch) {
  asm("add.s64 %0, %0, %1;" : "+l"(p) : "l"(pitch));
}

#endif

}  // namespace ado::cuda

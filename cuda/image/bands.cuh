// Bands: the parts of an image that warps process with the sliding window, and their resource
// usage.
//
//              warp 0    warp 1    warp 2
//            +---------+---------+---------+
//   band 0   |    |    |    |    |    |    |   even bands: from the top row down
//            |    v    |    v    |    v    |
//            +---------+---------+---------+
//   band 1   |    ^    |    ^    |    ^    |   odd bands: from the bottom row up
//            |    |    |    |    |    |    |
//            +---------+---------+---------+
//
// A warp also loads `radius` rows above and below its band. Directions alternate, so that the two
// bands at a seam load the rows of the seam at about the same time, and DRAM is read once for both.
#pragma once

#include <algorithm>

#include "common/grid.cuh"
#include "common/vector.cuh"
#include "common/warp.cuh"
#include "core/array.hpp"

namespace ado::cuda {

// Sources of the three rows and columns just before an image ([0]) and just after it ([1]), if the
// border extends the image. For a row: the distance to the row that is loaded instead. For a
// column: its byte in the slot of the row. For example, replication loads the first row for the
// three rows above it, so their distances are one, two and three.
struct BorderTable {
  static constexpr int kOutside = 3;  // entries in use; a fourth one completes a vector
  int rows[2][4], cols[2][4];
};

inline constexpr Extent kWindowBlock{128};  // four warps side by side

// Tuned on an H200 (132 multiprocessors). The grid is computed before the device is known, so the
// height of a band does not adapt to the device. The results are the same on every device. On other
// devices, the end of the kernel, when few blocks are left to run, may take longer.
inline constexpr int kTunedMultiprocessors = 132;

// Images with at least this many pixels have enough bands for 16 pixels per lane. Tuned on an H200.
inline constexpr std::int64_t kManyPixels = 1 << 24;

// Compile-time configuration of the kernel.
struct SlidingWindow {
  int channels = 1;
  int words;               // words of four packed pixels per lane
  int radius;              // rows and columns on either side that all stages together need
  bool aligned;            // arrays begin at multiples of 16 bytes and rows at multiples of the
                           // pixels of a lane
  bool halo_words = true;  // true: every lane also loads the words beside its own, so that all
                           // lanes store. false: neighbours come by shuffle, and the outer lanes
                           // only serve the others. A second stage always needs the latter.
  bool extends = false;    // true: the border extends the image. false: zeros surround it
  int ring_rows = 4;       // rows in the shared-memory ring; all but one are in flight
  int blocks;              // per multiprocessor; limits the registers per thread
  int max_rows;            // approximate limit of a band's height
};

template <SlidingWindow kWindow>
struct WindowShape {
  static constexpr int kChannels = kWindow.channels, kWords = kWindow.words;
  static constexpr int kRadius = kWindow.radius;
  static constexpr bool kAligned = kWindow.aligned, kHaloWords = kWindow.halo_words;
  static constexpr bool kExtends = kWindow.extends;
  static constexpr int kRingRows = kWindow.ring_rows, kBlocks = kWindow.blocks;
  static constexpr int kMaxRows = kWindow.max_rows;

  // Each lane reads kSideWords, then its own kOwnWords, then kSideWords again per row.
  static constexpr int kPixels = 4 * kWords;  // per lane
  static constexpr int kOwnWords = kWords * kChannels, kSideWords = kHaloWords ? 1 : 0;
  static constexpr int kAllWords = kOwnWords + 2 * kSideWords;

  static_assert(!kHaloWords || (kChannels == 1 && kRadius <= 4), "a side has one word");
  static_assert(kHaloWords || kRadius <= kPixels, "one lane on each side serves the others");
  static_assert(!kExtends || (kHaloWords && kRadius <= BorderTable::kOutside),
                "the border table has no more entries");
  static_assert(kAligned || (kWords & (kWords - 1)) == 0, "vectors are shifted by powers of two");

  // The lanes that store are kFirstLane to kLastLane. In unaligned rows, a stored vector combines
  // the pixels of two lanes.
  static constexpr int kFirstLane = (kHaloWords ? 0 : 1) + (kAligned ? 0 : 1);
  static constexpr int kLastLane = kHaloWords ? kWarpSize - 1 : kWarpSize - 2;
  static constexpr int kBandCols = (kLastLane - kFirstLane + 1) * kPixels;  // that a warp stores

  // True if the first byte of a row may be at any position in its first vector. Even in aligned
  // rows, the three-byte pixels of a band may start at any position.
  static constexpr bool kShifts = !kAligned || kChannels == 3;
  // Otherwise: the position of the first byte in its vector.
  static constexpr int kFirstByte = kHaloWords ? kVectorBytes - 4 : 0;
  static constexpr int kVectors = static_cast<int>(  // copied per row and warp
      ceil_div(
          4 * (kWarpSize * kOwnWords + 2 * kSideWords) + (kShifts ? kVectorBytes - 1 : kFirstByte),
          kVectorBytes));
  static constexpr int kRingBytes = kRingRows * kVectors * kVectorBytes;       // per warp
  static constexpr int kTableBytes = kExtends ? int{sizeof(BorderTable)} : 0;  // per warp

  // Unrolled iterations. The number is a multiple of the length of every ring, so that ring
  // positions are compile-time constants.
  static constexpr int kUnrolled = kRingRows > 4 ? kRingRows : 4;
  static_assert(kUnrolled % 4 == 0 && kUnrolled % kRingRows == 0);
};

// The bands of a batch, `height` rows each.
struct Bands {
  std::int64_t images, rows, cols;
  std::int64_t across, down;  // bands per image
  int height;
};

// Makes bands as high as possible, within limits, while all of them run at the same time. A band of
// h rows loads h + 2 kRadius rows, so low bands load more rows in total. With high bands, few
// blocks run for a long time at the end. Lower bands in the last quarter of an image, or a number
// of bands that fills the multiprocessors evenly, gained nothing. The lower limit, 10 rows or 3
// kRadius + 1, keeps the additional loads below two rows per three stored rows.
template <class Shape, class Routine>
Bands bands_of(const Routine& p) {
  constexpr std::int64_t kMinRows = std::max(10, 3 * Shape::kRadius + 1);
  constexpr std::int64_t kConcurrent =
      kTunedMultiprocessors * Shape::kBlocks * (kWindowBlock.x / kWarpSize);
  Bands b{.images = p.images(),
          .rows = p.rows(),
          .cols = p.cols(),
          .across = 0,
          .down = 0,
          .height = 0};
  if (b.images == 0 || b.rows == 0 || b.cols == 0) return b;
  b.across = ceil_div(b.cols + (Shape::kAligned ? 0 : Shape::kPixels - 1), Shape::kBandCols);
  const double even = static_cast<double>(b.images) * b.across * b.rows / kConcurrent;
  const std::int64_t height = even < kMinRows          ? kMinRows
                              : even < Shape::kMaxRows ? static_cast<std::int64_t>(even)
                                                       : Shape::kMaxRows;
  // Round up to whole iterations of the unrolled loop.
  b.height =
      static_cast<int>(ceil_div(height + 2 * Shape::kRadius, Shape::kUnrolled) * Shape::kUnrolled -
                       2 * Shape::kRadius);
  b.down = ceil_div(b.rows, b.height);
  return b;
}

// Returns true if all rows of the images start and end at multiples of `pixels`, the number of
// pixels per lane.
inline bool lanes_aligned(const Array& in, const Array& out, int pixels) {
  return out.shape[out.rank - 1] % pixels == 0 && starts_at_vector(in.data) &&
         starts_at_vector(out.data);
}

// ---------------------------------------------------------------------------------------------
// Fields of a variant that runs the sliding window. kWithShape calls a visitor with the WindowShape
// for a problem.

template <class Routine, auto kWithShape>
Extent window_grid(const Routine& p, Extent block) {
  return kWithShape(p, [&]<class Shape>(Shape) -> Extent {
    const Bands b = bands_of<Shape>(p);
    if (b.down == 0) return {};
    return grid_of(ceil_div(b.across, block.x / kWarpSize), b.images * b.down);
  });
}

template <class Routine, auto kWithShape>
std::size_t window_shared_bytes(const Routine& p, Extent block) {
  return kWithShape(p, [&]<class Shape>(Shape) {
    return std::size_t{block.x} / kWarpSize * (Shape::kRingBytes + Shape::kTableBytes);
  });
}

// Approximate number of requested bytes. Pixels outside the image are not requested. If the border
// extends the image, the rows that replace rows outside the image are requested.
template <class Routine, auto kWithShape>
double window_bytes(const Routine& p) {
  return kWithShape(p, [&]<class Shape>(Shape) -> double {
    const Bands b = bands_of<Shape>(p);
    if (b.down == 0) return 0;
    constexpr int kLoaded = Shape::kVectors * kVectorBytes;  // at most, per row of a band
    constexpr int kOverlap = kLoaded - Shape::kBandCols * Shape::kChannels;
    const std::int64_t row =
        std::min(b.cols * Shape::kChannels + (b.across - 1) * kOverlap, b.across * kLoaded);
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
    const auto iterations = [](std::int64_t height) {
      return ceil_div(height + 2 * Shape::kRadius, Shape::kUnrolled) * Shape::kUnrolled;
    };
    const std::int64_t rows =
        (b.down - 1) * iterations(b.height) + iterations(b.rows - (b.down - 1) * b.height);
    return static_cast<double>(b.images * b.across * rows) * kWarpSize * Shape::kPixels;
  });
}

#ifdef __CUDACC__

// --------------------------------------------------------------------------------------------- The
// rows that a block loads, in the order of the loads. All warps of a block have the same rows, so
// all values here are uniform, and loops and shuffles do not diverge.
struct BandWalk {
  std::int64_t image, row;  // the first row that is loaded
  int direction;            // 1: down the image, -1: up
  int count;                // number of rows that are loaded
  int inside, inside_rows;  // index of the first row inside the image, and their number

  __device__ BandWalk(const Bands& bands, int radius) {
    const std::int64_t y = block_y();
    image = y < bands.down ? 0 : y / bands.down;
    const std::int64_t band = y - image * bands.down;
    const std::int64_t first = band * bands.height;
    const int height = static_cast<int>(min(bands.rows - first, std::int64_t{bands.height}));
    const bool up = band % 2 == 1;
    direction = up ? -1 : 1;
    count = image < bands.images ? height + 2 * radius : 0;
    row = up ? first + height - 1 + radius : first - radius;
    // Rows between the first loaded row and the edges of the image.
    const std::int64_t before = up ? row - (bands.rows - 1) : -row;
    const std::int64_t after = up ? row + 1 : bands.rows - row;
    inside = static_cast<int>(max(before, std::int64_t{0}));
    inside_rows = static_cast<int>(min(after, std::int64_t{count})) - inside;
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

// Limits a distance within an image to 32 bits. Larger distances become kFar, which is beyond every
// band.
inline constexpr int kFar = 1 << 24;
__device__ inline int clamp_distance(std::int64_t distance) {
  return static_cast<int>(min(max(distance, std::int64_t{-kFar}), std::int64_t{kFar}));
}

#endif

}  // namespace ado::cuda

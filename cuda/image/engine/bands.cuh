// Engine: bands, the groups of adjacent rows into which the sliding window divides an image. The
// grid, the shared memory and the numbers of bytes and pixels of a variant follow from them.
//
//              lanes of a band, a few columns per lane
//            +--+--+--+--+--+--+--+--+--+
//   band 0   |  |  |  |  |  |  |  |  |  |    even bands: from the top row down
//            |  v  |  v  |  v  |  v  |  |
//            +--+--+--+--+--+--+--+--+--+
//   band 1   |  ^  |  ^  |  ^  |  ^  |  |    odd bands: from the bottom row up
//            |  |  |  |  |  |  |  |  |  |
//            +--+--+--+--+--+--+--+--+--+
//
// The lanes of all bands of all images are numbered consecutively and assigned to warps in this
// order. Therefore, a warp may contain the last lanes of one band and the first lanes of the next
// one, and few lanes are idle for any image width. The lanes of a warp that belong to one band are
// a segment.
//
// A lane also loads `radius` rows above and below its band. Directions alternate, so that the two
// bands at a seam load the rows of the seam at about the same time and DRAM is read only once.
#pragma once

#include <algorithm>
#include <cmath>

#include "image/packed_pixels.cuh"
#include "image/tiles.cuh"

namespace ado::cuda {

inline constexpr Extent kWindowBlock{128};  // four warps with consecutive lanes

// A number of pixels or strips that was measured on an H200. It grows with the multiprocessors,
// because it separates problems that take as long as a few loads from problems that keep all
// multiprocessors busy.
struct MeasuredOnH200 {
  std::int64_t number;
  constexpr std::int64_t on(const Hardware& gpu) const {
    constexpr int kMultiprocessors = 132;
    return number * gpu.multiprocessors / kMultiprocessors;
  }
};

// Images with at least this many pixels have enough warps with 16 pixels per lane. The limit is
// lower for unaligned rows, because with 16 pixels per lane, fewer lanes are at the ends of rows,
// where lanes execute more instructions.
inline constexpr MeasuredOnH200 kManyPixels{1 << 24}, kManyUnalignedPixels{6 << 20};

// In images with fewer columns, 16 pixels per lane would leave most of the eight or more lanes per
// band idle. Images with at most kNarrowCols columns are processed with four pixels per lane.
inline constexpr std::int64_t kFewCols = 128, kNarrowCols = 24;

// Approximate limits of the height of bands: of gray images, of gray images with few columns, and
// of colour images. With few columns, a warp processes several bands at the same time, whose rows
// are far apart in memory: 3000001 x 33 pixels take 236 us with bands of 14 rows, 277 us with 34
// rows (H200, 2026).
inline constexpr int kMaxGrayRows = 34, kMaxNarrowRows = 14, kMaxColourRows = 56;

// All rows of an array begin at multiples of this number of bytes. With kVectors, they also end at
// such multiples.
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

// Position of the lanes of a warp in their rows. The loop over rows is compiled once per position,
// without the checks that this position does not need.
enum class Place {
  kInside,    // no lane is at the beginning or end of a row: no pixels are masked
  kAtEnds,    // some lanes are at the beginning or end of a row
  kAnywhere,  // in addition, vectors may be outside the array, or rows are shorter than a lane
};
template <Place kPlace>
using AtPlace = std::integral_constant<Place, kPlace>;

// The properties of an image that the kernel needs at compile time.
struct SlidingWindow {
  int channels = 1;      // 1: gray. 3 or 4: rows are converted to gray, and two filters follow
  int words;             // words of four packed pixels per lane
  RowStart in, out;      // kVectors for `out`: multiples of the bytes that a lane stores
  bool extends = false;  // true: the border extends the image. false: zeros surround it
  bool wide = false;     // colour images: bands have at least as many lanes as a warp
};

// Found by measurement. More blocks per multiprocessor provide more warps to hide latency but leave
// fewer registers per thread. More rows in the ring keep more copies in flight but leave less
// shared memory for other blocks.
struct WindowTuning {
  int ring_rows;         // rows in the shared-memory ring; all but one are in flight
  int blocks;            // per multiprocessor; limits the registers per thread
  int warps;             // per multiprocessor; bands are made lower to get this many
  int tail_percent = 0;  // see bands_of
};

template <class Routine, SlidingWindow kWindow, WindowTuning kTuning>
struct WindowShape {
  static constexpr int kChannels = kWindow.channels, kWords = kWindow.words;
  static constexpr int kRadius = Routine::kHalo;
  static constexpr RowStart kIn = kWindow.in, kOut = kWindow.out;
  static constexpr bool kExtends = kWindow.extends;
  static constexpr int kRingRows = kTuning.ring_rows, kBlocks = kTuning.blocks;
  static constexpr int kWarps = kTuning.warps, kTailPercent = kTuning.tail_percent;

  // True: every lane also loads the word on either side of its own. False: pixels of neighbours are
  // shuffled, and the outer lanes of a warp do not store.
  static constexpr bool kHaloWords = kChannels == 1;
  static constexpr int kPixels = 4 * kWords;  // per lane
  static constexpr bool kAlignedOut = kOut == RowStart::kVectors;
  static constexpr bool kAlignedIn = kIn == RowStart::kVectors;
  // True if the lanes at the ends of a row execute more instructions than the others.
  static constexpr bool kHasEdges = !kAlignedIn || !kAlignedOut || kExtends;

  static_assert(!kHaloWords || kRadius <= 4, "one halo word per side");
  static_assert(kHaloWords || kRadius <= kPixels, "one lane per side contains the halo");
  static_assert(!kExtends || kHaloWords, "the pixels outside are inserted into the halo words");
  static_assert((kWords & (kWords - 1)) == 0, "vectors are shifted by powers of two");

  // True if each lane loads aligned vectors of RGBA pixels although rows do not begin at vectors,
  // and shifts the luminances instead of the words.
  static constexpr bool kMovesGray = kChannels == 4 && kIn == RowStart::kWords;

  // The lanes kFirstLane to kLastLane store. In unaligned rows, a stored vector combines pixels of
  // a lane and of its right neighbour. With kMovesGray, up to three pixels of the last lane of a
  // warp are invalid, because it has no right neighbour. With one word per lane, the pixels that
  // remain are fewer than the radius.
  static constexpr int kFirstLane = kHaloWords ? 0 : 1;
  static constexpr int kLastLane = kWarpSize - 1 - (kHaloWords ? 0 : 1) - (kAlignedOut ? 0 : 1) -
                                   (kMovesGray && kWords == 1 ? 1 : 0);
  static constexpr int kStoringLanes = kLastLane - kFirstLane + 1;

  // Without halo words, two bands are separated by one lane outside the image. Its pixels are zero.
  static constexpr int kSeparators = kHaloWords ? 0 : 1;
  // The least number of lanes per band. In narrower images, some lanes are idle.
  static constexpr int kMinLanes = kWindow.wide  ? kWarpSize
                                   : kWords == 1 ? 1 + kSeparators
                                                 : 2 * kWords;

  // In each row, a lane reads kHalo bytes before its own bytes, its own kLaneBytes bytes, and kHalo
  // bytes after them. kLastStart: the last byte of a vector at which these bytes may begin.
  static constexpr int kLaneBytes = kPixels * kChannels, kHalo = kHaloWords ? 4 : 0;
  static constexpr bool kWholeVectors = kLaneBytes % kVectorBytes == 0;
  static constexpr int kLastStart = kIn == RowStart::kBytes ? kVectorBytes - 1
                                    : !kAlignedIn           ? kVectorBytes - 4
                                    : kWholeVectors         ? (kVectorBytes - kHalo) % kVectorBytes
                                                            : kVectorBytes - 4;
  // Vectors that contain these bytes. Every lane copies the first kOwnVectors of them. The next
  // lanes copy the others. The last lane of a segment copies all kAllVectors.
  static constexpr int kOwnVectors = (kLaneBytes + kVectorBytes - 1) / kVectorBytes;
  static constexpr int kAllVectors =
      kMovesGray ? kOwnVectors
                 : (kLastStart + kLaneBytes + 2 * kHalo + kVectorBytes - 1) / kVectorBytes;

  // A slot of the ring contains one row per segment. kPadVectors vectors separate segments.
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

// Returns true if 16 pixels per lane are faster than eight.
template <class Routine>
bool has_many_pixels(const Routine& p, bool aligned, const Hardware& gpu) {
  return p.cols() >= kFewCols &&
         p.out.elements() >= (aligned ? kManyPixels : kManyUnalignedPixels).on(gpu);
}

// The bands of a batch, `height` rows each.
struct Bands {
  std::int64_t images, rows, cols;
  std::int64_t lanes;  // per band
  std::int64_t down;   // bands per image
  int height;
  int skipped;  // rows above a band that are not loaded, because all bands begin at the top

  ADO_HOST_DEVICE std::int64_t all_lanes() const { return images * down * lanes; }
};

// Bands of at most the given height.
template <class Shape, class Routine>
Bands bands_of_height(const Routine& p, std::int64_t height) {
  Bands b{.images = p.images(),
          .rows = p.rows(),
          .cols = p.cols(),
          .lanes = 0,
          .down = 0,
          .height = 0,
          .skipped = 0};
  if (b.images == 0 || b.rows == 0 || b.cols == 0) return b;
  b.lanes = std::max<std::int64_t>(ceil_div(b.cols, Shape::kPixels) + Shape::kSeparators,
                                   Shape::kMinLanes);
  b.down = ceil_div(b.rows, height);
  b.height = static_cast<int>(ceil_div(b.rows, b.down));
  if (b.down == 1 && !Shape::kExtends) b.skipped = Shape::kRadius;
  return b;
}

// Makes bands as high as possible, within limits, while there are enough warps for the GPU. A
// band of h rows loads h + 2 kRadius rows, so low bands load more rows in total. High bands extend
// the last phase of the kernel, in which only few blocks run. If the last phase has a share `tail`
// of the time per band, and a warp processes n rows in total, the overhead in rows, 2 kRadius n / h
// + tail h, is smallest at h = sqrt(2 kRadius n / tail). For aligned rows, this limit was not
// faster. Two other changes were also not faster: lower bands in the last quarter of an image, and
// a number of bands that fills the multiprocessors evenly.
template <class Shape, class Routine>
Bands bands_of(const Routine& p, const Hardware& gpu) {
  constexpr double kMinRows = 4;
  const double wanted = static_cast<double>(gpu.multiprocessors) * Shape::kWarps;
  const double warps = static_cast<double>(bands_of_height<Shape>(p, 1).all_lanes()) /
                       Shape::kStoringLanes;  // with bands of one row
  double most = Shape::kChannels > 1  ? kMaxColourRows
                : p.cols() < kFewCols ? kMaxNarrowRows
                                      : kMaxGrayRows;
  if constexpr (Shape::kTailPercent != 0) {
    const double resident =
        static_cast<double>(gpu.multiprocessors) * Shape::kBlocks * (kWindowBlock.x / kWarpSize);
    most = std::min(
        most, std::sqrt(2 * Shape::kRadius * (warps / resident) / (Shape::kTailPercent / 100.0)));
  }
  auto height = static_cast<std::int64_t>(std::max(std::min(warps / wanted, most), kMinRows));
  // Round up to whole iterations of the unrolled loop.
  height = ceil_div(height + 2 * Shape::kRadius, Shape::kUnrolled) * Shape::kUnrolled -
           2 * Shape::kRadius;
  return bands_of_height<Shape>(p, height);
}

// Up to this number of pixels in all tiles, about one per resident thread, one pixel per thread is
// faster than several.
inline constexpr MeasuredOnH200 kVeryFewPixels{1 << 18};

// Filter variants with one block per tile are faster than the sliding window if all tiles together
// have fewer pixels than this, because a warp of the sliding window takes at least 5 us per band
// (H200, 2026).
inline constexpr MeasuredOnH200 kFewTilePixels{1 << 21};

// Returns kVectors if all rows of an array begin and end at multiples of `vector` bytes. Otherwise,
// returns kWords if they do so at multiples of 4 bytes.
inline RowStart row_start(const Array& array, std::int64_t row_bytes, int vector = kVectorBytes) {
  const auto all_at = [&](int bytes) {
    return row_bytes % bytes == 0 && starts_at_vector(array.data, bytes);
  };
  return all_at(vector) ? RowStart::kVectors : all_at(4) ? RowStart::kWords : RowStart::kBytes;
}

// The same for the image and the result of a filter of gray images.
template <class Routine>
RowStart row_start_of(const Routine& p) {
  return std::min(row_start(p.gray, p.cols()), row_start(p.out, p.cols()));
}

// Fields of a variant that runs the sliding window. kWithShape calls a visitor with the WindowShape
// for a problem.

template <class Shape>
std::int64_t warps_of(const Bands& b) {
  return ceil_div(b.all_lanes(), Shape::kStoringLanes);
}

template <class Routine, auto kWithShape>
Extent window_grid(const Routine& p, Extent block, const Hardware& gpu) {
  return kWithShape(p, gpu, [&]<class Shape>(Shape) -> Extent {
    const std::int64_t warps = warps_of<Shape>(bands_of<Shape>(p, gpu));
    if (warps == 0) return {};
    return grid_of(ceil_div(warps, block.x / kWarpSize), 1);
  });
}

template <class Routine, auto kWithShape>
std::size_t window_shared_bytes(const Routine& p, Extent block, const Hardware& gpu) {
  return kWithShape(p, gpu, [&]<class Shape>(Shape) {
    return std::size_t{block.x} / kWarpSize * Shape::kRingBytes;
  });
}

// Approximate number of requested bytes. Pixels outside the image are not requested. If the border
// extends the image, the rows that replace rows outside the image are requested.
template <class Routine, auto kWithShape>
double window_bytes(const Routine& p, const Hardware& gpu) {
  return kWithShape(p, gpu, [&]<class Shape>(Shape) -> double {
    const Bands b = bands_of<Shape>(p, gpu);
    if (b.down == 0) return 0;
    // A warp loads the bytes of all its lanes and the halo at its ends.
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

// Executed FLOPs of gradients. They include halo rows, halo lanes, and the iterations that are
// added to complete the unrolled loop.
template <class Routine, auto kWithShape>
double window_flops(const Routine& p, const Hardware& gpu) {
  return kWithShape(p, gpu, [&]<class Shape>(Shape) -> double {
    const Bands b = bands_of<Shape>(p, gpu);
    if (b.down == 0) return 0;
    const std::int64_t rows =
        ceil_div(b.height + 2 * Shape::kRadius - b.skipped, Shape::kUnrolled) * Shape::kUnrolled;
    return kFlopsOfLength * static_cast<double>(warps_of<Shape>(b)) * rows * kWarpSize *
           Shape::kPixels;
  });
}

#ifdef __CUDACC__

// Quotient of non-negative numbers. Most operands fit in 32 bits, and a 64-bit division takes four
// times as long as a 32-bit division.
__device__ inline std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

// Clamps a distance within an image to the range from -kFar to kFar, so that it fits in 32 bits.
// Bands have fewer than kFar rows, and lanes have fewer than kFar columns.
inline constexpr int kFar = 1 << 24;
__device__ inline int clamp_distance(std::int64_t distance) {
  return static_cast<int>(min(max(distance, std::int64_t{-kFar}), std::int64_t{kFar}));
}

// Position of a lane: its segment, its columns, and the rows of its band in the order in which they
// are loaded.
struct LaneWalk {
  bool exists;                // false: the lane loads nothing
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
    // The number of the first lane of the grid may be negative. Adding the lanes of one band makes
    // it non-negative for the division.
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
    count = exists ? height + 2 * Shape::kRadius - bands.skipped : 0;
    row = up ? first + height - 1 + Shape::kRadius : first - Shape::kRadius + bands.skipped;
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

// Adds `pitch` to `p`. The addition is in assembly, so that the compiler keeps one pointer.
// Otherwise, it keeps one pointer per unrolled iteration, which needs more registers.
template <class T>
__device__ void advance(T*& p, std::int64_t pitch) {
  asm("add.s64 %0, %0, %1;" : "+l"(p) : "l"(pitch));
}

#endif

}  // namespace ado::cuda

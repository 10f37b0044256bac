// How images are cut into strips for marching, and what that asks of a GPU.
#pragma once

#include <algorithm>

#include "common/grid.cuh"
#include "core/array.hpp"

namespace ado::cuda {

// What stands for the three rows and columns just before an image ([0]) and just after it ([1])
// where the border continues it: how many rows away that row is, and how many bytes into a slot
// that column. Replicated, the rows one, two and three before the first are one, two and three rows
// off.
struct BorderTable {
  static constexpr int kOutside = 3;  // of each four; the fourth makes a vector of them
  int rows[2][4], cols[2][4];
};

inline constexpr int kLanes = 32;
inline constexpr int kChunk = 16;          // bytes that one copy to shared memory moves
inline constexpr Extent kMarchBlock{128};  // warps side by side

// Grids are asked for before a device is known, so strips are measured out for this many
// multiprocessors (of an H100 or H200). Elsewhere they give the same pixels; only the end of a
// march, when few blocks are left to run, may be longer there.
inline constexpr int kMultiprocessors = 132;

// From so many pixels on, an image is large enough for sixteen pixels a lane.
inline constexpr std::int64_t kManyPixels = 1 << 24;

// How a march is compiled.
struct Marching {
  int channels = 1;
  int words;             // of four pixels, of a lane
  int reach;             // of all stages together
  bool aligned;          // rows begin at multiples of a chunk, in and out
  bool beside = true;    // the words beside a lane's own come from memory too, so that all lanes
                         // count; otherwise they come by shuffle, and the outer lanes only serve
                         // the others, as they must before a second stage
  bool extends = false;  // the border continues the image; otherwise zeros lie outside
  int ahead = 4;         // slots of the ring: one row less than that is on its way
  int blocks;            // per multiprocessor, for which registers are rationed
  int highest;           // about the most rows that a strip should have
};

template <Marching kMarching>
struct MarchShape {
  static constexpr int kChannels = kMarching.channels, kWords = kMarching.words;
  static constexpr int kReach = kMarching.reach;
  static constexpr bool kAligned = kMarching.aligned, kBeside = kMarching.beside;
  static constexpr bool kExtends = kMarching.extends;
  static constexpr int kAhead = kMarching.ahead, kBlocks = kMarching.blocks;
  static constexpr int kHighest = kMarching.highest;

  static constexpr int kPixels = 4 * kWords;                                   // of a lane
  static constexpr int kOwn = kWords * kChannels, kBesides = kBeside ? 1 : 0;  // words, a side
  static constexpr int kAll = kOwn + 2 * kBesides;

  static_assert(!kBeside || (kChannels == 1 && kReach <= 4), "one word is there on each side");
  static_assert(kBeside || kReach <= kPixels, "one lane on each side serves the others");
  static_assert(!kExtends || (kBeside && kReach <= BorderTable::kOutside), "the table has no more");
  static_assert(kAligned || (kWords & (kWords - 1)) == 0, "vectors are moved by halves");

  // Lanes that store. Where rows begin anywhere, one vector takes pixels of two lanes.
  static constexpr int kFirst = (kBeside ? 0 : 1) + (kAligned ? 0 : 1);
  static constexpr int kLast = kBeside ? kLanes - 1 : kLanes - 2;
  static constexpr int kWidth = (kLast - kFirst + 1) * kPixels;  // of a strip

  // Lanes of three-byte pixels do not begin at multiples of a chunk even where rows do.
  static constexpr bool kShifts = !kAligned || kChannels == 3;
  static constexpr int kPhase = kBeside ? kChunk - 4 : 0;  // of the first byte, unless it shifts
  static constexpr int kChunks = static_cast<int>(
      ceil_div(4 * (kLanes * kOwn + 2 * kBesides) + (kShifts ? kChunk - 1 : kPhase), kChunk));
  static constexpr int kRing = kAhead * kChunks * kChunk;                 // bytes of a warp
  static constexpr int kTable = kExtends ? int{sizeof(BorderTable)} : 0;  // likewise

  // Steps that are unrolled: the rings of all stages turn with them.
  static constexpr int kTurn = kAhead > 4 ? kAhead : 4;
  static_assert(kTurn % 4 == 0 && kTurn % kAhead == 0);
};

// How images are cut into strips, `height` rows each.
struct Strips {
  std::int64_t images, rows, cols;
  std::int64_t across, down;  // strips of one image
  int height;
};

// Strips are as high as lets all run at once, within limits: a strip of h rows loads h + 2 kReach,
// but in high ones the end of a march is a long time with few left to run. (Cutting the last
// quarter of an image lower, or what makes whole turns of the multiprocessors, gained nothing.)
// The lower limit, 10 rows or 3 kReach + 1, keeps what is loaded in addition below two rows for
// three that are stored.
template <class Shape, class Routine>
Strips strips_of(const Routine& p) {
  constexpr std::int64_t kLowest = std::max(10, 3 * Shape::kReach + 1);
  constexpr std::int64_t kAtOnce = kMultiprocessors * Shape::kBlocks * (kMarchBlock.x / kLanes);
  Strips s{.images = p.images(),
           .rows = p.rows(),
           .cols = p.cols(),
           .across = 0,
           .down = 0,
           .height = 0};
  if (s.images == 0 || s.rows == 0 || s.cols == 0) return s;
  s.across = ceil_div(s.cols + (Shape::kAligned ? 0 : Shape::kPixels - 1), Shape::kWidth);
  const double even = static_cast<double>(s.images) * s.across * s.rows / kAtOnce;
  const std::int64_t height = even < kLowest           ? kLowest
                              : even < Shape::kHighest ? static_cast<std::int64_t>(even)
                                                       : Shape::kHighest;
  // Whole turns of the unrolled loop.
  s.height = static_cast<int>(ceil_div(height + 2 * Shape::kReach, Shape::kTurn) * Shape::kTurn -
                              2 * Shape::kReach);
  s.down = ceil_div(s.rows, s.height);
  return s;
}

// Whether rows of the images begin and end at multiples of a lane that stores so many pixels.
inline bool lanes_aligned(const Array& in, const Array& out, int pixels) {
  const auto misaligned = [](const Array& a) {
    return reinterpret_cast<std::uintptr_t>(a.data) % kChunk != 0;
  };
  return out.shape[out.rank - 1] % pixels == 0 && !misaligned(in) && !misaligned(out);
}

// ---------------------------------------------------------------------------------------------
// What a row of a ladder says of its march. kWithShape calls a visitor with the shape that a
// problem is marched in.

template <class Routine, auto kWithShape>
Extent march_grid(const Routine& p, Extent block) {
  return kWithShape(p, [&]<class Shape>(Shape) -> Extent {
    const Strips s = strips_of<Shape>(p);
    if (s.down == 0) return {};
    return grid_of(ceil_div(s.across, block.x / kLanes), s.images * s.down);
  });
}

template <class Routine, auto kWithShape>
std::size_t march_shared_bytes(const Routine& p, Extent block) {
  return kWithShape(p, [&]<class Shape>(Shape) {
    return std::size_t{block.x} / kLanes * (Shape::kRing + Shape::kTable);
  });
}

// What the strips ask of memory, about. What lies outside an image is not asked for; where the
// border continues it, the rows that stand for those outside are.
template <class Routine, auto kWithShape>
double march_bytes(const Routine& p) {
  return kWithShape(p, [&]<class Shape>(Shape) -> double {
    const Strips s = strips_of<Shape>(p);
    if (s.down == 0) return 0;
    constexpr int kLoaded = Shape::kChunks * kChunk;  // bytes of a strip's row, at most
    constexpr int kTwice = kLoaded - Shape::kWidth * Shape::kChannels;
    const std::int64_t row =
        std::min(s.cols * Shape::kChannels + (s.across - 1) * kTwice, s.across * kLoaded);
    const std::int64_t rows = s.rows + 2 * Shape::kReach * (s.down - (Shape::kExtends ? 0 : 1));
    return static_cast<double>(s.images) *
           (static_cast<double>(rows) * row + static_cast<double>(s.rows) * s.cols);
  });
}

#ifdef __CUDACC__

// ---------------------------------------------------------------------------------------------
// The strip of a block: the same rows for all its warps, so everything here is uniform, and neither
// loops nor shuffles have to reckon with lanes that go other ways. Rows count in marching order.
struct March {
  std::int64_t image, row;  // the first row that is loaded
  int step;                 // 1 or -1: down or up the image
  int steps;                // rows that are loaded
  int inside, inside_rows;  // the first of them that the image has, and how many it has

  __device__ March(const Strips& strips, int reach) {
    const std::int64_t y = block_y();
    image = y < strips.down ? 0 : y / strips.down;
    const std::int64_t strip = y - image * strips.down;
    const std::int64_t first = strip * strips.height;
    const int height = static_cast<int>(min(strips.rows - first, std::int64_t{strips.height}));
    const bool up = strip % 2 == 1;
    step = up ? -1 : 1;
    steps = image < strips.images ? height + 2 * reach : 0;
    row = up ? first + height - 1 + reach : first - reach;
    // How many rows lie between the first that is loaded and the edges of the image.
    const std::int64_t before = up ? row - (strips.rows - 1) : -row;
    const std::int64_t after = up ? row + 1 : strips.rows - row;
    inside = static_cast<int>(max(before, std::int64_t{0}));
    inside_rows = static_cast<int>(min(after, std::int64_t{steps})) - inside;
  }

  __device__ bool has_row(int index) const {
    return static_cast<unsigned>(index - inside) < static_cast<unsigned>(inside_rows);
  }
};

// p += pitch, in a way that the compiler keeps to one pointer: it would rather have one for each
// step of an unrolled loop, and those take registers.
template <class T>
__device__ void advance(T*& p, std::int64_t pitch) {
  asm("add.s64 %0, %0, %1;" : "+l"(p) : "l"(pitch));
}

// A distance in an image, or one beyond any strip if it is farther.
inline constexpr int kFar = 1 << 24;
__device__ inline int clamp_distance(std::int64_t distance) {
  return static_cast<int>(min(max(distance, std::int64_t{-kFar}), std::int64_t{kFar}));
}

#endif

}  // namespace ado::cuda

// Image filters as stages that rows of pixels march through, in registers from load to store.
//
// A warp owns a strip of an image, as wide as its lanes and some dozens of rows high, and walks it
// row by row. Each lane holds a few words of four neighbouring pixels. A stage takes a row a step,
// keeps what it will need of it, and gives back the row that it can finish by then. So stages
// compose: what one gives the next takes, and nothing between them lies in memory.
//
// Rows that two strips need are loaded twice. Strips are marched down and up in turn, so that
// neighbours reach such rows at about the same time, and DRAM is asked for them once.
//
// Times in the comments are for 16384 x 16384 pixels on an H200, L2 flushed; a copy takes 129 us.
#pragma once

#include <algorithm>

#include "grid.cuh"
#include "routines/gaussian_blur.hpp"
#include "routines/grayscale.hpp"

namespace ado::cuda {

inline constexpr int kLanes = 32;
inline constexpr int kChunk = 16;             // bytes that one copy to shared memory moves
inline constexpr Extent kMarchBlock{128};     // warps side by side
inline constexpr int kMultiprocessors = 132;  // of the GPU that strips are measured out for

// How a march is compiled.
//
// kAligned: rows begin at multiples of a chunk, in and out. kBeside: the words beside a lane's own
// come from memory too, so that all lanes count; otherwise they come by shuffle, and the outer
// lanes only serve the others, as they must before a second stage. kExtends: the border continues
// the image; otherwise zeros lie outside. kAhead: rows that are on their way, one less than that.
// kBlocks: per multiprocessor, for which registers are rationed. kHighest: about the most rows that
// a strip should have.
template <int kChannels_, int kWords_, int kReach_, bool kAligned_, bool kBeside_, bool kExtends_,
          int kAhead_, int kBlocks_, int kHighest_>
struct MarchShape {
  static constexpr int kChannels = kChannels_, kWords = kWords_, kReach = kReach_;
  static constexpr bool kAligned = kAligned_, kBeside = kBeside_, kExtends = kExtends_;
  static constexpr int kAhead = kAhead_, kBlocks = kBlocks_, kHighest = kHighest_;
  static_assert(!kExtends || (kChannels == 1 && kBeside));

  static constexpr int kPixels = 4 * kWords;                                   // of a lane
  static constexpr int kOwn = kWords * kChannels, kBesides = kBeside ? 1 : 0;  // words, a side
  static constexpr int kAll = kOwn + 2 * kBesides;

  // Lanes that store. Where rows begin anywhere, one vector takes pixels of two lanes.
  static constexpr int kFirst = (kBeside ? 0 : 1) + (kAligned ? 0 : 1);
  static constexpr int kLast = kBeside ? kLanes - 1 : kLanes - 2;
  static constexpr int kWidth = (kLast - kFirst + 1) * kPixels;  // of a strip

  // Lanes of three-byte pixels do not begin at multiples of a chunk even where rows do.
  static constexpr bool kShifts = !kAligned || kChannels == 3;
  static constexpr int kPhase = kBeside ? kChunk - 4 : 0;  // of the first byte, unless it shifts
  static constexpr int kChunks = static_cast<int>(
      ceil_div(4 * (kLanes * kOwn + 2 * kBesides) + (kShifts ? kChunk - 1 : kPhase), kChunk));
  static constexpr int kRing = kAhead * kChunks * kChunk;         // bytes of a warp
  static constexpr int kTable = kExtends ? 16 * sizeof(int) : 0;  // likewise

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
template <class Shape>
Strips strips_of(std::int64_t images, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kLowest = Shape::kReach > 3 ? 3 * Shape::kReach + 1 : 10;
  constexpr std::int64_t kAtOnce = kMultiprocessors * Shape::kBlocks * (kMarchBlock.x / kLanes);
  Strips s{.images = images, .rows = rows, .cols = cols, .across = 0, .down = 0, .height = 0};
  if (images == 0 || rows == 0 || cols == 0) return s;
  s.across = ceil_div(cols + (Shape::kAligned ? 0 : Shape::kPixels - 1), Shape::kWidth);
  const double even = static_cast<double>(images) * s.across * rows / kAtOnce;
  const std::int64_t height = even < kLowest           ? kLowest
                              : even < Shape::kHighest ? static_cast<std::int64_t>(even)
                                                       : Shape::kHighest;
  // Whole turns of the unrolled loop.
  s.height = static_cast<int>(ceil_div(height + 2 * Shape::kReach, Shape::kTurn) * Shape::kTurn -
                              2 * Shape::kReach);
  s.down = ceil_div(rows, s.height);
  return s;
}

// Whether rows of the images begin and end at multiples of a lane that stores so many pixels.
inline bool lanes_aligned(const Array& in, const Array& out, int pixels) {
  const auto misaligned = [](const Array& a) {
    return reinterpret_cast<std::uintptr_t>(a.data) % kChunk != 0;
  };
  return out.shape[out.rank - 1] % pixels == 0 && !misaligned(in) && !misaligned(out);
}

inline Extent march_grid(const Strips& s, Extent block) {
  if (s.down == 0) return {};
  return grid_of(ceil_div(s.across, block.x / kLanes), s.images * s.down);
}

template <class Shape>
std::size_t march_shared_bytes(Extent block) {
  return std::size_t{block.x} / kLanes * (Shape::kRing + Shape::kTable);
}

// What the strips ask of memory.
template <class Shape>
double march_bytes(const Strips& s) {
  const double loaded =
      static_cast<double>(s.rows + 2 * Shape::kReach * s.down) * s.across * Shape::kChunks * kChunk;
  return static_cast<double>(s.images) * (loaded + static_cast<double>(s.rows) * s.cols);
}

#ifdef __CUDACC__

// kCount words of four pixels each, the leftmost pixel in the lowest byte.
template <int kCount>
struct Words {
  unsigned at[kCount];
};

// The words of a lane with one of its left and one of its right neighbour around them.
template <int kWords>
struct Surrounded {
  unsigned at[kWords + 2];

  // The four pixels from the `pixel`-th own one on.
  __device__ unsigned window(int pixel) const {
    const int byte = pixel + 4;
    return byte % 4 == 0 ? at[byte / 4]
                         : __funnelshift_r(at[byte / 4], at[byte / 4 + 1], 8 * (byte % 4));
  }
};

template <int kWords>
__device__ Surrounded<kWords> surround(const Words<kWords>& own) {
  constexpr unsigned kAllLanes = 0xffffffff;
  Surrounded<kWords> all;
  all.at[0] = __shfl_up_sync(kAllLanes, own.at[kWords - 1], 1);
#pragma unroll
  for (int w = 0; w < kWords; ++w) all.at[w + 1] = own.at[w];
  all.at[kWords + 1] = __shfl_down_sync(kAllLanes, own.at[0], 1);
  return all;
}

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
__device__ inline int near(std::int64_t distance) {
  return static_cast<int>(min(max(distance, std::int64_t{-kFar}), std::int64_t{kFar}));
}

// The index inside [0, size) of the pixel that stands for one outside.
__device__ inline std::int64_t border_index(Border border, std::int64_t index, std::int64_t size) {
  if (border == Border::kReplicate || size == 1) return min(max(index, std::int64_t{0}), size - 1);
  while (index < 0 || index >= size) index = index < 0 ? -index : 2 * (size - 1) - index;
  return index;
}

// Copies the first `bytes` of a chunk to shared memory, then zeros, and touches nothing else.
__device__ inline void copy_bytes(std::uint32_t to, const std::uint8_t* from, int bytes) {
#pragma unroll 1
  for (int i = 0; i < kChunk; ++i) {
    const unsigned byte = i < bytes ? from[i] : 0;
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(to + i), "r"(byte) : "memory");
  }
}

// Starts to do so, where all of the chunk may be touched. Through L1, which finds again what warps
// side by side both need: the blur took 165 us past it and 150 through it.
__device__ inline void copy_chunk(std::uint32_t to, const std::uint8_t* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#else
  copy_bytes(to, from, bytes);
#endif
}
__device__ inline void end_row_of_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all rows but the last kPending have come.
template <int kPending>
__device__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
  __syncwarp();
}

__device__ inline unsigned shared_byte(std::uint32_t from) {
  unsigned byte;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(from) : "memory");
  return byte;
}
__device__ inline unsigned shared_word(std::uint32_t from) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}
__device__ inline void store_shared_word(std::uint32_t to, unsigned word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}
template <int kCount>
__device__ void shared_words(std::uint32_t from, unsigned* to) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int w = 0; w < kCount; w += 4)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[w]), "=r"(to[w + 1]), "=r"(to[w + 2]), "=r"(to[w + 3])
                   : "r"(from + 4 * w)
                   : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(from)
                 : "memory");
  } else {
#pragma unroll
    for (int w = 0; w < kCount; ++w) to[w] = shared_word(from + 4 * w);
  }
}

// ---------------------------------------------------------------------------------------------
// The source: rows of gray pixels, from images of one, three or four channels.
//
// Rows are copied to a ring in shared memory as they lie in memory, in aligned chunks, some rows
// before they are needed. Of loads into registers the compiler puts off those that nothing in the
// same turn of the loop waits for, so they are late: the blur then took 180 us instead of 144, the
// gradient 167 instead of 148, and both after the luminance the same.
template <class Shape>
class Rows {
 public:
  static constexpr int kWords = Shape::kWords;

  __device__ Rows(const std::uint8_t* data, Border border, const Strips& strips, const March& march,
                  std::int64_t strip_col, std::uint32_t ring)
      : lane_(threadIdx.x % kLanes),
        row_bytes_(strips.cols * Shape::kChannels),
        pitch_(march.step * row_bytes_),
        ring_(ring + lane_ * kChunk),
        table_(ring + Shape::kRing) {
    const std::int64_t begin = strip_col * Shape::kChannels - 4 * Shape::kBesides;
    const std::int64_t col = strip_col + lane_ * Shape::kPixels;
    row_begin_ = near(-begin);
    row_end_ = near(row_bytes_ - begin);
    inside_ = col < 0 ? 0 : 0xffffffff;
    left_inside_ = col <= 0 ? 0 : 0xffffffff;
    next_ = data + (march.image * strips.rows + march.row) * row_bytes_ + begin;
    end_ = data + strips.images * strips.rows * row_bytes_;
    const std::int64_t last =
        min(march.step > 0 ? march.row + march.steps - 1 : march.row, strips.rows - 1);
    nears_end_ = end_ - (data + (march.image * strips.rows + last + 1) * row_bytes_) < kChunk;
    phase_ = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(next_));
    if (!Shape::kShifts) {
      next_ += lane_ * kChunk - Shape::kPhase;
#pragma unroll
      for (int i = 0; i < kTurns; ++i)
        bytes_[i] = bytes_at((lane_ + i * kLanes) * kChunk - Shape::kPhase);
    }
    if (Shape::kExtends) start_border(border, strips, march, begin, col);
  }

  // Starts to copy the next row in marching order.
  __device__ void fetch(const March& march, int index, int slot) {
    const std::uint8_t* from = next_;
    bool copies = march.has_row(index);
    if (Shape::kExtends && !copies && index < march.steps) {
      from += border_rows(march, index) * row_bytes_;
      copies = true;
    }
    int early = 0;
    if (Shape::kShifts) {
      early = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % kChunk);
      from += lane_ * kChunk - early;
    }
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int chunk = lane_ + i * kLanes;
      if (chunk >= Shape::kChunks) continue;
      const std::uint32_t to = ring_ + (slot * Shape::kChunks + i * kLanes) * kChunk;
      const std::uint8_t* chunk_from = from + i * kLanes * kChunk;
      const int inside = Shape::kShifts ? bytes_at(chunk * kChunk - early) : bytes_[i];
      const int bytes = copies ? inside : 0;
      if (Shape::kShifts && nears_end_) {  // the same for the whole warp
        if (bytes > 0 && chunk_from + kChunk > end_)
          copy_bytes(to, chunk_from, bytes);
        else
          copy_chunk(to, chunk_from, bytes);
      } else {
        copy_chunk(to, chunk_from, bytes);
      }
    }
    end_row_of_copies();
    advance(next_, pitch_);
  }

  // The row in a slot.
  template <class Mask>
  __device__ Surrounded<kWords> take(const March& march, int index, int slot, const Mask& mask) {
    std::uint32_t row = ring_ - lane_ * kChunk + slot * Shape::kChunks * kChunk;
    Words<Shape::kAll> words;
    if constexpr (Shape::kShifts) {
      unsigned phase = phase_ + static_cast<unsigned>(pitch_) * index;
      if (Shape::kExtends && !march.has_row(index))
        phase += border_rows(march, index) * static_cast<unsigned>(row_bytes_);
      phase %= kChunk;
      row += phase;
      Words<Shape::kAll + 1> around;
      shared_words_of(row - phase % 4 + lane_ * 4 * Shape::kOwn, around);
#pragma unroll
      for (int w = 0; w < Shape::kAll; ++w)
        words.at[w] = __funnelshift_r(around.at[w], around.at[w + 1], 8 * phase);
    } else {
      row += Shape::kPhase;
      const std::uint32_t from = row + lane_ * 4 * Shape::kOwn;
      if (Shape::kBeside) {
        words.at[0] = shared_word(from);
        words.at[Shape::kAll - 1] = shared_word(from + 4 * (Shape::kAll - 1));
      }
      shared_words<Shape::kOwn>(from + 4 * Shape::kBesides, &words.at[Shape::kBesides]);
    }

    if constexpr (Shape::kBeside) {
      Surrounded<kWords> in;
#pragma unroll
      for (int w = 0; w < Shape::kAll; ++w) in.at[w] = words.at[w];
      if (Shape::kShifts) {  // what lies before the row is the end of another
        in.at[0] &= left_inside_;
#pragma unroll
        for (int w = 1; w < Shape::kAll; ++w) in.at[w] &= inside_;
      }
      if (Shape::kExtends) extend(row, in);
      return in;
    } else {
      Words<kWords> gray;
#pragma unroll
      for (int w = 0; w < kWords; ++w) gray.at[w] = luminance(words, w);
      if (Shape::kShifts) mask.apply(gray);
      return surround(gray);
    }
  }

 private:
  static constexpr int kTurns = static_cast<int>(ceil_div(Shape::kChunks, kLanes));

  template <int kCount>
  __device__ static void shared_words_of(std::uint32_t from, Words<kCount>& words) {
#pragma unroll
    for (int w = 0; w < kCount; ++w) words.at[w] = shared_word(from + 4 * w);
  }

  // How many of the bytes of a chunk are in the row; it begins `offset` bytes into the strip.
  __device__ int bytes_at(int offset) const {
    return offset > row_begin_ - kChunk ? min(max(row_end_ - offset, 0), kChunk) : 0;
  }

  // Bytes of the weights times the pixels, in two dot products: the weights have 16 bits.
  __device__ static unsigned luminance(const Words<Shape::kOwn>& own, int word) {
    unsigned sum[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int byte = (word * 4 + i) * Shape::kChannels;
      const unsigned pixel =
          byte % 4 == 0   ? own.at[byte / 4]
          : byte % 4 == 1 ? own.at[byte / 4] >> 8
                          : __funnelshift_r(own.at[byte / 4], own.at[byte / 4 + (byte % 4 > 1)],
                                            8 * (byte % 4));
      sum[i] = __dp4a(pixel, kLowWeights, __dp4a(pixel, kHighWeights, 0u) * 256);
    }
    return __byte_perm(__byte_perm(sum[0], sum[1], 0x0062), __byte_perm(sum[2], sum[3], 0x0062),
                       0x5410);
  }

  // The weights' low and high bytes, as the bytes of a pixel.
  static constexpr unsigned weights(int shift) {
    return (Grayscale::kRed >> shift & 255) | (Grayscale::kGreen >> shift & 255) << 8 |
           (Grayscale::kBlue >> shift & 255) << 16;
  }
  static constexpr unsigned kLowWeights = weights(0), kHighWeights = weights(8);

  // Where the border continues the image, a table says which rows and columns stand for the three
  // before it and the three after: how many rows they are away, and where in a slot they lie.
  static constexpr int kOutside = GaussianBlur::kRadius;
  __device__ std::uint32_t row_entry(int side, int i) const { return table_ + 16 * side + 4 * i; }
  __device__ std::uint32_t col_entries(int side) const { return table_ + 32 + 16 * side; }

  __device__ void start_border(Border border, const Strips& strips, const March& march,
                               std::int64_t begin, std::int64_t col) {
    const std::int64_t edges[2] = {-kOutside, strips.cols};
#pragma unroll
    for (int side = 0; side < 2; ++side) beside_[side] = near(edges[side] - (col - 4));
    if (lane_ < 2 * kOutside) {
      const int side = lane_ / kOutside, i = lane_ % kOutside;
      const int index = i + (side == 0 ? 0 : march.inside + march.inside_rows);
      const std::int64_t row = march.row + march.step * index;
      const std::int64_t edge = (side == 0 ? -kOutside : strips.cols) + i;
      store_shared_word(row_entry(side, i), near(border_index(border, row, strips.rows) - row));
      store_shared_word(col_entries(side) + 4 * i,
                        near(border_index(border, edge, strips.cols) - begin));
    }
    __syncwarp();
  }

  __device__ int border_rows(const March& march, int index) const {
    const bool before = index < march.inside;
    const int i = before ? index : index - march.inside - march.inside_rows;
    return static_cast<int>(shared_word(row_entry(before ? 0 : 1, i)));
  }

  // Puts the pixels beside the image into the words of the lane, where zeros were.
  __device__ void extend(std::uint32_t row, Surrounded<kWords>& in) const {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      if (beside_[side] <= -kOutside || beside_[side] >= 4 * Shape::kAll) continue;
      unsigned at[4];
      shared_words<4>(col_entries(side), at);
      std::uint64_t pixels = 0;
#pragma unroll
      for (int i = 0; i < kOutside; ++i)
        pixels |= std::uint64_t{shared_byte(row + at[i])} << (32 + 8 * i);
#pragma unroll
      for (int w = 0; w < Shape::kAll; ++w) {
        const int bit = 8 * beside_[side] - 32 * w;
        if (bit > -32 && bit < 32) in.at[w] |= static_cast<unsigned>(pixels >> (32 - bit));
      }
    }
  }

  int lane_;
  std::int64_t row_bytes_, pitch_;
  std::uint32_t ring_, table_;  // in shared memory: the chunk of the lane, the table of the warp
  const std::uint8_t *next_, *end_;
  bool nears_end_;           // so that a chunk could reach beyond it
  unsigned phase_;           // the address of the first byte, as far as it counts
  int row_begin_, row_end_;  // in bytes from the first of the strip
  int bytes_[kTurns];        // of each chunk that the lane copies, unless the strip shifts
  unsigned inside_, left_inside_;
  int beside_[2];  // where the columns before and after the image begin, in pixels from the word
                   // before
};

// The pixels of a lane that are inside the image.
template <int kWords, bool kAligned>
struct ColumnMask {
  unsigned mask[kAligned ? 1 : kWords];

  __device__ ColumnMask(std::int64_t col, std::int64_t cols) {
#pragma unroll
    for (int w = 0; w < (kAligned ? 1 : kWords); ++w) {
      mask[w] = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (col + 4 * w + i >= 0 && col + 4 * w + i < cols) mask[w] |= 0xffu << (8 * i);
    }
  }
  __device__ void apply(Words<kWords>& words) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) words.at[w] &= mask[kAligned ? 0 : w];
  }
};

// ---------------------------------------------------------------------------------------------
// Stages. Of a row that is pushed, `step` is the position in rings of two and four rows; what comes
// back is the row kReach earlier. Rows may come from below as well as from above.

// [1 2 3 4 3 2 1]: along the rows by dot products of bytes, down the columns as [1 2 1] and then
// [1 0 2 0 1] by sums of what was kept. No sum exceeds 255 * 256, so two pixels share a register.
// Running sums, [1 1 1 1] twice, are two additions less for two pixels, but keep nine rows instead
// of six. With sixteen pixels a lane those do not fit the registers (159 us, this 144); with eight
// both take 147.
template <int kWords>
class Blur {
 public:
  static constexpr int kReach = 3;
  struct Options {};

  __device__ Blur(int, Options) {}

  __device__ Words<kWords> push(int step, const Surrounded<kWords>& in) {
    Words<kWords> out;
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      out.at[w] =
          __byte_perm(column_sums(step, 2 * w, in), column_sums(step, 2 * w + 1, in), 0x7531);
    return out;
  }

 private:
  static constexpr int kPairs = 2 * kWords;

  __device__ unsigned column_sums(int step, int pair, const Surrounded<kWords>& in) {
    const unsigned row = weigh(in, 2 * pair, weigh(in, 2 * pair + 1, 0) << 16);
    const unsigned two = row + row_[pair], three = two + two_[pair];
    const unsigned five = three + three_[step % 2][pair], seven = five + five_[step % 2][pair];
    row_[pair] = row;
    two_[pair] = two;
    three_[step % 2][pair] = three;
    five_[step % 2][pair] = five;
    return seven;
  }

  // The weighted sum along the row around a pixel, added to another.
  __device__ static unsigned weigh(const Surrounded<kWords>& in, int pixel, unsigned sum) {
    return __dp4a(in.window(pixel - 3), 0x04030201u,
                  __dp4a(in.window(pixel + 1), 0x00010203u, sum));
  }

  // Sums of one, two, three and five rows, of the last row or the last two.
  unsigned row_[kPairs] = {}, two_[kPairs] = {}, three_[2][kPairs] = {}, five_[2][kPairs] = {};
};

// Taps as four bytes a word: along the row 0 to 3 and 4 to 6; down the columns 5, 6, 3, 4 and 1, 2,
// none, 0. A sum of products is divided by multiplying it by a reciprocal and dropping bits.
struct TapOptions {
  unsigned along[2], down[2];
  unsigned reciprocal;
  int shift;
};

inline TapOptions tap_options(const int* given) {
  constexpr int kTaps = GaussianBlur::kTaps, kNone = kTaps;
  unsigned taps[kTaps + 1] = {}, sum = 0;
  for (int i = 0; i < kTaps; ++i) sum += static_cast<unsigned>(given[i]);
  // Common factors cancel. A single tap, if it is 256, would fit no byte, and a sum of 1 has a
  // reciprocal that fits no word.
  const bool single = std::count(given, given + kTaps, 0) == kTaps - 1;
  for (int i = 0; i < kTaps; ++i)
    taps[i] = single ? 2 * (given[i] > 0) : static_cast<unsigned>(given[i]);
  if (single) sum = 2;
  const auto word = [&](int a, int b, int c, int d) {
    return taps[a] | taps[b] << 8 | taps[c] << 16 | taps[d] << 24;
  };
  // Exact for sums of products up to 255 divisors: the error of the reciprocal then adds less than
  // what is missing to the next integer.
  const std::uint64_t divisor = std::uint64_t{sum} * sum;
  int shift = 0;
  while (std::uint64_t{1} << (32 + shift) <= 255 * divisor * divisor) ++shift;
  const std::uint64_t reciprocal = ((std::uint64_t{1} << (32 + shift)) + divisor - 1) / divisor;
  return {{word(0, 1, 2, 3), word(4, 5, 6, kNone)},
          {word(5, 6, 3, 4), word(1, 2, kNone, 0)},
          static_cast<unsigned>(reciprocal),
          shift};
}

// Any seven taps: along the rows likewise; down the columns, where sums of two pixels a register no
// longer fit, by dot products of pairs of rows, four a pixel.
template <int kWords>
class BlurTaps {
 public:
  static constexpr int kReach = 3;
  using Options = TapOptions;

  // Marching up, rows come in the reverse order, so taps are reversed as well.
  __device__ BlurTaps(int step, const Options& options) : taps_(options) {
    if (step > 0) return;
    taps_.down[0] = __byte_perm(options.along[0], options.along[1], 0x2301);
    taps_.down[1] = __byte_perm(options.along[0], options.along[1], 0x6745);
  }

  __device__ Words<kWords> push(int step, const Surrounded<kWords>& in) {
    const int now = step % 4, last = (step + 3) % 4, earlier = (step + 2) % 4;
    Words<kWords> out = {};
#pragma unroll
    for (int pixel = 0; pixel < 4 * kWords; ++pixel) {
      const unsigned row = __dp4a(in.window(pixel - 3), taps_.along[0],
                                  __dp4a(in.window(pixel + 1), taps_.along[1], 0u));
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
  unsigned pairs_[4][4 * kWords] = {};  // of rows, the earlier in the lower half
  unsigned early_[4][4 * kWords] = {};  // what the first three taps make of rows four steps before
};

// ---------------------------------------------------------------------------------------------
// Sobel. The bits of an integer below 2048 are those of a half, 2^-24 times as large: two pixels
// share a register and signed sums come exact, without a conversion.

__device__ inline unsigned add_halves(unsigned a, unsigned b) {
  unsigned sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
__device__ inline unsigned subtract_halves(unsigned a, unsigned b) {
  unsigned difference;
  asm("{.reg .b32 negative;\nneg.f16x2 negative, %2;\nadd.rn.f16x2 %0, %1, negative;}"
      : "=r"(difference)
      : "r"(a), "r"(b));
  return difference;
}
// 2 a + b.
__device__ inline unsigned add_twice(unsigned a, unsigned b) {
  unsigned sum;
  constexpr unsigned kTwo = 0x40004000;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(kTwo), "r"(b));
  return sum;
}
__device__ inline float2 floats_of(unsigned halves) {
  float2 floats;
  asm("{.reg .f16 low, high;\nmov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;}"
      : "=f"(floats.x), "=f"(floats.y)
      : "r"(halves));
  return floats;
}

// floor(sqrt(x^2 + y^2)), still in units of 2^-24, at most 255. Half a unit under the root keeps
// the approximate root away from the integers, on the right side of them.
__device__ inline float length(float x, float y) {
  constexpr float kHalf = 0x1p-49f;
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaf(x, x, fmaf(y, y, kHalf))));
  return root;
}
__device__ inline unsigned lengths(unsigned x, unsigned y) {
  const float2 xs = floats_of(x), ys = floats_of(y);
  const float low = length(xs.x, ys.x), high = length(xs.y, ys.y);
  unsigned halves;
  constexpr unsigned kWhite = 0x00ff00ff;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
  asm("min.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(halves), "r"(kWhite));
  return halves;
#else
  asm("{.reg .f16 low, high;\ncvt.rz.f16.f32 low, %1;\ncvt.rz.f16.f32 high, %2;\n"
      "mov.b32 %0, {low, high};}"
      : "=r"(halves)
      : "f"(low), "f"(high));
  return __vminu2(halves, kWhite);
#endif
}

template <int kWords>
struct SobelMagnitude {
  static constexpr int kReach = 1;
  // Of the last two rows: [-1 0 1] and [1 2 1] along the row.
  unsigned difference[2][2 * kWords] = {}, smooth[2][2 * kWords] = {};

  struct Options {};
  __device__ SobelMagnitude(int, Options) {}

  __device__ Words<kWords> push(int step, const Surrounded<kWords>& in) {
    Words<kWords> out;
    unsigned even[kWords], odd[kWords];  // pixels of each word: 0 and 2, 1 and 3
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      even[w] = in.at[w + 1] & 0x00ff00ff;
      odd[w] = __byte_perm(in.at[w + 1], 0, 0x4341);
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      // Pixels -1 and 1, 2 and 4.
      const unsigned before = w > 0 ? __byte_perm(odd[w > 0 ? w - 1 : 0], odd[w], 0x5432)
                                    : __byte_perm(in.at[0], odd[0], 0x5453);
      const unsigned after = w + 1 < kWords
                                 ? __byte_perm(even[w], even[w + 1 < kWords ? w + 1 : w], 0x5432)
                                 : __byte_perm(even[w], in.at[kWords + 1], 0x3432);
      const unsigned evens = gradient(step, 2 * w, subtract_halves(odd[w], before),
                                      add_twice(even[w], add_halves(before, odd[w])));
      const unsigned odds = gradient(step, 2 * w + 1, subtract_halves(after, even[w]),
                                     add_twice(odd[w], add_halves(even[w], after)));
      out.at[w] = __byte_perm(evens, odds, 0x6240);
    }
    return out;
  }

  __device__ unsigned gradient(int step, int pair, unsigned new_difference, unsigned new_smooth) {
    unsigned &difference_before = difference[step % 2][pair],
             &smooth_before = smooth[step % 2][pair];
    const unsigned x =
        add_halves(add_twice(difference[(step + 1) % 2][pair], difference_before), new_difference);
    const unsigned y = subtract_halves(new_smooth, smooth_before);
    difference_before = new_difference;
    smooth_before = new_smooth;
    return lengths(x, y);
  }
};

// Stages in turn: what one gives is the image that the next takes, with zeros outside.
template <class... Stages>
struct Chain;

template <class Last>
struct Chain<Last> {
  static constexpr int kReach = Last::kReach;
  Last last;

  __device__ Chain(int step, const typename Last::Options& options) : last(step, options) {}

  template <int kWords, class Mask>
  __device__ Words<kWords> push(int step, int, const Surrounded<kWords>& in, const March&,
                                const Mask&) {
    return last.push(step, in);
  }
};

template <class First, class... Rest>
struct Chain<First, Rest...> {
  static constexpr int kReach = First::kReach + Chain<Rest...>::kReach;
  First first;
  Chain<Rest...> rest;

  __device__ Chain(int step, const typename First::Options& options,
                   const typename Rest::Options&... others)
      : first(step, options), rest(step, others...) {}

  template <int kWords, class Mask>
  __device__ Words<kWords> push(int step, int index, const Surrounded<kWords>& in,
                                const March& march, const Mask& mask) {
    Words<kWords> between = first.push(step, in);
    mask.apply(between);
    const int row = index - First::kReach;
    if (!march.has_row(row)) between = {};
    return rest.push(step, row, surround(between), march, mask);
  }
};

template <int kCount>
__device__ void store_words(std::uint8_t* to, const Words<kCount>& w) {
  const std::size_t at = __cvta_generic_to_global(to);
  if constexpr (kCount == 4)
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(w.at[0]), "r"(w.at[1]),
                 "r"(w.at[2]), "r"(w.at[3])
                 : "memory");
  else
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(w.at[0]), "r"(w.at[1])
                 : "memory");
}

// ---------------------------------------------------------------------------------------------
// Where the last stage's rows go. Rows that begin anywhere are stored as vectors that begin up to
// one vector early, with the end of the left neighbour in front; what of those would lie outside
// the row is stored by bytes.
template <int kWords, bool kAligned>
class Store {
 public:
  __device__ Store(std::uint8_t* out, const Strips& strips, const March& march, std::int64_t col,
                   int reach)
      : to_(out + (march.image * strips.rows + march.row - march.step * reach) * strips.cols + col),
        pitch_(march.step * strips.cols),
        col_(near(col)),
        end_(near(strips.cols - col)) {}

  __device__ void operator()(Words<kWords> words, bool stores) {
    if constexpr (kAligned) {
      if (stores) store_words(to_, words);
    } else {
      const int early = static_cast<int>(reinterpret_cast<std::uintptr_t>(to_) % (4 * kWords));
      words = move_right(words, early);
      std::uint8_t* to = to_ - early;
      const int begin = early - col_, end = end_ + early;  // of the row, in pixels from there
      if (stores && begin <= 0 && end >= 4 * kWords) {
        store_words(to, words);
      } else if (stores) {
#pragma unroll 1
        for (int i = 0; i < min(end, 4 * kWords); ++i) {
          if (i >= begin) to[i] = static_cast<std::uint8_t>(words.at[0]);
#pragma unroll
          for (int w = 0; w < kWords; ++w)
            words.at[w] = __funnelshift_r(words.at[w], w + 1 < kWords ? words.at[w + 1] : 0, 8);
        }
      }
    }
    advance(to_, pitch_);
  }

 private:
  // By so many pixels, across lanes.
  __device__ static Words<kWords> move_right(const Words<kWords>& words, int pixels) {
    unsigned both[2 * kWords + 1];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      both[w] = __shfl_up_sync(0xffffffff, words.at[w], 1);
      both[kWords + w] = words.at[w];
    }
    both[2 * kWords] = 0;
    const int first = 4 * kWords - pixels;
#pragma unroll
    for (int stride = kWords; stride > 0; stride /= 2)
#pragma unroll
      for (int w = 0; w + stride <= 2 * kWords; ++w)
        if (first & (4 * stride)) both[w] = both[w + stride];
    Words<kWords> moved;
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      moved.at[w] = __funnelshift_r(both[w], both[w + 1], 8 * (first % 4));
    return moved;
  }

  std::uint8_t* to_;
  std::int64_t pitch_;
  int col_, end_;
};

template <class Shape, class... Stages>
__global__ void __launch_bounds__(kMarchBlock.x, Shape::kBlocks)
    march(const std::uint8_t* in, Border border, std::uint8_t* out, Strips strips,
          typename Stages::Options... options) {
  constexpr int kWords = Shape::kWords, kReach = Shape::kReach, kAhead = Shape::kAhead;
  static_assert(kReach == Chain<Stages...>::kReach);
  extern __shared__ uint4 shared[];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const std::int64_t strip = block_x() * (blockDim.x / kLanes) + warp;
  const std::int64_t strip_col = strip * Shape::kWidth - Shape::kFirst * Shape::kPixels;
  const std::int64_t col = strip_col + lane * Shape::kPixels;
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    warp * (Shape::kRing + Shape::kTable);

  const March march(strips, kReach);
  if (march.steps == 0) return;  // the grid is rounded up
  Rows<Shape> source(in, border, strips, march, strip_col, ring);
  Chain<Stages...> chain(march.step, options...);
  const ColumnMask<kWords, Shape::kAligned> mask(col, strips.cols);
  Store<kWords, Shape::kAligned> store(out, strips, march, col, kReach);
  const bool stores = lane >= Shape::kFirst && lane <= Shape::kLast &&
                      col < strips.cols + (Shape::kAligned ? 0 : Shape::kPixels - 1);
  const unsigned stored = stores ? static_cast<unsigned>(march.steps - 2 * kReach) : 0;

#pragma unroll
  for (int i = 0; i < kAhead - 1; ++i) source.fetch(march, i, i);
#pragma unroll 1
  for (int first = 0; first < march.steps; first += Shape::kTurn) {
#pragma unroll
    for (int step = 0; step < Shape::kTurn; ++step) {
      const int index = first + step;
      wait_for_copies<kAhead - 2>();  // after this nobody reads the slot before, so it is filled
      source.fetch(march, index + kAhead - 1, (step + kAhead - 1) % kAhead);
      const Surrounded<kWords> row = source.take(march, index, step % kAhead, mask);
      const Words<kWords> result = chain.push(step, index, row, march, mask);
      store(result, static_cast<unsigned>(index - 2 * kReach) < stored);
    }
  }
}

#endif

}  // namespace ado::cuda

// Where a march begins: rows of gray pixels, from images of one, three or four channels.
//
// Rows are copied to a ring in shared memory as they lie in memory, in aligned chunks, some rows
// before they are needed. Loaded into registers instead, they come late: the compiler moves a load
// down to where its value is used. The blur then takes 180 us instead of 144 and the gradient 167
// instead of 149 (times are march.cuh's).
#pragma once

#include <cstddef>

#include "image/bands.cuh"
#include "image/luminance.cuh"
#include "image/packed_pixels.cuh"
#include "routines/gaussian_blur.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

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

// Starts to copy an aligned chunk so, all of which may be touched. The first chunk of a row
// that begins anywhere has up to 15 bytes from before the row, and even from before the array:
// those are in the same allocation, since allocations begin at multiples of a chunk. Through L1,
// which finds again what warps side by side both need: past it the blur takes a tenth longer.
//
// Below sm_80 nothing is in flight: a chunk has come when this returns.
__device__ inline void copy_chunk(std::uint32_t to, const std::uint8_t* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#else
  uint4 chunk = {};
  if (bytes > 0) chunk = *reinterpret_cast<const uint4*>(from);
  if (bytes < kChunk) {
    const auto first_bytes = [bytes](int word) {
      const int count = min(max(bytes - 4 * word, 0), 4);
      return static_cast<unsigned>((std::uint64_t{1} << (8 * count)) - 1);
    };
    chunk.x &= first_bytes(0);
    chunk.y &= first_bytes(1);
    chunk.z &= first_bytes(2);
    chunk.w &= first_bytes(3);
  }
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(chunk.x), "r"(chunk.y),
               "r"(chunk.z), "r"(chunk.w)
               : "memory");
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
    row_begin_ = clamp_distance(-begin);
    row_end_ = clamp_distance(row_bytes_ - begin);
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
      for (int w = 0; w < kWords; ++w) gray.at[w] = luminance_of(words, w);
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

  __device__ static unsigned luminance_of(const Words<Shape::kOwn>& own, int word) {
    unsigned of[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int byte = (word * 4 + i) * Shape::kChannels;
      const unsigned pixel =
          byte % 4 == 0   ? own.at[byte / 4]
          : byte % 4 == 1 ? own.at[byte / 4] >> 8
                          : __funnelshift_r(own.at[byte / 4], own.at[byte / 4 + (byte % 4 > 1)],
                                            8 * (byte % 4));
      of[i] = luminance(pixel);
    }
    return pack(of[0], of[1], of[2], of[3]);
  }

  static constexpr int kOutside = BorderTable::kOutside;

  __device__ std::uint32_t row_entry(int side, int i) const {
    return table_ + offsetof(BorderTable, rows) + side * sizeof(BorderTable::rows[0]) +
           i * sizeof(int);
  }
  __device__ std::uint32_t col_entry(int side, int i) const {
    return table_ + offsetof(BorderTable, cols) + side * sizeof(BorderTable::cols[0]) +
           i * sizeof(int);
  }

  __device__ void start_border(Border border, const Strips& strips, const March& march,
                               std::int64_t begin, std::int64_t col) {
    const std::int64_t edges[2] = {-kOutside, strips.cols};
#pragma unroll
    for (int side = 0; side < 2; ++side) beside_[side] = clamp_distance(edges[side] - (col - 4));
    if (lane_ < 2 * kOutside) {
      const int side = lane_ / kOutside, i = lane_ % kOutside;
      const int index = i + (side == 0 ? 0 : march.inside + march.inside_rows);
      const std::int64_t row = march.row + march.step * index;
      const std::int64_t edge = (side == 0 ? -kOutside : strips.cols) + i;
      store_shared_word(row_entry(side, i),
                        clamp_distance(border_index(border, row, strips.rows) - row));
      store_shared_word(col_entry(side, i),
                        clamp_distance(border_index(border, edge, strips.cols) - begin));
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
      shared_words<4>(col_entry(side, 0), at);
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

}  // namespace ado::cuda

#endif

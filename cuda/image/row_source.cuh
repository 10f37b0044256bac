// The input of the sliding window: rows of gray pixels, from images of one, three or four channels.
//
// Rows are copied asynchronously to a ring in shared memory, as aligned 16-byte vectors, some rows
// before they are needed. Prefetching into registers does not work, because the compiler moves a
// load down to the use of its value. With register loads, the blur takes 180 us instead of 144 and
// the gradient 167 us instead of 149 (measured as in sliding_window.cuh).
//
// In unaligned rows, the copy starts up to 15 bytes before the row, and lanes assemble each word
// from two neighbouring words:
//
//   vectors in the slot    | x x x x x r0 r1 r2 r3 r4 r5 r6 r7 ...      r0: first byte of the row,
//   32-bit words of it     |    w0   |     w1    |     w2    | ...          5 bytes into the slot
//   first word of the row              [r0 r1 r2   r3] = __funnelshift_r(w1, w2, 8 * (5 % 4))
#pragma once

#include <cstddef>

#include "common/async_copy.cuh"
#include "image/bands.cuh"
#include "image/luminance.cuh"
#include "image/packed_pixels.cuh"
#include "routines/gaussian_blur.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// Index in [0, size) of the pixel that replaces the pixel at `index` outside the image.
__device__ inline std::int64_t border_index(Border border, std::int64_t index, std::int64_t size) {
  if (border == Border::kReplicate || size == 1) return min(max(index, std::int64_t{0}), size - 1);
  while (index < 0 || index >= size) index = index < 0 ? -index : 2 * (size - 1) - index;
  return index;
}

// Copies the first `bytes` bytes of a vector to shared memory and fills the rest with zeros. Unlike
// copy_vector_async, it does not read the other bytes of the source.
__device__ inline void copy_bytes(std::uint32_t to, const std::uint8_t* from, int bytes) {
#pragma unroll 1
  for (int i = 0; i < kVectorBytes; ++i) {
    const unsigned byte = i < bytes ? from[i] : 0;
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(to + i), "r"(byte) : "memory");
  }
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
// Loads kCount words as vectors.
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
// Copies rows to the ring of the calling warp, and reads rows from the ring.
template <class Shape>
class RowSource {
 public:
  static constexpr int kWords = Shape::kWords;

  __device__ RowSource(const std::uint8_t* data, Border border, const Bands& bands,
                       const BandWalk& walk, std::int64_t band_col, std::uint32_t ring)
      : lane_(threadIdx.x % kWarpSize),
        row_bytes_(bands.cols * Shape::kChannels),
        pitch_(walk.direction * row_bytes_),
        ring_(ring + lane_ * kVectorBytes),
        table_(ring + Shape::kRingBytes) {
    const std::int64_t begin = band_col * Shape::kChannels - 4 * Shape::kSideWords;
    const std::int64_t col = band_col + lane_ * Shape::kPixels;
    row_begin_ = clamp_distance(-begin);
    row_end_ = clamp_distance(row_bytes_ - begin);
    inside_ = col < 0 ? 0 : 0xffffffff;
    left_inside_ = col <= 0 ? 0 : 0xffffffff;
    next_ = data + (walk.image * bands.rows + walk.row) * row_bytes_ + begin;
    end_ = data + bands.images * bands.rows * row_bytes_;
    const std::int64_t last =
        min(walk.direction > 0 ? walk.row + walk.count - 1 : walk.row, bands.rows - 1);
    nears_end_ = end_ - (data + (walk.image * bands.rows + last + 1) * row_bytes_) < kVectorBytes;
    address_ = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(next_));
    if (!Shape::kShifts) {
      next_ += lane_ * kVectorBytes - Shape::kFirstByte;
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        bytes_[i] = bytes_at((lane_ + i * kWarpSize) * kVectorBytes - Shape::kFirstByte);
    }
    if (Shape::kExtends) start_border(border, bands, walk, begin, col);
  }

  // Starts to copy the index-th row, which must be the next one. Copies go through L1, because
  // neighbouring warps share vectors. Without L1, the blur takes 10 % longer.
  //
  // The first vector of an unaligned row may contain up to 15 bytes from before the row, even from
  // before the array. Those bytes are in the same allocation, because allocations are aligned to
  // vectors.
  __device__ void start_copy(const BandWalk& walk, int index, int slot) {
    const std::uint8_t* from = next_;
    bool copies = walk.has_row(index);
    if (Shape::kExtends && !copies && index < walk.count) {
      from += border_rows(walk, index) * row_bytes_;
      copies = true;
    }
    int early = 0;
    if (Shape::kShifts) {
      early = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % kVectorBytes);
      from += lane_ * kVectorBytes - early;
    }
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int vector = lane_ + i * kWarpSize;
      if (vector >= Shape::kVectors) continue;
      const std::uint32_t to = ring_ + (slot * Shape::kVectors + i * kWarpSize) * kVectorBytes;
      const std::uint8_t* vector_from = from + i * kWarpSize * kVectorBytes;
      const int inside = Shape::kShifts ? bytes_at(vector * kVectorBytes - early) : bytes_[i];
      const int bytes = copies ? inside : 0;
      if (Shape::kShifts && nears_end_) {  // uniform in the warp
        if (bytes > 0 && vector_from + kVectorBytes > end_)
          copy_bytes(to, vector_from, bytes);
        else
          copy_vector_async(to, vector_from, bytes);
      } else {
        copy_vector_async(to, vector_from, bytes);
      }
    }
    commit_copies();
    advance(next_, pitch_);
  }

  // Reads the index-th row from its slot, as gray pixels.
  template <class Mask>
  __device__ PixelsAround<kWords> read(const BandWalk& walk, int index, int slot,
                                       const Mask& mask) {
    std::uint32_t row = ring_ - lane_ * kVectorBytes + slot * Shape::kVectors * kVectorBytes;
    unsigned words[Shape::kAllWords];
    if constexpr (Shape::kShifts) {
      unsigned first_byte = address_ + static_cast<unsigned>(pitch_) * index;
      if (Shape::kExtends && !walk.has_row(index))
        first_byte += border_rows(walk, index) * static_cast<unsigned>(row_bytes_);
      first_byte %= kVectorBytes;
      row += first_byte;
      unsigned aligned[Shape::kAllWords + 1];
      const std::uint32_t from = row - first_byte % 4 + lane_ * 4 * Shape::kOwnWords;
#pragma unroll
      for (int w = 0; w < Shape::kAllWords + 1; ++w) aligned[w] = shared_word(from + 4 * w);
#pragma unroll
      for (int w = 0; w < Shape::kAllWords; ++w)
        words[w] = __funnelshift_r(aligned[w], aligned[w + 1], 8 * first_byte);
    } else {
      row += Shape::kFirstByte;
      const std::uint32_t from = row + lane_ * 4 * Shape::kOwnWords;
      if (Shape::kHaloWords) {
        words[0] = shared_word(from);
        words[Shape::kAllWords - 1] = shared_word(from + 4 * (Shape::kAllWords - 1));
      }
      shared_words<Shape::kOwnWords>(from + 4 * Shape::kSideWords, &words[Shape::kSideWords]);
    }

    if constexpr (Shape::kHaloWords) {
      PixelsAround<kWords> in;
#pragma unroll
      for (int w = 0; w < Shape::kAllWords; ++w) in.at[w] = words[w];
      if (Shape::kShifts) {  // the bytes before the row belong to another row
        in.at[0] &= left_inside_;
#pragma unroll
        for (int w = 1; w < Shape::kAllWords; ++w) in.at[w] &= inside_;
      }
      if (Shape::kExtends) extend(row, in);
      return in;
    } else {
      PackedPixels<kWords> gray;
#pragma unroll
      for (int w = 0; w < kWords; ++w) gray.at[w] = four_luminances(words, w);
      if (Shape::kShifts) mask.apply(gray);
      return exchange_neighbours<kWords>(gray);
    }
  }

 private:
  static constexpr int kCopies =
      static_cast<int>(ceil_div(Shape::kVectors, kWarpSize));  // per lane

  // For the vector at byte `offset` of the band: the number of its bytes that are inside the row.
  __device__ int bytes_at(int offset) const {
    return offset > row_begin_ - kVectorBytes ? min(max(row_end_ - offset, 0), kVectorBytes) : 0;
  }

  // Packed luminances of colour pixels 4 * word to 4 * word + 3 of a lane.
  __device__ static unsigned four_luminances(const unsigned (&own)[Shape::kOwnWords], int word) {
    unsigned of[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int byte = (word * 4 + i) * Shape::kChannels;
      const unsigned pixel =
          byte % 4 == 0 ? own[byte / 4]
          : byte % 4 == 1
              ? own[byte / 4] >> 8
              : __funnelshift_r(own[byte / 4], own[byte / 4 + (byte % 4 > 1)], 8 * (byte % 4));
      of[i] = luminance(pixel);
    }
    return pack(of[0], of[1], of[2], of[3]);
  }

  // The border table of the warp. Side 0 is before the image, side 1 after it.
  static constexpr int kOutside = BorderTable::kOutside;

  __device__ std::uint32_t row_entry(int side, int i) const {
    return table_ + offsetof(BorderTable, rows) + side * sizeof(BorderTable::rows[0]) +
           i * sizeof(int);
  }
  __device__ std::uint32_t col_entry(int side, int i) const {
    return table_ + offsetof(BorderTable, cols) + side * sizeof(BorderTable::cols[0]) +
           i * sizeof(int);
  }

  __device__ void start_border(Border border, const Bands& bands, const BandWalk& walk,
                               std::int64_t begin, std::int64_t col) {
    const std::int64_t edges[2] = {-kOutside, bands.cols};
#pragma unroll
    for (int side = 0; side < 2; ++side)
      outside_at_[side] = clamp_distance(edges[side] - (col - 4));
    if (lane_ < 2 * kOutside) {
      const int side = lane_ / kOutside, i = lane_ % kOutside;
      const int index = i + (side == 0 ? 0 : walk.inside + walk.inside_rows);
      const std::int64_t row = walk.row + walk.direction * index;
      const std::int64_t edge = (side == 0 ? -kOutside : bands.cols) + i;
      store_shared_word(row_entry(side, i),
                        clamp_distance(border_index(border, row, bands.rows) - row));
      store_shared_word(col_entry(side, i),
                        clamp_distance(border_index(border, edge, bands.cols) - begin));
    }
    __syncwarp();
  }

  // Distance from the index-th row, which is outside the image, to the row that replaces it.
  __device__ int border_rows(const BandWalk& walk, int index) const {
    const bool before = index < walk.inside;
    const int i = before ? index : index - walk.inside - walk.inside_rows;
    return static_cast<int>(shared_word(row_entry(before ? 0 : 1, i)));
  }

  // Inserts the pixels outside the image into the words of the lane, in which those bytes are zero.
  __device__ void extend(std::uint32_t row, PixelsAround<kWords>& in) const {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      if (outside_at_[side] <= -kOutside || outside_at_[side] >= 4 * Shape::kAllWords) continue;
      unsigned at[4];
      shared_words<4>(col_entry(side, 0), at);
      std::uint64_t pixels = 0;
#pragma unroll
      for (int i = 0; i < kOutside; ++i)
        pixels |= std::uint64_t{shared_byte(row + at[i])} << (32 + 8 * i);
#pragma unroll
      for (int w = 0; w < Shape::kAllWords; ++w) {
        const int bit = 8 * outside_at_[side] - 32 * w;
        if (bit > -32 && bit < 32) in.at[w] |= static_cast<unsigned>(pixels >> (32 - bit));
      }
    }
  }

  int lane_;
  std::int64_t row_bytes_, pitch_;
  std::uint32_t ring_, table_;  // in shared memory: the lane's first vector; the warp's table
  const std::uint8_t *next_, *end_;
  bool nears_end_;           // a vector of this band could extend beyond end_
  unsigned address_;         // low bits of the address of the band's first byte
  int row_begin_, row_end_;  // in bytes from the band's first byte
  int bytes_[kCopies];       // inside the row, per vector that the lane copies; if rows are aligned
  unsigned inside_, left_inside_;  // masks for the lane's words, and for the word before them
  int outside_at_[2];  // first column before and after the image, in pixels from the word before
};

}  // namespace ado::cuda

#endif

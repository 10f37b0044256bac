// Engine: the rows of the sliding window at any alignment. RowSource supplies rows of gray pixels,
// from images of one, three or four channels, with any border. RowStore stores the results.
//
// Rows are prefetched: aligned 16-byte vectors are copied asynchronously to a ring in shared
// memory. Prefetching into registers does not work, because the compiler moves a load down to the
// use of its value. With register loads, the blur of 16384 x 16384 pixels takes 180 us instead of
// 144 and the gradient 167 us instead of 149 (H200, 2026).
//
// In unaligned rows, the copy starts up to 15 bytes before the row, and lanes assemble each word
// from two neighbouring words. If rows of RGBA pixels begin at multiples of 4 bytes, lanes shift
// the luminances instead, which have a quarter of the words.
//
//   vectors in the slot    | x x x x x r0 r1 r2 r3 r4 r5 r6 r7 ...      r0: first byte of the row,
//   32-bit words of it     |    w0   |     w1    |     w2    | ...          5 bytes into the slot
//   first word of the row              [r0 r1 r2   r3] = __funnelshift_r(w1, w2, 8 * (5 % 4))
#pragma once

#include "common/async_copy.cuh"
#include "image/engine/bands.cuh"
#include "image/packed_pixels.cuh"
#include "routines/gaussian_blur.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

// Index in [begin, end) of the pixel that replaces the pixel at `index`, which may be outside.
__device__ inline int border_index(Border border, int index, int begin, int end) {
  if (border == Border::kReplicate || end - begin == 1) return min(max(index, begin), end - 1);
  while (index < begin || index >= end) index = 2 * (index < begin ? begin : end - 1) - index;
  return index;
}

// Copies the first `bytes` bytes of a vector to shared memory and fills the rest with zeros. It
// does not read the other bytes of the source.
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

// Copies a vector to shared memory. If `exists` is false, it writes zeros and does not read. With a
// number of bytes as operand of cp.async, it compiles to six more instructions per copy.
__device__ inline void copy_vector_if(std::uint32_t to, const std::uint8_t* from, bool exists) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{.reg .pred skip;\nsetp.eq.u32 skip, %2, 0;\n"
      "cp.async.ca.shared.global [%0], [%1], 16, skip;}" ::"r"(to),
      "l"(from), "r"(static_cast<unsigned>(exists))
      : "memory");
#else
  uint4 vector = {};
  if (exists) vector = *reinterpret_cast<const uint4*>(from);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(vector.x), "r"(vector.y),
               "r"(vector.z), "r"(vector.w)
               : "memory");
#endif
}

__device__ inline unsigned low_bits(const std::uint8_t* address) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address));
}

// Sets the pixels of a lane that are outside the image to zero. `end` is the number of columns from
// the first one of the lane to the end of the image.
//
// kWhole: either all pixels of a lane are inside the image or none, and pixels of neighbours are
// not masked.
template <int kWords, bool kWhole>
struct ColumnMask {
  unsigned left = 0xffffffff;
  unsigned mask[kWhole ? 1 : kWords + 1];

  __device__ ColumnMask(bool first_in_row, int end) {
    if (first_in_row) left = 0;
#pragma unroll
    for (int w = 0; w < (kWhole ? 1 : kWords + 1); ++w) mask[w] = first_pixels(end - 4 * w);
  }
  // Lanes inside a row have no pixels outside.
  template <Place kPlace, class Pixels>
  __device__ void apply(AtPlace<kPlace>, Pixels& pixels) const {
    if constexpr (kPlace != Place::kInside) apply(pixels);
  }

 private:
  __device__ void apply(PackedPixels<kWords>& pixels) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) pixels.at[w] &= mask[kWhole ? 0 : w];
  }
  __device__ void apply(PixelsAround<kWords>& pixels) const {
    pixels.at[0] &= left;
#pragma unroll
    for (int w = 0; w < kWords + 1; ++w) pixels.at[w + 1] &= mask[kWhole ? 0 : w];
  }
};

// Copies rows to the ring of the calling warp, and reads rows from the ring.
//
// A lane reads kHalo bytes before its own bytes, its own bytes, and kHalo bytes after them. `next_`
// is the address of the first of these bytes in the next row to be copied. The lane copies
// kOwnVectors vectors. The first of them contains this byte. The last lane of a segment also copies
// the remaining vectors at the end of the segment. If the first vector of a lane is also a vector
// of its left neighbour, only the neighbour copies it.
//
//   a segment of three lanes, 8 bytes each, halo of 4:
//
//   vectors     |- - - - - - - - - - - - - - - -|- - - - - - - - - - - - - - - -|- - - - ...
//   bytes             h h h h 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 h h h h
//   lane 0 begins     ^ here; lane 1 begins 8 bytes later, in the same vector, and copies nothing
//
// All vectors that contain a byte of the row are copied entirely. In unaligned rows, the other
// bytes belong to neighbouring rows. After the row is read, a mask sets them to zero.
template <class Shape>
class RowSource {
  static constexpr int kWords = Shape::kWords, kHalo = Shape::kHalo;
  static constexpr int kOwnWords = Shape::kLaneBytes / 4, kAllWords = kOwnWords + 2 * kHalo / 4;

 public:
  // `shared` begins with the rings of the warps of the block.
  __device__ RowSource(const std::uint8_t* data, Border border, const Bands& bands,
                       const LaneWalk& walk, std::uint32_t ring)
      : border_(border),
        row_bytes_(bands.cols * Shape::kChannels),
        pitch_(walk.direction > 0 ? row_bytes_ : -row_bytes_),
        segment_start_(walk.segment_lane * Shape::kLaneBytes),
        first_in_segment_(walk.segment_lane == 0),
        last_in_segment_(walk.last_in_segment),
        at_(ring) {
    const std::int64_t rows = walk.image * bands.rows + walk.row;
    next_ = data + rows * row_bytes_ + walk.col * Shape::kChannels - kHalo;
    begin_ = data;
    end_ = data + bands.images * bands.rows * row_bytes_;
    address_ = low_bits(next_);
    bytes_ = walk.end > kFar / 8 ? kFar : walk.end * Shape::kChannels + kHalo;
    first_byte_ = walk.first_in_row ? kHalo : 0;
    // Conservative bounds of the bytes that this lane may copy: the first and the last row, and the
    // first and the last byte relative to a row.
    const std::int64_t other = rows + walk.direction * (walk.count - 1);
    const std::int64_t all_rows = bands.images * bands.rows;
    const std::int64_t first_byte = walk.col * Shape::kChannels - kHalo - kVectorBytes;
    const std::int64_t last_byte =
        walk.col * Shape::kChannels + Shape::kAllVectors * kVectorBytes + kVectorBytes;
    guards_ =
        !Shape::kAlignedIn && walk.exists &&
        (max(min(rows, other), std::int64_t{0}) * row_bytes_ + first_byte < 0 ||
         min(max(rows, other), all_rows - 1) * row_bytes_ + last_byte > all_rows * row_bytes_);

    // In a slot, the row of each segment begins at a multiple of 16 bytes.
    const int lane = threadIdx.x % kWarpSize;
    const int before = (lane - walk.segment_lane) * Shape::kLaneBytes;
    at_ += (before + kVectorBytes - 1) / kVectorBytes * kVectorBytes +
           walk.segment * Shape::kPadVectors * kVectorBytes;
    if (Shape::kAlignedIn) {
      at_ += start_in_segment(address_);
      next_ -= address_ % kVectorBytes;
    } else if (Shape::kWholeVectors) {
      at_ += segment_start_;
    }
    if constexpr (Shape::kAlignedIn)
#pragma unroll
      for (int i = 0; i < Shape::kAllVectors; ++i)
        rows_of_[i] = has_vector(i, address_ % kVectorBytes) ? walk.inside_rows : 0;
    if (Shape::kExtends) start_border(bands, walk);
  }

  // Calls `visit` with the place of the warp as a constant.
  template <class Visit>
  __device__ void with_place(const Bands& bands, const LaneWalk& walk, const Visit& visit) const {
    if constexpr (!Shape::kHasEdges) {
      visit(AtPlace<Place::kAtEnds>{});
    } else {
      const bool inside = walk.exists && !walk.first_in_row && walk.end >= 2 * Shape::kPixels;
      const bool simple = !guards_ && bands.cols >= Shape::kPixels;
      if (!__all_sync(kAllLanes, simple))
        visit(AtPlace<Place::kAnywhere>{});
      else if (!__all_sync(kAllLanes, inside))
        visit(AtPlace<Place::kAtEnds>{});
      else
        visit(AtPlace<Place::kInside>{});
    }
  }

  // Starts the copy of the index-th row, which must be the next one, in an iteration of the
  // unrolled loop. Copies are cached in L1, because neighbouring warps share vectors. Without L1,
  // the blur takes 10 % longer (H200, 2026).
  template <Place kPlace>
  __device__ void start_copy(AtPlace<kPlace>, const LaneWalk& walk, int index, int step) {
    const std::uint8_t* from = next_;
    bool row_exists = walk.has_row(index);
    if (Shape::kExtends && !row_exists && index < walk.count) {
      from += border_rows(index) * pitch_;
      row_exists = true;
    }
    std::uint32_t to = at_ + step % Shape::kRingRows * Shape::kSlotBytes;
    int start;  // position of the lane's first byte in its vector
    if constexpr (Shape::kAlignedIn) {
      start = static_cast<int>(address_ % kVectorBytes);
      to -= start;
    } else {
      start = static_cast<int>(low_bits(from) % kVectorBytes);
      if constexpr (!Shape::kWholeVectors) to += start_in_segment(low_bits(from)) - start;
      from -= start;
    }
    // Neighbouring lanes share a vector: if kShared > 0 and start >= kShared, the left neighbour
    // also copies the first vector of this lane.
    constexpr int kShared = Shape::kLaneBytes % kVectorBytes;
    const bool skips_first = kShared > 0 && start >= kShared && !first_in_segment_;
    if (kPlace == Place::kAnywhere && leaves_array(from)) {
      const int first = skips_first ? 1 : 0;
      copy_guarded(to + first * kVectorBytes, from + first * kVectorBytes, begin_,
                   row_exists ? end_ : from,
                   (last_in_segment_ ? Shape::kAllVectors : Shape::kOwnVectors) - first);
    } else if (kPlace == Place::kInside || !Shape::kExtends || walk.exists) {
#pragma unroll
      for (int i = 0; i < Shape::kAllVectors; ++i) {
        bool copies = row_exists;
        if constexpr (Shape::kAlignedIn)
          copies = Shape::kExtends
                       ? row_exists && (kPlace == Place::kInside || has_vector(i, start))
                       : static_cast<unsigned>(index - walk.inside) < rows_of_[i];
        if ((i < Shape::kOwnVectors || last_in_segment_) && !(i == 0 && skips_first))
          copy_vector_if(to + i * kVectorBytes, from + i * kVectorBytes, copies);
      }
    }
    commit_copies();
    advance(next_, pitch_);
  }

  // Reads the index-th row from its slot, as gray pixels, in an iteration of the unrolled loop.
  template <Place kPlace, class Mask>
  __device__ PixelsAround<kWords> read(AtPlace<kPlace> place, const LaneWalk& walk, int index,
                                       int step, const Mask& mask) const {
    std::uint32_t from = at_ + step % Shape::kRingRows * Shape::kSlotBytes;
    unsigned words[kAllWords];
    if constexpr (Shape::kAlignedIn) {
      if (kHalo > 0) {
        words[0] = shared_word(from);
        words[kAllWords - 1] = shared_word(from + 4 * (kAllWords - 1));
      }
      shared_words<kOwnWords>(from + kHalo, &words[kHalo / 4]);
    } else {
      unsigned address = address_ + static_cast<unsigned>(pitch_) * index;
      if (Shape::kExtends && !walk.has_row(index))
        address += border_rows(index) * static_cast<unsigned>(pitch_);
      if constexpr (Shape::kMovesGray) {
        shared_words<kOwnWords>(from, words);
        PackedPixels<kWords> gray = luminances(words);
        const unsigned next = __shfl_down_sync(kAllLanes, gray.at[0], 1);
        const unsigned moved = address / 4 % 4;  // pixels
#pragma unroll
        for (int w = 0; w < kWords; ++w)
          gray.at[w] =
              __funnelshift_r(gray.at[w], w + 1 < kWords ? gray.at[w + 1] : next, 8 * moved);
        mask.apply(place, gray);
        return exchange_neighbours<kWords>(gray);
      }
      from += Shape::kWholeVectors ? address % kVectorBytes : start_in_segment(address);
      if constexpr (Shape::kIn == RowStart::kWords) {
#pragma unroll
        for (int w = 0; w < kAllWords; ++w) words[w] = shared_word(from + 4 * w);
      } else {
        unsigned aligned[kAllWords + 1];
#pragma unroll
        for (int w = 0; w < kAllWords + 1; ++w)
          aligned[w] = shared_word(from - address % 4 + 4 * w);
#pragma unroll
        for (int w = 0; w < kAllWords; ++w)
          words[w] = __funnelshift_r(aligned[w], aligned[w + 1], 8 * address);
      }
    }

    if constexpr (Shape::kHaloWords) {
      PixelsAround<kWords> in;
#pragma unroll
      for (int w = 0; w < kAllWords; ++w) in.at[w] = words[w];
      if (!Shape::kAlignedIn) mask.apply(place, in);
      if (Shape::kExtends && kPlace != Place::kInside) extend(from, in);
      return in;
    } else {
      PackedPixels<kWords> gray = luminances(words);
      if (!Shape::kAlignedIn) mask.apply(place, gray);
      return exchange_neighbours<kWords>(gray);
    }
  }

 private:
  // Returns true if a copy from `from` could read outside the array.
  __device__ bool leaves_array(const std::uint8_t* from) const {
    return guards_ && (from < begin_ || from + Shape::kAllVectors * kVectorBytes > end_);
  }

  // Copies vectors that may begin before the array or end after it. Vectors entirely outside become
  // zeros, and bytes after the array are not read. A vector that begins before the array and ends
  // in it is read entirely: the bytes before the array belong to the same allocation, because
  // allocations are aligned to vectors.
  //
  // Not inlined, because calls are rare and inlining would make the loop over rows longer.
  static __device__ __noinline__ void copy_guarded(std::uint32_t to, const std::uint8_t* from,
                                                   const std::uint8_t* begin,
                                                   const std::uint8_t* end, int vectors) {
#pragma unroll 1
    for (int i = 0; i < vectors; ++i) {
      const std::int64_t bytes = from + kVectorBytes > begin ? end - from : 0;
      if (bytes > 0 && bytes < kVectorBytes)
        copy_bytes(to, from, static_cast<int>(bytes));
      else
        copy_vector_if(to, from, bytes > 0);
      to += kVectorBytes;
      from += kVectorBytes;
    }
  }

  // Returns true if the i-th vector of the lane contains a byte of the row. `start` is the position
  // of the lane's first byte in the first vector.
  __device__ bool has_vector(int i, int start) const {
    const int first = i * kVectorBytes - start;
    return first < bytes_ && (i > 0 || first + kVectorBytes > first_byte_);
  }

  // Position of the lane's first byte in the segment's row in a slot, if this byte is at `address`.
  __device__ unsigned start_in_segment(unsigned address) const {
    return (address - segment_start_) % kVectorBytes + segment_start_;
  }

  // Packed luminances of the colour pixels of a lane.
  __device__ static PackedPixels<kWords> luminances(const unsigned (&own)[kAllWords]) {
    PackedPixels<kWords> gray;
#pragma unroll
    for (int w = 0; w < kWords; ++w) gray.at[w] = four_luminances(own, w);
    return gray;
  }

  // Packed luminances of colour pixels 4 * word to 4 * word + 3 of a lane.
  __device__ static unsigned four_luminances(const unsigned (&own)[kAllWords], int word) {
    unsigned of[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int byte = (word * 4 + i) * Shape::kChannels;
      of[i] = byte % 4 == 0   ? luminance(own[byte / 4])
              : byte % 4 == 1 ? luminance<1>(own[byte / 4])
                              : luminance(__funnelshift_r(
                                    own[byte / 4], own[byte / 4 + (byte % 4 > 1)], 8 * (byte % 4)));
    }
    return pack(of[0], of[1], of[2], of[3]);
  }

  __device__ void start_border(const Bands& bands, const LaneWalk& walk) {
    top_ = walk.top;
    bottom_ = walk.bottom;
    // In columns relative to the lane, the image is [-col, end).
    const int begin = -clamp_distance(walk.col);
    before_ = after_ = 0;
    first_in_row_ = walk.exists && walk.first_in_row;
    end_col_ = walk.exists && walk.end > 0 ? walk.end : kFar;
#pragma unroll
    for (int i = 0; i < kOutside; ++i) {
      const auto byte = [&](int col) {
        return static_cast<unsigned>(border_index(border_, col, begin, end_col_) + kHalo)
               << (8 * i);
      };
      if (first_in_row_) before_ |= byte(i - kOutside);
      if (end_col_ < Shape::kPixels + kHalo) after_ |= byte(end_col_ + i);
    }
  }

  // Distance from the index-th row, which is outside the image, to the row that replaces it, in the
  // direction of the band.
  __device__ int border_rows(int index) const {
    return border_index(border_, index, -top_, bottom_) - index;
  }

  // Inserts the pixels outside the image into the words of the lane, in which these bytes are zero.
  // `from` is the address of the first word in the ring.
  __device__ void extend(std::uint32_t from, PixelsAround<kWords>& in) const {
    if (first_in_row_) in.at[0] |= replaced(from, before_) << 8;
    if (end_col_ < Shape::kPixels + kHalo) {
      const std::uint64_t pixels = std::uint64_t{replaced(from, after_)} << 32;
#pragma unroll
      for (int w = 0; w < kAllWords; ++w) {
        const int bit = 8 * (end_col_ + kHalo) - 32 * w;  // position of the first pixel outside
        if (bit > -32 && bit < 32) in.at[w] |= static_cast<unsigned>(pixels >> (32 - bit));
      }
    }
  }

  // Loads three pixels at the given distances from `from` and packs them.
  __device__ static unsigned replaced(std::uint32_t from, unsigned bytes) {
    unsigned pixels = 0;
#pragma unroll
    for (int i = 0; i < kOutside; ++i)
      pixels |= shared_byte(from + (bytes >> (8 * i)) % 256) << (8 * i);
    return pixels;
  }

  static constexpr int kOutside = 3;  // rows and columns outside the image that a border replaces

  Border border_;
  std::int64_t row_bytes_, pitch_;
  unsigned segment_start_;  // distance of the lane from the beginning of its segment in bytes
  bool first_in_segment_, last_in_segment_;
  std::uint32_t at_;  // address in the ring
  const std::uint8_t* next_;
  const std::uint8_t *begin_, *end_;  // of the array
  bool guards_;                       // a vector of the lane may be outside the array
  unsigned address_;  // low bits of the address of the lane's first byte in the first row
  int first_byte_;    // index of the lane's first byte that is inside the row
  unsigned rows_of_[Shape::kAllVectors];  // aligned rows only: number of rows to copy per vector
  int bytes_;                             // from the lane's first byte to the end of the row
  // Used only if the border extends the image:
  int top_, bottom_;         // as in LaneWalk
  bool first_in_row_;        // as in LaneWalk
  int end_col_;              // columns from the first one of the lane to the end of the image
  unsigned before_, after_;  // bytes of the lane that replace the pixels before and after the row
};

template <int kWords>
__device__ void store_pixels(std::uint8_t* to, const PackedPixels<kWords>& pixels) {
  const std::size_t at = __cvta_generic_to_global(to);
  if constexpr (kWords == 4)
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(pixels.at[0]),
                 "r"(pixels.at[1]), "r"(pixels.at[2]), "r"(pixels.at[3])
                 : "memory");
  else if constexpr (kWords == 2)
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(pixels.at[0]), "r"(pixels.at[1])
                 : "memory");
  else
    asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(pixels.at[0]) : "memory");
}

// Stores the rows of the last stage. In unaligned rows, each lane stores the aligned vector that
// starts `late` bytes after the first of its own pixels. The last bytes of that vector are pixels
// of the right neighbour:
//
//   pixels of lanes      A0 A1 A2 | A3 ... A7  B0 B1 B2 | B3 ... B7  C0 C1 C2 |    8 per lane,
//   aligned vectors               |  lane A stores this |  lane B stores this |    late = 3
//
// The first `late` pixels of a row and the pixels after its last whole vector are stored as words
// and bytes.
template <class Shape>
class RowStore {
  static constexpr int kWords = Shape::kWords, kPixels = Shape::kPixels;
  static constexpr bool kBytes = Shape::kOut == RowStart::kBytes;

 public:
  __device__ RowStore(std::uint8_t* out, const Bands& bands, const LaneWalk& walk)
      : to_(out +
            (walk.image * bands.rows + walk.row - walk.direction * Shape::kRadius) * bands.cols +
            walk.col),
        pitch_(walk.direction > 0 ? bands.cols : -bands.cols),
        end_(walk.end),
        whole_(walk.end - kPixels),
        first_in_row_(walk.first_in_row),
        at_edge_(walk.first_in_row || walk.end < 2 * kPixels) {}

  // Stores the next row if `stores` is true, and advances to the row after it.
  template <Place kPlace>
  __device__ void operator()(AtPlace<kPlace>, const PackedPixels<kWords>& pixels, bool stores) {
    if constexpr (Shape::kAlignedOut) {
      if (stores) store_pixels<kWords>(to_, pixels);
    } else {
      const int late = static_cast<int>(-reinterpret_cast<std::uintptr_t>(to_) % kPixels);
      const PackedPixels<kWords> moved = move_left(pixels, late);
      if (stores && (kPlace == Place::kInside || late <= whole_))
        store_pixels<kWords>(to_ + late, moved);
      if (kPlace != Place::kInside && stores && at_edge_) {
        if (kPlace == Place::kAnywhere && first_in_row_ && end_ < late)
          store_short(to_, pixels, end_);
        else if (first_in_row_)
          store_begin(to_, pixels, late);
        if (end_ > late && end_ < late + kPixels) store_end(to_ + late, moved, end_ - late);
      }
    }
    advance(to_, pitch_);
  }

 private:
  // Shifts a row left by `count` pixels across lanes. Whole words are shifted in steps of powers of
  // two, so that registers have constant indices. The remaining zero to three pixels are shifted by
  // a funnel shift.
  __device__ static PackedPixels<kWords> move_left(const PackedPixels<kWords>& pixels, int count) {
    unsigned both[2 * kWords];  // the lane's own words, then the right neighbour's
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      both[w] = pixels.at[w];
      both[kWords + w] = __shfl_down_sync(kAllLanes, pixels.at[w], 1);
    }
#pragma unroll
    for (int stride = kWords / 2; stride > 0; stride /= 2)
#pragma unroll
      for (int w = 0; w + stride < 2 * kWords; ++w)
        if (count & (4 * stride)) both[w] = both[w + stride];
    PackedPixels<kWords> moved;
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      moved.at[w] = kBytes ? __funnelshift_r(both[w], both[w + 1], 8 * count) : both[w];
    return moved;
  }

  static __device__ void store_byte(std::uint8_t* to, unsigned byte) {
    asm volatile("st.global.u8 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(byte)
                 : "memory");
  }

  // Stores the first `count` pixels of a word. `count` is less than four.
  static __device__ void store_bytes(std::uint8_t* to, unsigned word, int count) {
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (i < count) store_byte(to + i, word >> (8 * i));
  }

  // Stores the `count` pixels before an aligned vector: bytes, then words. All stores are
  // predicated, because branches take longer and the warps at the ends of rows finish last.
  static __device__ void store_begin(std::uint8_t* to, const PackedPixels<kWords>& pixels,
                                     int count) {
    const int bytes = kBytes ? count % 4 : 0;
    if (kBytes) store_bytes(to, pixels.at[0], bytes);
#pragma unroll
    for (int w = 0; w + 1 < kWords; ++w)
      if (4 * w + 4 <= count)
        store_pixels<1>(to + bytes + 4 * w,
                        {__funnelshift_r(pixels.at[w], pixels.at[w + 1], 8 * bytes)});
  }

  // Stores the first `count` pixels of an aligned vector: words, then bytes.
  static __device__ void store_end(std::uint8_t* to, const PackedPixels<kWords>& pixels,
                                   int count) {
    unsigned last = pixels.at[0];
#pragma unroll
    for (int w = 0; w + 1 < kWords; ++w) {
      if (4 * w + 4 > count) continue;
      store_pixels<1>(to + 4 * w, {pixels.at[w]});
      last = pixels.at[w + 1];
    }
    if (kBytes) store_bytes(to + count / 4 * 4, last, count % 4);
  }

  // Stores a row that ends before its first aligned vector. Not inlined, because such rows are
  // rare.
  static __device__ __noinline__ void store_short(std::uint8_t* to, PackedPixels<kWords> pixels,
                                                  int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      store_byte(to + i, pixels.at[0]);
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        pixels.at[w] = __funnelshift_r(pixels.at[w], w + 1 < kWords ? pixels.at[w + 1] : 0, 8);
    }
  }

  std::uint8_t* to_;
  std::int64_t pitch_;
  int end_;    // columns from the first one of the lane to the end of the image
  int whole_;  // greatest `late` for which the aligned vector is inside the row
  bool first_in_row_, at_edge_;
};

}  // namespace ado::cuda

#endif

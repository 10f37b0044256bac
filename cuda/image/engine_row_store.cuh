// Engine: stores the rows of the sliding window, also in rows that begin at any address.
#pragma once

#include "image/engine_bands.cuh"
#include "image/packed_pixels.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

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

  // Stores the next row, which is the row-th of the band. A negative row is not stored.
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

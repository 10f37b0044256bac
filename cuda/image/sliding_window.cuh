// The sliding window: stages of image filters that stream rows of pixels through registers.
//
// A warp processes its part of one or more bands (bands.cuh) row by row. Each lane holds a few
// words of four neighbouring pixels. In each iteration, a stage receives one row, keeps the values
// that later rows need, and returns the row that is now complete. Stages can be chained: each stage
// receives the rows that the previous one returns, and no intermediate image is written to memory.
//
// Rows are prefetched to a ring in shared memory (row_source.cuh). In iteration i, with kRingRows =
// 4:
//
//     slot 0        slot 1        slot 2        slot 3
//   +-----------+ +-----------+ +-----------+ +-----------+
//   |  row i    | |  row i+1  | |  row i+2  | |  row i+3  |
//   +-----------+ +-----------+ +-----------+ +-----------+
//     read now      in flight     in flight     copy starts: row i-1, which was here, has been read
//
// The copy starts after row i has been read from the ring, so that the loads of row i are not
// queued behind the copies.
//
// Rows at the seam of two bands are loaded twice, but at about the same time, so DRAM is read once.
//
// Times in the comments are for 16384 x 16384 pixels on an H200, L2 flushed; a copy takes 129 us.
#pragma once

#include "image/row_source.cuh"
#include "image/stages.cuh"

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

  // Stores the next row. Only lanes for which `stores` is true store.
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

template <class Shape, class... Stages>
__global__ void __launch_bounds__(kWindowBlock.x, blocks_held(Shape::kBlocks, kWindowBlock.x))
    sliding_window(const std::uint8_t* in, Border border, std::uint8_t* out, Bands bands,
                   typename Stages::Options... options) {
  constexpr int kWords = Shape::kWords, kRadius = Shape::kRadius, kRingRows = Shape::kRingRows;
  static_assert(kRadius == StageChain<Stages...>::kRadius);
  static_assert(!Shape::kHaloWords || sizeof...(Stages) == 1);
  extern __shared__ uint4 shared[];
  const int lane = threadIdx.x % kWarpSize;
  const std::int64_t warp = thread_x() / kWarpSize;
  if (warp * Shape::kStoringLanes >= bands.all_lanes()) return;  // the grid is rounded up

  const LaneWalk walk(bands, warp, lane, Shape{});
  const auto ring = shared_address(shared) + threadIdx.x / kWarpSize * Shape::kRingBytes;
  RowSource<Shape> source(in, border, bands, walk, ring);
  StageChain<Stages...> chain(walk.direction, options...);
  using Mask = ColumnMask<kWords, Shape::kAlignedIn>;
  const Mask mask(walk.first_in_row, walk.end);
  RowStore<Shape> store(out, bands, walk);
  const bool stores =
      lane >= Shape::kFirstLane && lane <= Shape::kLastLane && walk.exists && walk.end > 0;
  const unsigned stored = stores ? static_cast<unsigned>(walk.count - 2 * kRadius) : 0;

  const auto stream_rows = [&]<Place kPlace>(AtPlace<kPlace> place) {
    using UsedMask = std::conditional_t<kPlace == Place::kInside, NoMask, Mask>;
#pragma unroll
    for (int i = 0; i < kRingRows - 1; ++i) source.start_copy(place, walk, i, i);
#pragma unroll 1
    for (int first = 0; first < bands.height + 2 * kRadius; first += Shape::kUnrolled) {
#pragma unroll
      for (int step = 0; step < Shape::kUnrolled; ++step) {
        const int index = first + step;
        // After this, row `index` is visible to all lanes, and all lanes have read row `index - 1`,
        // so its slot can be overwritten.
        wait_for_copies<kRingRows - 2>();
        __syncwarp();
        const UsedMask& used = mask;
        const PixelsAround<kWords> row = source.read(place, walk, index, step % kRingRows, used);
        source.start_copy(place, walk, index + kRingRows - 1, (step + kRingRows - 1) % kRingRows);
        const PackedPixels<kWords> result = chain.push(step, index, row, walk, used);
        store(place, result, static_cast<unsigned>(index - 2 * kRadius) < stored);
      }
    }
  };
  if constexpr (!Shape::kHasEdges) {
    stream_rows(AtPlace<Place::kAtEnds>{});
  } else {
    const bool inside = walk.exists && !walk.first_in_row && walk.end >= 2 * Shape::kPixels;
    const bool simple = !source.could_leave_array() && bands.cols >= Shape::kPixels;
    if (!__all_sync(kAllLanes, simple))
      stream_rows(AtPlace<Place::kAnywhere>{});
    else if (!__all_sync(kAllLanes, inside))
      stream_rows(AtPlace<Place::kAtEnds>{});
    else
      stream_rows(AtPlace<Place::kInside>{});
  }
  // The kernel does not wait for the copies that are still in flight. They belong to rows after the
  // last one, so they read nothing, and the zeros that they write are never read.
}

}  // namespace ado::cuda

#endif

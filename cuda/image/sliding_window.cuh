// The sliding window: stages of image filters that stream rows of pixels through registers.
//
// A warp processes a band of an image (bands.cuh) row by row. The band is as wide as the pixels of
// the warp's lanes and 10 to about 70 rows high. Each lane holds a few words of four neighbouring
// pixels. In each iteration, a stage takes one row, keeps the values that later rows need, and
// returns the row that is now complete. Stages can be chained: each stage takes the rows that the
// previous one returns, and no intermediate image is written to memory.
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
// Rows at the seam of two bands are loaded twice, but at about the same time, so DRAM is read once.
//
// Times in the comments are for 16384 x 16384 pixels on an H200, L2 flushed; a copy takes 129 us.
#pragma once

#include "common/async_copy.cuh"
#include "common/warp.cuh"
#include "image/bands.cuh"
#include "image/row_source.cuh"
#include "image/stages.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

template <int kWords>
__device__ void store_pixels(std::uint8_t* to, const PackedPixels<kWords>& pixels) {
  static_assert(kWords == 2 || kWords == 4);
  const std::size_t at = __cvta_generic_to_global(to);
  if constexpr (kWords == 4)
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(pixels.at[0]),
                 "r"(pixels.at[1]), "r"(pixels.at[2]), "r"(pixels.at[3])
                 : "memory");
  else
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(pixels.at[0]), "r"(pixels.at[1])
                 : "memory");
}

// ---------------------------------------------------------------------------------------------
// Stores the rows of the last stage. In unaligned rows, each lane stores the aligned vector that
// starts `early` bytes before its own pixels. The first bytes of that vector are pixels of the left
// neighbour:
//
//   pixels of lanes    .. A5 A6 A7 | B0 B1 B2 B3 B4 B5 B6 B7 | C0 C1 C2 ..    8 per lane, early = 3
//   aligned vectors     | A5 A6 A7   B0 B1 B2 B3 B4 | B5 B6 B7   C0 C1 C2 ..
//                         lane B stores this vector   lane C stores this one
//
// A vector that would start before the row or end after it is stored byte by byte.
template <int kWords, bool kAligned>
class RowStore {
 public:
  __device__ RowStore(std::uint8_t* out, const Bands& bands, const BandWalk& walk, std::int64_t col,
                      int radius)
      : to_(out + (walk.image * bands.rows + walk.row - walk.direction * radius) * bands.cols +
            col),
        pitch_(walk.direction * bands.cols),
        col_(clamp_distance(col)),
        end_(clamp_distance(bands.cols - col)) {}

  // Stores the next row, in the lanes for which `stores` is true.
  __device__ void operator()(PackedPixels<kWords> pixels, bool stores) {
    if constexpr (kAligned) {
      if (stores) store_pixels<kWords>(to_, pixels);
    } else {
      const int early = static_cast<int>(reinterpret_cast<std::uintptr_t>(to_) % (4 * kWords));
      pixels = move_right(pixels, early);
      std::uint8_t* to = to_ - early;
      const int begin = early - col_, end = end_ + early;  // of the row, in pixels from `to`
      if (stores && begin <= 0 && end >= 4 * kWords) {
        store_pixels<kWords>(to, pixels);
      } else if (stores) {
#pragma unroll 1
        for (int i = 0; i < min(end, 4 * kWords); ++i) {
          if (i >= begin) to[i] = static_cast<std::uint8_t>(pixels.at[0]);
#pragma unroll
          for (int w = 0; w < kWords; ++w)
            pixels.at[w] = __funnelshift_r(pixels.at[w], w + 1 < kWords ? pixels.at[w + 1] : 0, 8);
        }
      }
    }
    advance(to_, pitch_);
  }

 private:
  // Shifts a row right by `count` pixels across lanes. Whole words are shifted in steps of powers
  // of two, so that registers have constant indices. The remaining zero to three pixels are shifted
  // by a funnel shift.
  __device__ static PackedPixels<kWords> move_right(const PackedPixels<kWords>& pixels, int count) {
    unsigned both[2 * kWords + 1];  // the left neighbour's words, then the lane's own
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      both[w] = __shfl_up_sync(kAllLanes, pixels.at[w], 1);
      both[kWords + w] = pixels.at[w];
    }
    both[2 * kWords] = 0;
    const int first = 4 * kWords - count;
#pragma unroll
    for (int stride = kWords; stride > 0; stride /= 2)
#pragma unroll
      for (int w = 0; w + stride <= 2 * kWords; ++w)
        if (first & (4 * stride)) both[w] = both[w + stride];
    PackedPixels<kWords> moved;
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
__global__ void __launch_bounds__(kWindowBlock.x, blocks_held(Shape::kBlocks, kWindowBlock.x))
    sliding_window(const std::uint8_t* in, Border border, std::uint8_t* out, Bands bands,
                   typename Stages::Options... options) {
  constexpr int kWords = Shape::kWords, kRadius = Shape::kRadius, kRingRows = Shape::kRingRows;
  static_assert(kRadius == StageChain<Stages...>::kRadius);
  static_assert(!Shape::kHaloWords || sizeof...(Stages) == 1);
  extern __shared__ uint4 shared[];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const std::int64_t band = block_x() * (blockDim.x / kWarpSize) + warp;
  const std::int64_t band_col = band * Shape::kBandCols - Shape::kFirstLane * Shape::kPixels;
  const std::int64_t col = band_col + lane * Shape::kPixels;
  const auto ring = shared_address(shared) + warp * (Shape::kRingBytes + Shape::kTableBytes);

  const BandWalk walk(bands, kRadius);
  if (walk.count == 0 || band >= bands.across) return;  // the grid is rounded up
  RowSource<Shape> source(in, border, bands, walk, band_col, ring);
  StageChain<Stages...> chain(walk.direction, options...);
  const ColumnMask<kWords, Shape::kAligned> mask(col, bands.cols);
  RowStore<kWords, Shape::kAligned> store(out, bands, walk, col, kRadius);
  const bool stores = lane >= Shape::kFirstLane && lane <= Shape::kLastLane &&
                      col < bands.cols + (Shape::kAligned ? 0 : Shape::kPixels - 1);
  const unsigned stored = stores ? static_cast<unsigned>(walk.count - 2 * kRadius) : 0;

#pragma unroll
  for (int i = 0; i < kRingRows - 1; ++i) source.start_copy(walk, i, i);
#pragma unroll 1
  for (int first = 0; first < walk.count; first += Shape::kUnrolled) {
#pragma unroll
    for (int step = 0; step < Shape::kUnrolled; ++step) {
      const int index = first + step;
      // After this, row `index` is visible to all lanes, and all lanes have read row `index - 1`,
      // so its slot can be overwritten.
      wait_for_copies<kRingRows - 2>();
      __syncwarp();
      source.start_copy(walk, index + kRingRows - 1, (step + kRingRows - 1) % kRingRows);
      const PixelsAround<kWords> row = source.read(walk, index, step % kRingRows, mask);
      const PackedPixels<kWords> result = chain.push(step, index, row, walk, mask);
      store(result, static_cast<unsigned>(index - 2 * kRadius) < stored);
    }
  }
  // The kernel does not wait for the copies that are still in flight. They belong to rows after the
  // last one, so they read nothing, and the zeros that they write are never read.
}

}  // namespace ado::cuda

#endif

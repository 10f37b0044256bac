// The sliding window: a warp moves down an image and computes each row of the result from sums that
// its lanes keep in registers. This file contains the whole idea: the blur of one row, and the loop
// over rows. engine/ supplies the rows at any alignment, border and image size.
//
//   lane          0         1         2            Each lane has 4 to 16 neighbouring columns.
//   columns   | 0 .. 7 | 8 .. 15 | 16 .. 23 | ...
//
//   row i-6        .         .         .           In iteration i, a lane reads row i and adds it
//     ...          .         .         .           to the sums of the rows before it. It returns
//   row i-3     stored    stored    stored         row i-3, because all rows that this result
//     ...          .         .         .           depends on have been read now.
//   row i        read      read      read
//
// The naive kernel loads each pixel 49 times. Here, a warp loads it from memory once, and no
// intermediate result leaves the registers.
//
// Rows are copied ahead of their use to a ring in shared memory. In iteration i, with four rows:
//
//     slot 0        slot 1        slot 2        slot 3
//   +-----------+ +-----------+ +-----------+ +-----------+
//   |  row i    | |  row i+1  | |  row i+2  | |  row i+3  |
//   +-----------+ +-----------+ +-----------+ +-----------+
//     read now      in flight     in flight     copy starts: row i-1, which was here, has been read
//
// A warp does not process a whole image but a band of a few dozen rows, so that there are enough
// warps. It also reads the kRadius rows above and below the band: row 0 of the loop is kRadius rows
// before the band. Odd bands move up the image; the default taps are symmetric. For gray images,
// lanes read the pixels on either side of their columns from the ring, too.
#pragma once

#include "image/engine/rows.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// ---- sliding_window, fused ----------------------------------------------------------------------
// Gaussian blur with the default taps [1 2 3 4 3 2 1]. Along the rows, it uses dot products of
// bytes. Down the columns, it convolves with [1 2 1] and then with [1 0 2 0 1], from sums that are
// kept per column:
//
//   r[i]            the weighted sum along row i
//   two[i]   = r[i] + r[i-1]             [1 1]
//   three[i] = two[i] + two[i-1]         [1 2 1]
//   five[i]  = three[i] + three[i-2]     [1 2 2 2 1]
//   seven[i] = five[i] + five[i-2]       [1 2 3 4 3 2 1]
//
// No sum exceeds 255 * 256, so two pixels share a register.
//
// [1 2 3 4 3 2 1] is also the convolution of [1 1 1 1] with itself. Using [1 1 1 1] twice would
// save two additions per two pixels but keep nine rows instead of six. With 16 pixels per lane,
// nine rows do not fit into registers (159 us instead of 144 for 16384 x 16384 pixels, H200, 2026).
// With eight pixels per lane, both take 147 us.
template <int kWords>
class GaussianStage {
 public:
  static constexpr int kRadius = 3;
  struct Options {};

  __device__ GaussianStage(int, Options) {}

  __device__ PackedPixels<kWords> push(int step, const PixelsAround<kWords>& in) {
    PackedPixels<kWords> out;
#pragma unroll
    for (int w = 0; w < kWords; ++w)  // the upper byte of each half is the sum >> 8
      out.at[w] =
          __byte_perm(column_sums(step, 2 * w, in), column_sums(step, 2 * w + 1, in), 0x7531);
    return out;
  }

 private:
  static constexpr int kPairs = 2 * kWords;

  // Returns the weighted sums of a pair of pixels, one in each half of the register.
  __device__ unsigned column_sums(int step, int pair, const PixelsAround<kWords>& in) {
    const unsigned row = weigh(in, 2 * pair, weigh(in, 2 * pair + 1, 0) << 16);
    const unsigned two = row + row_[pair], three = two + two_[pair];
    const unsigned five = three + three_[step % 2][pair], seven = five + five_[step % 2][pair];
    row_[pair] = row;
    two_[pair] = two;
    three_[step % 2][pair] = three;
    five_[step % 2][pair] = five;
    return seven;
  }

  // Adds the weighted sum along the row around a pixel to `sum`: pixels -3 to 0 with the taps 1 2 3
  // 4, pixels 1 to 4 with the taps 3 2 1 0.
  __device__ static unsigned weigh(const PixelsAround<kWords>& in, int pixel, unsigned sum) {
    return __dp4a(in.four_from(pixel - 3), 0x04030201u,
                  __dp4a(in.four_from(pixel + 1), 0x00010203u, sum));
  }

  // The sums of the previous row, or of the previous two rows.
  unsigned row_[kPairs] = {}, two_[kPairs] = {}, three_[2][kPairs] = {}, five_[2][kPairs] = {};
};

// The loop over the rows of a band. `Stage` processes the rows: push(step, row) takes the
// next row of pixels and returns the result for the row kRadius before it. The row may also be
// pushed through two filters (edge_detect/steps.cu). `step` is the iteration within the unrolled
// loop, from which stages compute constant positions in their rings of two or four rows.
//
// `Shape` has the constants of the loop (engine/bands.cuh). `place` tells the engine whether lanes
// of the warp are at the ends of rows.
template <class Shape, class Stage>
__global__ void __launch_bounds__(kWindowBlock.x, blocks_held(Shape::kBlocks, kWindowBlock.x))
    sliding_window(const std::uint8_t* in, Border border, std::uint8_t* out, Bands bands,
                   typename Stage::Options options) {
  constexpr int kWords = Shape::kWords, kRadius = Stage::kRadius, kAhead = Shape::kRingRows - 1;
  static_assert(kRadius == Shape::kRadius);
  extern __shared__ uint4 shared[];
  const int lane = threadIdx.x % kWarpSize;
  const std::int64_t warp = thread_x() / kWarpSize;
  if (warp * Shape::kStoringLanes >= bands.all_lanes()) return;  // the grid is rounded up

  const LaneWalk walk(bands, warp, lane, Shape{});  // the lane's columns, and the rows of its band
  const auto ring = shared_address(shared) + threadIdx.x / kWarpSize * Shape::kRingBytes;
  RowSource<Shape> source(in, border, bands, walk, ring);
  Stage stage(walk.direction, options);
  const ColumnMask<kWords, Shape::kAlignedIn> mask(walk.first_in_row, walk.end);
  RowStore<Shape> store(out, bands, walk);

  const bool stores =
      lane >= Shape::kFirstLane && lane <= Shape::kLastLane && walk.exists && walk.end > 0;
  const int behind = 2 * kRadius - bands.skipped;  // iterations before the first result
  const unsigned stored = stores ? static_cast<unsigned>(walk.count - behind) : 0;
  const auto visit = [&](auto place) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) source.start_copy(place, walk, i, i);
#pragma unroll 1
    for (int first = 0; first < bands.height + behind; first += Shape::kUnrolled) {
#pragma unroll
      for (int step = 0; step < Shape::kUnrolled; ++step) {
        const int index = first + step;
        // After this, row `index` is visible to all lanes, and all lanes have read row `index - 1`,
        // so its slot can be overwritten. The copy starts after row `index` has been read, so that
        // these loads are not queued behind the copies.
        wait_for_copies<kAhead - 1>();
        __syncwarp();
        const PixelsAround<kWords> row = source.read(place, walk, index, step, mask);
        source.start_copy(place, walk, index + kAhead, step + kAhead);

        PackedPixels<kWords> result;
        if constexpr (Shape::kChannels == 1)
          result = stage.push(step, row);
        else  // edge detection, two filters: between them, pixels outside the image are zero
          result = stage.push(step, row, [&](PackedPixels<kWords>& between, int behind) {
            mask.apply(place, between);
            if (!walk.has_row(index - behind)) between = {};
          });
        store(place, result, static_cast<unsigned>(index - behind) < stored);
      }
    }
  };
  source.with_place(bands, walk, visit);
  // The kernel does not wait for the copies that are still in flight. They belong to rows after the
  // last one, so they read nothing, and the zeros that they write are never read.
}

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

#endif

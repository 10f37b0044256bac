// Transpose, a step for devices of compute capability 9.0 and later: `tma`. The tensor memory
// accelerator copies boxes of a to shared memory, so that threads neither compute addresses of a
// nor hold its elements in registers while they are in flight.
//
//   a in global memory --boxes with lines of 128 bytes, swizzled--> shared memory
//   shared memory --16 bytes--> registers --transposed, 16 bytes--> out in global memory
//
// As in `wide`, a thread transposes micro-tiles of kSide x kSide elements in registers. On an H100
// (2026), storing boxes of out with the accelerator as well takes up to 3 % longer: elements then
// pass through shared memory twice, with two more barriers.
#pragma once

#include "common/tensor_copy.cuh"
#include "transpose/wide_step.cuh"

namespace ado::cuda {
namespace {

constexpr int kBoxThreads = 128;

// The tile of a thread block: two boxes beside each other. In a warp, kAcross micro-tiles are
// beside each other and kDown below each other, so that eight lanes that access shared memory
// together access eight different positions of the swizzle. Each thread holds 256 bytes.
template <int kSize>
struct BoxTile {
  static constexpr int kSide = kVectorBytes / kSize;  // elements per vector, side of a micro-tile
  static constexpr int kBoxes = 2, kRows = 128;
  static constexpr int kVectors = kBoxes * kBoxLine / kVectorBytes;  // per row
  static constexpr int kCols = kVectors * kSide;                     // elements of a
  static constexpr int kBoxBytes = kRows * kBoxLine;
  static constexpr int kBytes = kBoxes * kBoxBytes;  // of shared memory
  static constexpr int kAcross = std::min(kSide, 8), kDown = kWarpSize / kAcross;
  static constexpr int kSetsDown = kRows / kSide / kDown;  // sets of micro-tiles of a warp
  static constexpr int kMicroTiles = kVectors * (kRows / kSide) / kBoxThreads;  // per thread
};

Extent grid_of_boxes(const Transpose& p) {
  return with_size(p, [&](auto size) {
    return grid_of(ceil_div(p.rows(), BoxTile<size>::kRows),
                   ceil_div(p.cols(), BoxTile<size>::kCols));
  });
}

#ifdef __CUDACC__

// Rows of a and out are aligned to 16 bytes. Columns of out are indexed in bytes.
template <int kSize>
__global__ void __launch_bounds__(kBoxThreads)
    transpose_tma(const __grid_constant__ CUtensorMap a, Bytes out) {
#if __CUDA_ARCH__ >= 900
  using Tile = BoxTile<kSize>;
  using Words = Vector<unsigned, kVectorBytes / 4>;
  using Elements = Vector<Element<kSize>, Tile::kSide>;
  constexpr int kSide = Tile::kSide;
  extern __shared__ __align__(kBoxAlignment) std::byte boxes[];
  __shared__ CopyBarrier barrier;

  const std::int64_t first_row = block_x() * Tile::kRows, first_col = block_y() * Tile::kCols;
  if (first_col >= out.rows) return;  // the grid is rounded up
  if (threadIdx.x == 0) {
    barrier.expect(Tile::kBytes);
#pragma unroll
    for (int box = 0; box < Tile::kBoxes; ++box)
      barrier.copy_box(boxes + box * Tile::kBoxBytes, a, static_cast<int>(first_row),
                       static_cast<int>(first_col * kSize) + box * kBoxLine);
  }
  __syncthreads();
  barrier.wait();

  // Micro-tile m of the thread: vector `across` of the rows of group `down`.
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const auto down = [&](int m) {
    const int set = warp + m * (kBoxThreads / kWarpSize);
    return set % Tile::kSetsDown * Tile::kDown + lane / Tile::kAcross;
  };
  const auto across = [&](int m) {
    const int set = warp + m * (kBoxThreads / kWarpSize);
    return set / Tile::kSetsDown * Tile::kAcross + lane % Tile::kAcross;
  };

  Words micro_tile[Tile::kMicroTiles][kSide];
#pragma unroll
  for (int m = 0; m < Tile::kMicroTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kSide; ++i)
      micro_tile[m][i] = *reinterpret_cast<const Words*>(
          boxes + across(m) / 8 * Tile::kBoxBytes + in_box(down(m) * kSide + i, across(m) % 8));
    transpose_in_registers<kSize>(micro_tile[m]);
  }

  // A separate version for tiles inside the matrix needs no checks.
  const auto store = [&](auto known_whole) {
    constexpr bool kWhole = known_whole.value;
#pragma unroll
    for (int m = 0; m < Tile::kMicroTiles; ++m) {
      const std::int64_t row = first_col + across(m) * kSide;
      const std::int64_t byte = first_row * kSize + down(m) * kVectorBytes;
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        if (!kWhole && row + i >= out.rows) break;
        std::byte* to = &out(row + i, byte);
        if (kWhole || byte + kVectorBytes <= out.cols) {
          *reinterpret_cast<Words*>(to) = micro_tile[m][i];
        } else if constexpr (kSide > 1) {
          const auto elements = __builtin_bit_cast(Elements, micro_tile[m][i]);
#pragma unroll
          for (int k = 0; k < kSide; ++k)
            if (byte + k * kSize < out.cols)
              reinterpret_cast<Element<kSize>*>(to)[k] = elements.at[k];
        }
      }
    }
  };
  if (first_col + Tile::kCols <= out.rows && (first_row + Tile::kRows) * kSize <= out.cols)
    store(std::true_type{});
  else
    store(std::false_type{});
#endif
}

#endif

}  // namespace
}  // namespace ado::cuda

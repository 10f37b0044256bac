// Transpose, a step for compute capability 9.0 and later: `tma`. The tensor memory accelerator
// copies boxes of a to shared memory, so that threads neither compute addresses of a nor hold its
// elements in registers while they are in flight.
//
//   a in global memory --boxes with lines of 128 bytes, swizzled--> shared memory
//   shared memory --16 bytes--> registers --transposed, 16 bytes--> out in global memory
//
// As in `wide`, a thread transposes micro-tiles of kSide x kSide elements in registers.
#pragma once

#include "common/tensor_copy.cuh"
#include "transpose/wide_step.cuh"

namespace ado::cuda {
namespace {

// The tile of a thread block: kBoxes boxes of kRows lines of 128 bytes, beside each other.
template <int kSize, int kBoxes_, int kRows_, int kThreads_, bool kStores_ = false>
struct BoxTile {
  static constexpr int kBoxes = kBoxes_, kRows = kRows_, kThreads = kThreads_;
  static constexpr bool kStores = kStores_;
  static constexpr int kLine = 128, kSide = kVectorBytes / kSize;
  static constexpr int kVectors = kBoxes * kLine / kVectorBytes;  // per row of the tile
  static constexpr int kCols = kVectors * kSide;                  // elements of a
  static constexpr int kBytes = kRows * kVectors * kVectorBytes;  // of shared memory
  static constexpr int kOfBox = kRows * kLine;
  // The micro-tiles of a warp: kAcross beside each other, kDown below each other. The eight lanes
  // that access shared memory together then access eight different positions.
  static constexpr int kAcross = kSide < 8 ? kSide : 8, kDown = 32 / kAcross;
  static constexpr int kPerThread = kVectors * (kRows / kSide) / kThreads;
};

template <int kSize, int kBoxes, int kRows, int kThreads, bool kStores = false>
using Candidate =
    BoxTile<kSize, kBoxes, kRows, std::min(kThreads, kBoxes * 8 * kRows * kSize / 16), kStores>;

template <int kSize, class Visit>
auto with_box_tile(Visit visit) {
  const char* e = getenv("ADO_TMA");
  constexpr bool kByte = kSize == 1;
  switch (e == nullptr ? 0 : atoi(e)) {
    case 1: return visit(Candidate<kSize, 2, 128, 256>{});
    case 2: return visit(Candidate<kSize, 1, 256, 128>{});
    case 3: return visit(Candidate<kSize, 4, 64, 128>{});
    case 4: return visit(Candidate<kSize, 2, 64, 64>{});
    case 5: return visit(Candidate<kSize, 1, 128, 64>{});
    case 6: return visit(Candidate<kSize, 2, 128, 512>{});
    case 7: return visit(Candidate<kSize, 2, 128, 128, true>{});
    case 8: return visit(Candidate<kSize, kByte ? 2 : 4, kByte ? 128 : 64, 256, true>{});
    case 9: return visit(Candidate<kSize, 1, 128, 64, true>{});
    case 10: return visit(Candidate<kSize, 4, 128, 256>{});
    default: return visit(Candidate<kSize, 2, 128, 128>{});
  }
}

template <class Visit>
auto with_box_tile(const Transpose& p, Visit visit) {
  return with_size(p, [&](auto size) { return with_box_tile<size>(visit); });
}

// Coordinates of boxes are 32-bit integers, and strides of tensor maps have 40 bits.
const char* why_not_tma(const Transpose& p) {
  if (p.in_place()) return "out is a, so blocks would overwrite elements that other blocks have not read yet; use `in_place`";
  if (!rows_aligned(p.a, kVectorBytes) || !rows_aligned(p.out, kVectorBytes))
    return "rows are not aligned to 16 bytes";
  constexpr std::int64_t kMaxCoordinate = std::int64_t{1} << 31, kMaxStride = std::int64_t{1} << 40;
  return p.cols() * p.a.type.size >= kMaxCoordinate || p.rows() >= kMaxCoordinate ||
                 p.a.stride[0] >= kMaxStride
             ? "rows are too many, too long or too far apart for a tensor map"
             : nullptr;
}

#ifdef __CUDACC__

template <int kSize, class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    transpose_tma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap to_out, Bytes out) {
#if __CUDA_ARCH__ >= 900
  using Words = Vector<unsigned, kVectorBytes / 4>;
  using Elements = Vector<Element<kSize>, Tile::kSide>;
  constexpr int kSide = Tile::kSide, kAcross = Tile::kAcross, kDown = Tile::kDown;
  extern __shared__ __align__(kBoxAlignment) std::byte boxes[];
  __shared__ CopyBarrier barrier;
  const int first_row = static_cast<int>(block_x()) * Tile::kRows;
  const std::int64_t first_col = block_y() * Tile::kCols;
  if (first_col >= out.rows) return;  // the grid is rounded up
  if (threadIdx.x == 0) {
    barrier.expect(Tile::kBytes);
#pragma unroll
    for (int box = 0; box < Tile::kBoxes; ++box)
      barrier.copy_box(boxes + box * Tile::kOfBox, a, first_row,
                       static_cast<int>(first_col) * kSize + box * Tile::kLine);
  }
  __syncthreads();
  barrier.wait();

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int kWarps = Tile::kThreads / 32, kSetsDown = Tile::kRows / kSide / kDown;
  static_assert(kSetsDown * kDown * kSide == Tile::kRows && Tile::kVectors % kAcross == 0);
  static_assert(kSetsDown * (Tile::kVectors / kAcross) == kWarps * Tile::kPerThread);
  Words micro_tile[Tile::kPerThread][kSide];
  const auto group_of = [&](int m) {
    return (warp + m * kWarps) % kSetsDown * kDown + lane / kAcross;
  };
  const auto vector_of = [&](int m) {
    return (warp + m * kWarps) / kSetsDown * kAcross + lane % kAcross;
  };
#pragma unroll
  for (int m = 0; m < Tile::kPerThread; ++m) {
    const int group = group_of(m), vector = vector_of(m);
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int row = group * kSide + i;
      micro_tile[m][i] = *reinterpret_cast<const Words*>(
          boxes + vector / 8 * Tile::kOfBox + row * Tile::kLine +
          (vector % 8 ^ row % 8) * kVectorBytes);
    }
    transpose_in_registers<kSize>(micro_tile[m]);
  }

  if constexpr (Tile::kStores) {
    __syncthreads();
#pragma unroll
    for (int m = 0; m < Tile::kPerThread; ++m) {
      const int group = group_of(m), vector = vector_of(m);
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        const int row = vector * kSide + i;
        *reinterpret_cast<Words*>(boxes + group / 8 * Tile::kCols * Tile::kLine +
                                  row * Tile::kLine + (group % 8 ^ row % 8) * kVectorBytes) =
            micro_tile[m][i];
      }
    }
    publish_box();
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int box = 0; box < Tile::kRows * kSize / Tile::kLine; ++box)
        store_box(to_out, static_cast<int>(first_col), first_row * kSize + box * Tile::kLine,
                  boxes + box * Tile::kCols * Tile::kLine);
      wait_for_stores();
    }
  } else {
    const auto store = [&](auto known_whole) {
#pragma unroll
      for (int m = 0; m < Tile::kPerThread; ++m) {
        const int group = group_of(m), vector = vector_of(m);
        const std::int64_t byte = (first_row + std::int64_t{group} * kSide) * kSize;
        std::byte* to = &out(first_col + vector * kSide, byte);
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
          if (!known_whole.value && first_col + vector * kSide + i >= out.rows) break;
          if (known_whole.value || byte + kVectorBytes <= out.cols) {
            *reinterpret_cast<Words*>(to + i * out.stride) = micro_tile[m][i];
          } else if constexpr (kSide > 1) {
            const auto elements = __builtin_bit_cast(Elements, micro_tile[m][i]);
#pragma unroll
            for (int k = 0; k < kSide; ++k)
              if (byte + k * kSize < out.cols)
                reinterpret_cast<Element<kSize>*>(to + i * out.stride)[k] = elements.at[k];
          }
        }
      }
    };
    if (first_col + Tile::kCols <= out.rows &&
        (first_row + std::int64_t{Tile::kRows}) * kSize <= out.cols)
      store(std::true_type{});
    else
      store(std::false_type{});
  }
#endif
}

#endif

}  // namespace
}  // namespace ado::cuda

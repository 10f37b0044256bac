// average_matvec, engine: row_product, for few sets.
#pragma once

#include "average_matvec/engine/averaging.cuh"
#include "average_matvec/engine/product_tile.cuh"

namespace ado::cuda {
namespace {

// ---- row_product, cluster -----------------------------------------------------------------------
constexpr int kProductBlocks = 2;  // resident per multiprocessor
constexpr std::int64_t kMaxCluster = 8;

// The largest cluster that fits on the GPU. The blocks of a cluster run on one GPC. In a part of a
// GPU (green context, MPS), the multiprocessors can belong to any GPCs, but some GPC has at least
// the mean number of them.
std::int64_t max_cluster(const Hardware& gpu) {
  constexpr std::int64_t kMaxGpcs = 16;  // no GPU has more
  return std::min(kMaxCluster, kProductBlocks * ceil_div(gpu.multiprocessors, kMaxGpcs));
}

// The number of blocks that are resident at the same time, even in clusters, which do not divide
// the multiprocessors of the GPCs evenly: seven eighths in whole clusters (H200: 112 of 132).
std::int64_t one_wave(const Hardware& gpu) {
  const std::int64_t most = gpu.multiprocessors, used = most * 7 / 8 / kMaxCluster * kMaxCluster;
  return kProductBlocks * std::max(used, std::min(most, kMaxCluster));
}

// ---- row_product --------------------------------------------------------------------------------
// The kernel reads the matrix once per group of up to kSets sets, and is
// bounded by DRAM bandwidth if one group has all sets.
//
// A warp multiplies kWarpRows rows of the matrix by the averages of kSets sets. Its lanes load
// adjacent columns, so the loads are coalesced without shared memory. The averages of a chunk of
// columns are staged in shared memory, for all warps of the block:
//
//                                          chunk of columns              next chunk of the block
//                                          | slot 0 | slot 1 | slot 0 | slot 1 | ...
//   averages     kSets        staged       |        |        |        |        |
//   row group 0  kWarpRows    in registers | warp 0 | warp 1 | warp 0 | warp 1 |
//   row group 1  kWarpRows    in registers | warp 2 | warp 3 | warp 2 | warp 3 |
//
// If the matrix has too few rows for all multiprocessors, the blocks of a cluster process different
// chunks of the same rows. Their results are added in a fixed order, so repeated calls return
// identical bits.
constexpr int kWarpRows = 4;
constexpr int kProductThreads = 256;
constexpr int kProductWarps = kProductThreads / kWarpSize;
constexpr std::int64_t kStagedBytes = 16 << 10;  // averages per chunk; there are two buffers

// Number of loads in flight per lane and row. Each loads kLength columns; together, 32 bytes.
template <class T, int kLength>
constexpr int kRowLoads = 32 / (kLength * static_cast<int>(sizeof(T)));

// The averages of one or two sets are read directly through L1, because the barriers for staging
// would cost more time.
template <int kSets>
constexpr bool kStagesAverages = kSets > 2;

struct RowProductPlan {
  int row_groups;  // per block, a power of two
  int chunk;       // columns
  unsigned cluster, row_blocks, set_tiles;
  std::size_t shared_bytes;
};

template <class T, int kLength, int kSets>
RowProductPlan row_product_plan(std::int64_t length, std::int64_t sets, const Hardware& gpu) {
  // A second wave would expose the latency of its first loads again.
  const std::int64_t wave = one_wave(gpu);
  const std::int64_t set_tiles = ceil_div(sets, std::int64_t{kSets});
  const auto row_blocks = [&](int row_groups) {
    return ceil_div(length, std::int64_t{kWarpRows} * row_groups);
  };
  int row_groups = std::min(kProductWarps, kSets);
  if (const std::int64_t blocks = row_blocks(row_groups) * set_tiles;
      row_groups > 1 && 2 * row_groups > kSets && blocks > wave / 2 && blocks < wave)
    row_groups /= 2;
  const std::int64_t stride = std::int64_t{kProductWarps / row_groups} * kWarpSize * kLength;
  const std::int64_t tiles = std::max<std::int64_t>(row_blocks(row_groups) * set_tiles, 1);
  const std::int64_t cluster = std::max<std::int64_t>(
      std::min({max_cluster(gpu), wave / tiles, ceil_div(length, stride)}), 1);
  const std::int64_t most = kStagedBytes / (kSets * std::int64_t{sizeof(T)});
  const std::int64_t share = std::max(ceil_div(ceil_div(length, cluster), stride) * stride, stride);
  const std::int64_t chunk = kStagesAverages<kSets> ? std::min(most, share) : share;
  return {.row_groups = row_groups,
          .chunk = static_cast<int>(chunk),
          .cluster = static_cast<unsigned>(cluster),
          .row_blocks = static_cast<unsigned>(row_blocks(row_groups)),
          .set_tiles = static_cast<unsigned>(set_tiles),
          .shared_bytes =
              kStagesAverages<kSets> ? static_cast<std::size_t>(2 * kSets * chunk) * sizeof(T) : 0};
}

// Calls `visit` with the number of sets per tile. Small matrices use smaller tiles, although the
// matrix is then read several times: the kernel for a tile of four sets has a third of the
// instructions of the largest one, and with cold caches the instructions are fetched from DRAM.
template <class T, class Visit>
auto with_set_tile(std::int64_t length, std::int64_t sets, const Hardware& gpu, Visit visit) {
  constexpr std::int64_t kShortLength = 700;  // H200
  constexpr int kLargest = sizeof(T) == sizeof(float) ? 16 : 8;
  const auto suffices = [&](int tile) {
    const std::int64_t rows = std::int64_t{kWarpRows} * std::min(tile, kProductWarps);
    return sets <= tile ||
           (length <= kShortLength &&
            ceil_div(length, rows) * ceil_div(sets, std::int64_t{tile}) <= 2 * one_wave(gpu));
  };
  if (sets <= 1) return visit(std::integral_constant<int, 1>{});
  if (sets <= 2) return visit(std::integral_constant<int, 2>{});
  if (suffices(4)) return visit(std::integral_constant<int, 4>{});
  if (suffices(8)) return visit(std::integral_constant<int, 8>{});
  return visit(std::integral_constant<int, kLargest>{});
}

// Calls `visit` with a zero of the element type, the number of columns per load of the matrix, the
// sets per tile, and the plan. Loads are as wide as the alignment of all rows of the matrix and of
// the averages allows.
template <class Visit>
auto with_row_product(const AverageMatvec& p, const Hardware& gpu, Visit visit) {
  return with_real(p.vectors.type, [&]<class T>(T zero) {
    return with_set_tile<T>(p.length(), p.sets(), gpu, [&](auto sets) {
      const auto with_length = [&](auto length) {
        return visit(zero, length, sets,
                     row_product_plan<T, length, sets>(p.length(), p.sets(), gpu));
      };
      // If M is 1, the averages are the vectors.
      const auto aligned = [&](int bytes) {
        return starts_at_vector(p.matrix.data, bytes) &&
               (p.samples() > 1 || starts_at_vector(p.vectors.data, bytes)) &&
               p.length() * std::int64_t{sizeof(T)} % bytes == 0;
      };
      if (aligned(kVectorBytes))
        return with_length(std::integral_constant<int, kVectorLength<T>>{});
      if constexpr (sizeof(T) == sizeof(float))
        if (aligned(2 * sizeof(T))) return with_length(std::integral_constant<int, 2>{});
      return with_length(std::integral_constant<int, 1>{});
    });
  });
}

std::int64_t blocks_of(const RowProductPlan& plan) {
  return std::int64_t{plan.cluster} * plan.row_blocks * plan.set_tiles;
}

#ifdef __CUDACC__

// Sums kCount values over the lanes of a warp. On return, values[i] of lane l is the total of value
// l * kCount / 32 + i. In each step, a lane sends the half of its values that its partner keeps.
template <class T, int kCount>
__device__ void sum_values_over_lanes(T (&values)[kCount], int lane) {
  int left = kCount;
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    if (left > 1) {
      left /= 2;
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i)
        if (i < left) {
          const T sent = upper ? values[i] : values[i + left];
          const T kept = upper ? values[i + left] : values[i];
          values[i] = kept + __shfl_xor_sync(kAllLanes, sent, distance);
        }
    } else {
      values[0] += __shfl_xor_sync(kAllLanes, values[0], distance);
    }
  }
}

// Loads adjacent columns of the matrix. Each element is used once, so the loads bypass L1.
template <class T, int kLength>
__device__ Vector<T, kLength> load_columns(const T* from) {
  if constexpr (kLength == 1)
    return {{__ldcg(from)}};
  else if constexpr (kLength < kVectorLength<T>)
    return __builtin_bit_cast(Vector<T, kLength>, __ldcg(reinterpret_cast<const float2*>(from)));
  else
    return load_past_l1(reinterpret_cast<const Vector<T, kLength>*>(from));
}

// Copies the averages of columns [first, first + chunk) of kSets sets to shared memory, one set
// after another. Columns past the end are set to zero. Sets past the last one are copies of it.
template <class T, int kLength, int kSets>
__device__ void stage_averages(T* to, const T* averages, int length, int last_set, int first,
                               int chunk) {
  constexpr int kStep = kLength * static_cast<int>(sizeof(T)) == kVectorBytes ? kLength : 1;
#pragma unroll 1
  for (int set = 0; set < kSets; ++set) {
    const T* const from = averages + static_cast<std::int64_t>(min(set, last_set)) * length + first;
    for (int column = threadIdx.x * kStep; column < chunk; column += kProductThreads * kStep) {
      T* const at = to + set * chunk + column;
      const bool exists = first + column < length;
      if constexpr (kStep > 1)
        copy_vector_async(shared_address(at), exists ? from + column : averages,
                          exists ? kVectorBytes : 0);
      else if (exists)
        copy_element_async(at, from + column);
      else
        *at = 0;
    }
  }
}

template <class T, int kLength, int kSets>
__global__ void __launch_bounds__(kProductThreads, kProductBlocks)
    average_matvec_row_product(ProductOperands<T> p, RowProductPlan plan) {
  constexpr int kValues = kWarpRows * kSets, kLoads = kRowLoads<T, kLength>;
  using Columns = Vector<T, kLength>;
  extern __shared__ __align__(kVectorBytes) std::byte bytes[];
  __shared__ T partial[kProductWarps][kValues];
  T* const staged = reinterpret_cast<T*>(bytes);
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const unsigned rank = cluster_rank(), tile = blockIdx.x / plan.cluster;
  const std::int64_t first_set = std::int64_t{tile % plan.set_tiles} * kSets;
  const T* const averages = p.averages + first_set * p.length;
  const int last_set = static_cast<int>(min(p.sets - 1 - first_set, std::int64_t{kSets - 1}));
  const int block_row = static_cast<int>(tile / plan.set_tiles) * (kWarpRows * plan.row_groups);
  const int first_row = block_row + warp % plan.row_groups * kWarpRows;
  const int stride = kProductWarps / plan.row_groups * (kWarpSize * kLength);
  const int offset = (warp / plan.row_groups * kWarpSize + lane) * kLength;  // in a chunk

  // Rows past the end are read from the last row. Their results are not stored.
  const T* row[kWarpRows];
#pragma unroll
  for (int i = 0; i < kWarpRows; ++i)
    row[i] = p.matrix + static_cast<std::int64_t>(min(first_row + i, p.length - 1)) * p.length;

  Columns left[kLoads][kWarpRows];
  const auto load = [&](int chunk, int column) {
#pragma unroll
    for (int s = 0; s < kLoads; ++s)
#pragma unroll
      for (int i = 0; i < kWarpRows; ++i) {
        left[s][i] = {};
        if (column + s * stride < plan.chunk && chunk + column + s * stride < p.length)
          left[s][i] = load_columns<T, kLength>(row[i] + chunk + column + s * stride);
      }
  };
  const auto stage = [&](int chunk, int buffer) {
    if (kStagesAverages<kSets> && chunk < p.length)
      stage_averages<T, kLength, kSets>(staged + buffer * kSets * plan.chunk, averages, p.length,
                                        last_set, chunk, plan.chunk);
    commit_copies();
  };

  const int step = static_cast<int>(plan.cluster) * plan.chunk;
  int chunk = static_cast<int>(rank) * plan.chunk, buffer = 0;
  load(chunk, offset);
  wait_for_previous_kernel();
  stage(chunk, 0);
  T product[kValues] = {};
#pragma unroll 1
  for (; chunk < p.length; chunk += step, buffer ^= 1) {
    stage(chunk + step, buffer ^ 1);
    if constexpr (kStagesAverages<kSets>) {
      wait_for_copies<1>();
      __syncthreads();
    }
#pragma unroll 1
    for (int column = offset; column < plan.chunk;) {
      const T* const right = kStagesAverages<kSets> ? staged + buffer * kSets * plan.chunk + column
                                                    : averages + chunk + column;
      const int pitch = kStagesAverages<kSets> ? plan.chunk : last_set * p.length;
#pragma unroll
      for (int s = 0; s < kLoads; ++s) {
        if (column + s * stride < plan.chunk &&
            (kStagesAverages<kSets> || chunk + column + s * stride < p.length))
#pragma unroll
          for (int j = 0; j < kSets; ++j) {
            const Columns average =
                *reinterpret_cast<const Columns*>(right + j * pitch + s * stride);
#pragma unroll
            for (int i = 0; i < kWarpRows; ++i)
#pragma unroll
              for (int e = 0; e < kLength; ++e)
                product[i * kSets + j] =
                    fma(left[s][i].at[e], average.at[e], product[i * kSets + j]);
          }
      }
      column += kLoads * stride;
      const bool next_chunk = column >= plan.chunk;
      load(next_chunk ? chunk + step : chunk, next_chunk ? offset : column);
    }
    if constexpr (kStagesAverages<kSets>) __syncthreads();  // all warps have read the chunk
  }

  sum_values_over_lanes(product, lane);
  constexpr int kOwn = kValues >= kWarpSize ? kValues / kWarpSize : 1;
  constexpr int kSharers = kValues >= kWarpSize ? 1 : kWarpSize / kValues;
  if (lane % kSharers == 0)
#pragma unroll
    for (int i = 0; i < kOwn; ++i) partial[warp][lane / kSharers * kOwn + i] = product[i];
  synchronise_cluster();
  // The results are distributed over the blocks of the cluster.
  const int results = plan.row_groups * kValues;
  for (int result = static_cast<int>(rank + threadIdx.x * plan.cluster); result < results;
       result += static_cast<int>(kProductThreads * plan.cluster)) {
    const int group = result / kValues, value = result % kValues;
    const int out_row = block_row + group * kWarpRows + value / kSets;
    const std::int64_t set = first_set + value % kSets;
    T sum = 0;
    for (unsigned block = 0; block < plan.cluster; ++block)
      for (int w = group; w < kProductWarps; w += plan.row_groups)
        sum += *in_block_of_cluster(&partial[w][value], block);
    if (out_row < p.length && set < p.sets) p.out[out_row * p.sets + set] = sum;
  }
  synchronise_cluster();  // no block may exit while others read its shared memory
}

// out = matrix * averages^T, launched as dependent on the kernel that computes the averages. If the
// vectors are the averages, no kernel computes them, and an earlier kernel of the stream may still
// write the matrix.
template <class T>
void launch_row_product(const Launch& go, const AverageMatvec& p, const T* averages) {
  with_row_product(
      p, go.hardware, [&]<class U>(U, auto length, auto sets, const RowProductPlan& plan) {
        if constexpr (std::is_same_v<T, U>) {
          Launch product = go;
          product.grid = {static_cast<unsigned>(blocks_of(plan))};
          product.shared_bytes = plan.shared_bytes;
          launch_with({.dependent = averages != p.vectors.as<const T>(), .cluster = plan.cluster},
                      product, average_matvec_row_product<T, length, sets>, product_of(p, averages),
                      plan);
        }
      });
}

#endif

constexpr Variant<AverageMatvec> kRowProduct = {
    .name = "row_product",
    .changes =
        {"Reads the matrix once per group of sets, for few sets, and starts this read before "
         "the averages are complete.",
         Step::kDramReuse, Step::kFusion},
    .min_compute = 90,
    .blocks = {{{kAveragingThreads}}},
    .grid =  // of the first kernel
    [](const AverageMatvec& p, Extent, const Hardware& gpu) {
      const AveragingPlan averaging = averaging_of(p, gpu);
      if (averaging.kind != Averaging::kNone) return blocks_for(averaging.blocks);
      return with_row_product(p, gpu, [](auto, auto, auto, const RowProductPlan& plan) {
        return blocks_for(blocks_of(plan));
      });
    },
    .scratch_bytes = scratch_of_averaging,
    .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
      with_real(p.vectors.type,
                [&]<class T>(T) { launch_row_product<T>(go, p, launch_averaging<T>(go, p)); });
    })};

}  // namespace
}  // namespace ado::cuda

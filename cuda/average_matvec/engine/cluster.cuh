// average_matvec, engine: cluster, for small problems, for which launch overhead dominates.
#pragma once

#include "average_matvec/engine/row_product.cuh"

namespace ado::cuda {
namespace {

// ---- cluster ------------------------------------------------------------------------------------
// One launch for few sets, in which the blocks of a cluster share the averages.
//
// With two kernels, the second launch takes about as long as the reads of a small problem. Here,
// the blocks of a cluster average the vectors of a few sets together. Each block stores its sums in
// the shared memory of all blocks of the cluster. After one barrier of the cluster, each block
// multiplies the averages by its own rows of the matrix, which it has copied in the meantime:
//
//                     block 0       block 1       ...   block 7
//   averages          1/8           1/8                 1/8         then all averages in each block
//   rows of matrix    0 ... 7       8 ... 15            56 ... 63
//
// If the matrix has more rows, further clusters average the same sets again. So the vectors are
// read once per cluster, from DRAM or from L2.
constexpr int kClusterThreads = 256;
constexpr int kClusterSamples = 8;  // in flight per thread
constexpr int kClusterBlocks = 4;   // per multiprocessor; more would leave too few registers
constexpr std::int64_t kClusterBytes = 44 << 10;  // matrix rows, sums and averages

struct ClusterPlan {
  int cluster = 1;                   // blocks
  int slices = 1;                    // clusters with the same sets
  int sets = 1;                      // per cluster
  int log_rows = 3;                  // rows of the matrix per block
  int log_lanes = 0, log_parts = 0;  // lanes per part of a row of samples; parts per row
  std::int64_t tiles = 0;            // groups of sets
  std::size_t shared_bytes = 0;
};

ClusterPlan cluster_plan(const AverageMatvec& p, const Hardware& gpu) {
  const std::int64_t element = p.vectors.type.size, samples = p.samples();
  const std::int64_t length = std::max<std::int64_t>(p.length(), 1);
  ClusterPlan plan;
  const auto elements_of_block = [&] { return ((1 << plan.log_rows) + 2) * length; };
  while (plan.log_rows > 0 && elements_of_block() * element > kClusterBytes) --plan.log_rows;
  const std::int64_t row_blocks = ceil_div(p.length(), std::int64_t{1} << plan.log_rows);
  const std::int64_t sample_blocks =
      ceil_div(p.length() * samples, kClusterThreads * kClusterSamples);
  const std::int64_t cluster =
      std::clamp<std::int64_t>(std::max(row_blocks, sample_blocks), 1, max_cluster(gpu));
  const std::int64_t slices = ceil_div(row_blocks, cluster);
  const std::int64_t clusters = std::max<std::int64_t>(one_wave(gpu) / cluster, 1);
  const std::int64_t fit = (kClusterBytes / element / length - (1 << plan.log_rows)) / 2;
  const std::int64_t sets =
      std::max<std::int64_t>(std::min(ceil_div(p.sets() * slices, clusters), fit), 1);
  const std::int64_t rows = sets * length, threads = kClusterThreads * cluster;
  while (plan.log_lanes < 5 && (1 << plan.log_lanes) < samples &&
         ((rows << plan.log_lanes) < threads || (samples >> plan.log_lanes) > kClusterSamples))
    ++plan.log_lanes;
  // At most 16 parts: the sums of the parts are added one after another.
  while (plan.log_lanes == 5 && plan.log_parts < 4 &&
         (samples >> (5 + plan.log_parts)) > kClusterSamples &&
         (rows << (5 + plan.log_parts)) < threads)
    ++plan.log_parts;
  plan.cluster = static_cast<int>(cluster);
  plan.slices = static_cast<int>(slices);
  plan.sets = static_cast<int>(sets);
  plan.tiles = ceil_div(p.sets(), sets);
  plan.shared_bytes = static_cast<std::size_t>(
      ((length << plan.log_rows) + rows * ((1 << plan.log_parts) + 1)) * element);
  return plan;
}

const char* why_not_cluster(const AverageMatvec& p) {
  if (3 * p.length() * p.vectors.type.size > kClusterBytes)
    return "a row of the matrix and two vectors exceed 44 KiB, their share of shared memory";
  if (std::max(p.sets() * p.length(), p.samples()) > INT_MAX / 2) return "N L or M exceeds 2^30";
  return nullptr;
}

#ifdef __CUDACC__

template <class T>
struct ClusterOperands {
  const T *vectors, *matrix;
  T* out;
  std::int64_t sets;
  int length, samples;
  T scale;  // 1 / samples
  ClusterPlan plan;
};

template <class T>
ClusterOperands<T> cluster_operands(const AverageMatvec& p, const ClusterPlan& plan) {
  return {.vectors = p.vectors.as<const T>(),
          .matrix = p.matrix.as<const T>(),
          .out = p.out.as<T>(),
          .sets = p.sets(),
          .length = static_cast<int>(p.length()),
          .samples = static_cast<int>(p.samples()),
          .scale = T(1) / static_cast<T>(p.samples()),
          .plan = plan};
}

template <class T>
__global__ void __launch_bounds__(kClusterThreads, kClusterBlocks)
    average_matvec_cluster(ClusterOperands<T> p) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  const ClusterPlan& plan = p.plan;
  const int thread = threadIdx.x, rank = static_cast<int>(cluster_rank());
  const int first_row = static_cast<int>(blockIdx.x) << plan.log_rows;
  const int rows = min(p.length - first_row, 1 << plan.log_rows);  // can be negative
  const std::int64_t first_set = block_y() * plan.sets;
  const int sets = static_cast<int>(min(p.sets - first_set, std::int64_t{plan.sets}));
  if (sets <= 0) return;  // the grid is folded
  T* const matrix = reinterpret_cast<T*>(shared);
  T* const averages = matrix + (p.length << plan.log_rows);
  T* const sums = averages + plan.sets * p.length;

  // The rows of a block are contiguous. All copies are in flight while the vectors are averaged.
  // The kernel copies single elements, which requires no code for alignment. With cold caches,
  // instructions are also fetched from DRAM.
  const T* const from = p.matrix + std::int64_t{first_row} * p.length;
#pragma unroll 1
  for (int i = thread; i < rows * p.length; i += kClusterThreads)
    copy_element_async(matrix + i, from + i);
  commit_copies();
  arrive_at_cluster_relaxed();  // no block may store to a block that has not started

  const int lanes = 1 << plan.log_lanes, lane = thread & (lanes - 1);
  const int groups = kClusterThreads >> plan.log_lanes;
  const int parts = sets * p.length << plan.log_parts, step = lanes << plan.log_parts;
#pragma unroll 1
  for (int first = 0; first < parts; first += groups * plan.cluster) {
    const int part = first + rank * groups + (thread >> plan.log_lanes);
    const int start = ((part & ((1 << plan.log_parts) - 1)) << plan.log_lanes) + lane;
    const T* sample =
        p.vectors + (first_set * p.length + (part >> plan.log_parts)) * p.samples + start;
    int left = part < parts ? p.samples - start : 0;
    CompensatedSum<T> sum;
#pragma unroll 1
    for (int i = 0; i < p.samples; i += kClusterSamples * step) {
      T terms[kClusterSamples];
#pragma unroll
      for (int j = 0; j < kClusterSamples; ++j)
        terms[j] = j * step < left ? sample[j * step] : T(0);
      sum.add(pairwise_sum(terms));
      sample += kClusterSamples * step;
      left -= kClusterSamples * step;
    }
    T total = sum.total();
#pragma unroll 1
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      total += __shfl_xor_sync(kAllLanes, total, distance);
    if (first == 0) wait_for_cluster();
    if (part < parts)
      for (int block = lane; block < plan.cluster; block += lanes)
        *in_block_of_cluster(sums + part, block) = total;
  }
  synchronise_cluster();

#pragma unroll 1
  for (int i = thread; i < sets * p.length; i += kClusterThreads) {
    T sum = 0;
#pragma unroll 1
    for (int part = 0; part < 1 << plan.log_parts; ++part)
      sum += sums[(i << plan.log_parts) + part];
    averages[i] = sum * p.scale;
  }
  wait_for_copies<0>();
  __syncthreads();

  const int warp = thread / kWarpSize;
#pragma unroll 1
  for (int result = warp; result < sets << plan.log_rows; result += kClusterThreads / kWarpSize) {
    const int row = result & ((1 << plan.log_rows) - 1), set = result >> plan.log_rows;
    if (row >= rows) continue;
    const T *const left = matrix + row * p.length, *const right = averages + set * p.length;
    T product = 0;
#pragma unroll 4
    for (int i = thread % kWarpSize; i < p.length; i += kWarpSize)
      product = fma(left[i], right[i], product);
    product = sum_over_lanes(product);
    if (thread % kWarpSize == 0)
      p.out[std::int64_t{first_row + row} * p.sets + first_set + set] = product;
  }
}

#endif

constexpr Variant<AverageMatvec> kCluster = {
    .name = "cluster",
    .changes = {"Divides the matrix and the averages of a few sets among the blocks of a cluster, "
                "which exchange the averages through distributed shared memory.",
                Step::kParallelism, Step::kFusion},
    .min_compute = 90,
    .why_not = why_not_cluster,
    .blocks = {{{kClusterThreads}}},
    .grid =
        [](const AverageMatvec& p, Extent, const Hardware& gpu) {
          const ClusterPlan plan = cluster_plan(p, gpu);
          return grid_of(plan.slices * plan.cluster, plan.tiles);
        },
    .shared_bytes = [](const AverageMatvec& p, Extent,
                       const Hardware& gpu) { return cluster_plan(p, gpu).shared_bytes; },
    .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
      with_real(p.vectors.type, [&]<class T>(T) {
        const ClusterPlan plan = cluster_plan(p, go.hardware);
        launch_with({.cluster = static_cast<unsigned>(plan.cluster)}, go, average_matvec_cluster<T>,
                    cluster_operands<T>(p, plan));
      });
    })};

}  // namespace
}  // namespace ado::cuda

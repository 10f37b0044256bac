// Averages of vectors times a matrix on the GPU: out = matrix * mean(vectors)^T. The variants range
// from a single block to a kernel that takes about as long as reading the vectors once.
//
// Nearly all bytes belong to the vectors, and each byte is used once. So the time is bounded by
// reading the vectors, provided that the product, with its L / M operations per sample, is fast or
// hidden.
//
// Steps: steps.cuh has the five kernels of "Analysis-Driven Optimization with NVIDIA Nsight
// Compute", complete and in the order of its posts. Read these kernels first, then the list at the
// end of this file, which has one entry per variant.
//
// Engine, in reading order. The first three files continue the ladder for large problems:
//
//   engine_row_averages.cuh  averages of rows of any length, with wide loads
//   engine_product_tile.cuh  a tile of the matrix product; wide_average: two launches
//   engine_overlapped.cuh    the product while the vectors are still being read
//   engine_averaging.cuh     split_average_then_gemm: selects the kernel, splits long rows
//   engine_row_product.cuh   few sets: reads the matrix once per group of sets
//   engine_cluster.cuh       small problems, for which launch overhead dominates: one launch
//   engine_costs.cuh         executed FLOPs and requested bytes
//
// Two techniques have no variant of their own, because measurements of wide_average show that they
// could gain little. Persistent blocks could gain at most the difference between its first kernel
// and the ceiling `read`, about 1 %. Programmatic dependent launch of its second kernel could hide
// the launch and the first tile, about 0.3 %; overlapped hides most of the product. row_product,
// whose kernels are short, uses dependent launches.
#include "routines/average_matvec.hpp"

#include <climits>

#include "average_matvec/engine_averaging.cuh"
#include "average_matvec/engine_cluster.cuh"
#include "average_matvec/engine_costs.cuh"
#include "common/cublas.cuh"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// Launches the kernel for the element type; the kernel takes only the operands.
template <void (*kFloatKernel)(AverageMatvecOperands<float>),
          void (*kDoubleKernel)(AverageMatvecOperands<double>)>
void run(const AverageMatvec& p, const Launch& go) {
  if (p.vectors.type == kFloat32)
    launch(go, kFloatKernel, operands_of<float>(p));
  else
    launch(go, kDoubleKernel, operands_of<double>(p));
}

template <int kLanes, class T>
SampleRows<T> rows_of(const AverageMatvec& p) {
  return {p.vectors.as<const T>(), p.sets() * p.length(), p.samples(), sharing_of<kLanes, T>(p)};
}

template <class T>
T* averages_of(const Launch& go) {
  return reinterpret_cast<T*>(go.scratch);
}

// out = matrix * averages^T with cuBLAS.
template <class T>
void multiply_with_library(const AverageMatvec& p, const Launch& go, const T* averages) {
  cublas::gemm(go, cublas::Product<T>{.left = p.matrix.as<const T>(),
                                      .right_transposed = averages,
                                      .out = p.out.as<T>(),
                                      .rows = p.length(),
                                      .cols = p.sets(),
                                      .depth = p.length()});
}

#endif

// One block per item, up to the largest possible grid. With more items, each block of the steps
// processes several.
Extent blocks_for(std::int64_t items) {
  return {static_cast<unsigned>(items < INT_MAX ? items : INT_MAX)};
}

Extent one_block(const AverageMatvec&, Extent) { return {1}; }
Extent block_per_set(const AverageMatvec& p, Extent) { return blocks_for(p.sets()); }

const char* why_not_long(const AverageMatvec& p) {
  return p.length() > kSetThreads ? "L exceeds 1024, the number of threads of a block, which has "
                                    "one thread per element of a vector"
                                  : nullptr;
}

const char* why_not_library(const AverageMatvec& p) {
  if (p.sets() > INT_MAX || p.length() > INT_MAX)
    return "N or L exceeds the 32-bit sizes that cuBLAS accepts";
  return cublas::why_missing();
}

// The grid of the first kernel.
Extent grid_of_row_product(const AverageMatvec& p, Extent, const Hardware& gpu) {
  const AveragingPlan averaging = averaging_of(p, gpu);
  return blocks_for(averaging.kind == Averaging::kNone
                        ? with_row_product(p, gpu,
                                           [](auto, auto, auto, const RowProductPlan& plan) {
                                             return blocks_of(plan);
                                           })
                        : averaging.blocks);
}

// Returns true if `overlapped` is faster than separate averages and cuBLAS: by up to 8 % for N = L
// = 1024 and M = 512 in float32 (H200). In float64, cuBLAS uses tensor cores, and the product
// accounts for at most 2 % of the time.
bool read_hides_product(const AverageMatvec& p) {
  constexpr std::int64_t kMinSets = 32, kMinSamples = 500, kMaxElementsPerSample = 2,
                         kMinBytes = 64 << 20;
  return p.vectors.type == kFloat32 && p.length() % kVectorLength<float> == 0 &&
         p.sets() >= kMinSets && p.samples() >= kMinSamples &&
         p.length() <= kMaxElementsPerSample * p.samples() && p.vectors.bytes() >= kMinBytes;
}

const char* why_library_slower(const AverageMatvec& p) {
  return read_hides_product(p) ? "reading the vectors can hide the product" : nullptr;
}

// The largest L for which `row_product` is faster than cuBLAS, for up to sets[i] sets (H200). The
// limits do not decrease evenly, because cuBLAS selects its kernels by shape and alignment.
// With few sets, the product is memory-bound, so the limit is larger. With many sets, `row_product`
// is faster only up to the L at which cuBLAS uses most multiprocessors.
struct Crossovers {
  std::array<std::int64_t, 8> sets, aligned, unaligned;  // rows of the matrix start at a vector
};
constexpr std::int64_t kAny = INT64_MAX;
constexpr Crossovers kFloat32Crossovers{.sets = {1, 4, 8, 16, 48, 64, 128, 256},
                                        .aligned = {kAny, kAny, kAny, 2400, 900, 600, 600, 300},
                                        .unaligned = {1100, kAny, 4500, 2400, 900, 600, 600, 300}};
constexpr Crossovers kFloat64Crossovers{.sets = {1, 3, 8, 16, 24, 32, 64, 256},
                                        .aligned = {1500, kAny, 5000, 500, 400, 250, 120, 64},
                                        .unaligned = {1500, kAny, kAny, 500, 400, 250, 120, 64}};

std::int64_t longest_row_product(const AverageMatvec& p) {
  const Crossovers& found = p.matrix.type == kFloat32 ? kFloat32Crossovers : kFloat64Crossovers;
  const bool aligned = p.length() * p.matrix.type.size % kVectorBytes == 0;
  std::size_t i = 0;
  while (i < found.sets.size() && p.sets() > found.sets[i]) ++i;
  return i == found.sets.size() ? 0 : aligned ? found.aligned[i] : found.unaligned[i];
}

const char* why_row_product_slower(const AverageMatvec& p) {
  constexpr std::int64_t kShortRow = 400, kFewSets = 16;  // H100
  constexpr std::int64_t kTinyMatrix = 16;                // H200
  if (p.sets() == 1 && p.samples() == 1 && p.length() <= kShortRow)
    return "cuBLAS is faster for one short vector";
  if (p.sets() > kFewSets && p.length() <= kTinyMatrix)
    return "the matrix is too small to be divided among blocks";
  if (p.length() > longest_row_product(p)) return "cuBLAS is faster for this L and number of sets";
  return nullptr;
}

constexpr Blocks kOneDimensional = {{{kSetThreads}}};
constexpr Blocks kLanesByWarps = {{{kWarpSize, kSetThreads / kWarpSize}}};
constexpr Blocks kAveraging = {{{kAveragingThreads}}};

constexpr Variant<AverageMatvec> kVariants[] = {
    read_row<AverageMatvec, &AverageMatvec::vectors>("Reads the vectors once and nothing else."),
    {.name = "one_block",
     .changes =
         "Uses one block with one thread per element, which processes the sets one after another.",
     .why_not = why_not_long,
     .blocks = kOneDimensional,
     .grid = one_block,
     .flops = flops_with_trees<1>,
     .bytes = bytes_of_set_per_block,
     .run = ADO_RUN(run<average_matvec_one_block<float>, average_matvec_one_block<double>>)},
    {.name = "block_per_set",
     .changes = {"Starts one block per set.", Step::kParallelism},
     .why_not = why_not_long,
     .blocks = kOneDimensional,
     .grid = block_per_set,
     .flops = flops_with_trees<1>,
     .bytes = bytes_of_set_per_block,
     .run =
         ADO_RUN(run<average_matvec_block_per_set<float>, average_matvec_block_per_set<double>>)},
    {.name = "warp_average",
     .changes = {"Averages each element with one warp, whose lanes read neighbouring samples.",
                 Step::kCoalescing},
     .why_not = why_not_long,
     .blocks = kLanesByWarps,
     .grid = block_per_set,
     .flops = flops_with_trees<kWarpSize>,
     .bytes = bytes_of_set_per_block,
     .run = ADO_RUN(run<average_matvec_warp_average<float>, average_matvec_warp_average<double>>)},
    {.name = "warp_shuffle",
     .changes = {"Adds the products of a row by shuffles in two stages instead of a tree reduction "
                 "in shared memory.",
                 Step::kReuse, Step::kBarriers},
     .why_not = why_not_long,
     .blocks = kLanesByWarps,
     .grid = block_per_set,
     .flops = flops_with_shuffles,
     .bytes = bytes_of_set_per_block,
     .run = ADO_RUN(run<average_matvec_warp_shuffle<float>, average_matvec_warp_shuffle<double>>)},
    {.name = "average_then_gemm",
     .changes = {"Averages all sets first and computes the product with cuBLAS.", Step::kReuse},
     .why_not = why_not_library,
     .blocks = {{{kRowThreads}}},
     .grid = [](const AverageMatvec& p,
                Extent) { return blocks_for(ceil_div(p.sets() * p.length(), kRowWarps)); },
     .scratch_bytes = bytes_of_averages,
     .flops = flops_with_gemm,
     .bytes = bytes_with_gemm,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type, [&]<class T>(T) {
         T* const averages = averages_of<T>(go);
         launch(go, average_matvec_average<T>, operands_of<T>(p), averages);
         multiply_with_library<T>(p, go, averages);
       });
     })},
    {.name = "wide_average",
     .changes = {"Loads 16 bytes at a time, with eight loads in flight per lane, and computes the "
                 "product in tiles of its own.",
                 Step::kInFlight, Step::kWider},
     .blocks = kAveraging,
     .grid =
         [](const AverageMatvec& p, Extent) {
           return with_type_and_lanes(p, [&](auto zero, auto lanes) {
             const RowSharing sharing = sharing_of<lanes, decltype(zero)>(p);
             return Extent{
                 static_cast<unsigned>(ceil_div(p.sets() * p.length(), sharing.rows_per_block))};
           });
         },
     .scratch_bytes = bytes_of_averages,
     .flops = flops_of_wide_average,
     .bytes = bytes_with_tiles<WideTile>,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_type_and_lanes(p, [&]<class T>(T, auto lanes) {
         using Tile = WideTile<T>;
         T* const averages = averages_of<T>(go);
         launch(go, average_matvec_wide_average<lanes, T>, rows_of<lanes, T>(p), averages);
         Launch product = go;
         product.grid = {static_cast<unsigned>(ceil_div(p.sets(), Tile::kSets)),
                         static_cast<unsigned>(ceil_div(p.length(), Tile::kRows))};
         product.shared_bytes = Tile::kSharedBytes;
         launch(product, average_matvec_product<Tile, T>, product_of<T>(p, averages));
       });
     })},
    {.name = "overlapped",
     .changes = {"Overlaps the product of averaged sets with the read of the next sets.",
                 Step::kFusion},
     .why_slower = why_overlapped_slower,
     .blocks = kAveraging,
     .grid = [](const AverageMatvec& p, Extent,
                const Hardware& gpu) { return Extent{schedule_of(p, gpu).blocks}; },
     .shared_bytes =
         [](const AverageMatvec& p, Extent) {
           return with_real(p.vectors.type, []<class T>(T) { return kOverlappedBytes<T>; });
         },
     .scratch_bytes = bytes_of_averages,
     .flops = flops_of_overlapped,
     .bytes =
         [](const AverageMatvec& p) {
           const double zeroed = static_cast<double>(bytes_of_averages(p));
           return bytes_with_tiles<MainTile>(p) + zeroed;
         },
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_type_and_lanes(p, [&]<class T>(T, auto lanes) {
         T* const averages = averages_of<T>(go);
         clear(go, averages, bytes_of_averages(p));
         launch(go, average_matvec_overlapped<lanes, T>, rows_of<lanes, T>(p),
                product_of<T>(p, averages), averages, schedule_of(p, go.hardware));
       });
     })},
    {.name = "split_average_then_gemm",
     .changes = {"Splits long rows across several blocks, skips averaging if M is 1, and computes "
                 "the product with cuBLAS.",
                 Step::kParallelism, Step::kOperations},
     .why_not = why_not_library,
     .why_slower = why_library_slower,
     .blocks = kAveraging,
     .grid = [](const AverageMatvec& p, Extent,
                const Hardware& gpu) { return blocks_for(averaging_of(p, gpu).blocks); },
     .scratch_bytes = scratch_of_averaging,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type,
                 [&]<class T>(T) { multiply_with_library<T>(p, go, launch_averaging<T>(go, p)); });
     })},
    {.name = "row_product",
     .changes =
         {"Reads the matrix once per group of sets, for few sets, and starts this read before "
          "the averages are complete.",
          Step::kDramReuse, Step::kFusion},
     .min_compute = 90,
     .why_slower = why_row_product_slower,
     .blocks = kAveraging,
     .grid = grid_of_row_product,
     .scratch_bytes = scratch_of_averaging,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type,
                 [&]<class T>(T) { launch_row_product<T>(go, p, launch_averaging<T>(go, p)); });
     })},
    {.name = "cluster",
     .changes = {"Divides the matrix and the averages of a few sets among the blocks of a cluster, "
                 "which exchange the averages through distributed shared memory.",
                 Step::kParallelism, Step::kFusion},
     .min_compute = 90,
     .why_not = why_not_cluster,
     .why_slower = why_cluster_slower,
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
         launch_with({.cluster = static_cast<unsigned>(plan.cluster)}, go,
                     average_matvec_cluster<T>, cluster_operands<T>(p, plan));
       });
     })},
};

}  // namespace

Ladder<AverageMatvec> average_matvec_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

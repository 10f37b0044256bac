// Averages of vectors times a matrix on the GPU: out = matrix * mean(vectors)^T. The variants range
// from a single block to a kernel that takes about as long as reading the vectors once.
//
// Nearly all bytes belong to the vectors, and each byte is used once. So the time is bounded by
// reading the vectors, provided that the product, with its L / M operations per sample, is fast or
// hidden. The kernels, in reading order:
//
//   set_per_block.cuh  one block per set; warps read coalesced and add by shuffles
//   row_averages.cuh   averages of rows of any length, with wide loads
//   product_tile.cuh   a tile of the matrix product
//   two_launches.cuh   averages of all sets first, then one matrix product
//   overlapped.cuh     the product while the vectors are still being read
//   averaging.cuh      averages of all rows; selects the kernel; splits long rows across blocks
//   row_product.cuh    the product for few sets; reads the matrix once
//   small_sets.cuh     averages and product of a few sets in one block
//   costs.cuh          executed FLOPs and requested bytes
//
// The kernels up to `overlapped` are designed for large problems: many sets of many long vectors.
// The other kernels are designed for three cases: few sets, for which the read of the matrix bounds
// the product; few or short rows, which would leave multiprocessors idle; and small problems, for
// which launch overhead dominates.
//
// Times in the comments are for N = L = M = 1024 in float32 on an H200, L2 flushed.
#include "routines/average_matvec.hpp"

#include <climits>

#include "average_matvec/costs.cuh"
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
  return {p.vectors.as<const T>(), p.sets() * p.length(), p.samples(),
          sharing_of<kLanes>(p.samples() * std::int64_t{sizeof(T)})};
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

// One block per item, up to the largest possible grid. With more items, each block processes
// several.
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
Extent grid_of_row_product(const AverageMatvec& p, Extent) {
  const AveragingPlan averaging = averaging_of(p);
  return blocks_for(
      averaging.kind == Averaging::kNone
          ? with_row_product(
                p, [](auto, auto, auto, const RowProductPlan& plan) { return blocks_of(plan); })
          : averaging.blocks);
}

// Returns true if `overlapped` is faster than separate kernels for the averages and the product: by
// up to 8 % for N = L = 1024 and M = 512 in float32 (H200). In float64, cuBLAS uses tensor cores,
// and the product accounts for at most 2 % of the time.
bool read_hides_product(const AverageMatvec& p) {
  constexpr std::int64_t kMinSets = 32, kMinSamples = 500, kMinBytes = 64 << 20;
  return p.vectors.type == kFloat32 && p.length() % kVectorLength<float> == 0 &&
         p.sets() >= kMinSets && p.samples() >= kMinSamples && p.length() <= 2 * p.samples() &&
         p.vectors.bytes() >= kMinBytes;
}

const char* why_library_slower(const AverageMatvec& p, const Hardware&) {
  return read_hides_product(p) ? "reading the vectors can hide the product" : nullptr;
}

// The largest L for which `row_product` is faster than cuBLAS. The limits are crossovers measured
// on an H200. With few sets, the product is memory-bound, so the limit is larger. With many sets,
// `row_product` is faster only up to the L at which cuBLAS uses most multiprocessors.
std::int64_t longest_row_product(const AverageMatvec& p) {
  constexpr std::int64_t kUnlimited = INT64_MAX;
  const std::int64_t sets = p.sets();
  const bool aligned = p.length() * p.matrix.type.size % kVectorBytes == 0;
  if (p.matrix.type == kFloat32) {
    if (sets == 1) return aligned ? kUnlimited : 1100;
    if (sets <= 4) return kUnlimited;
    if (sets <= 8) return aligned ? kUnlimited : 4500;
    if (sets <= 16) return 1100;
    if (sets <= 48) return 900;
    if (sets <= 128) return 600;
    return sets <= 256 ? 300 : 0;
  }
  if (sets == 1) return 1500;
  if (sets <= 3) return kUnlimited;
  if (sets <= 8) return aligned ? 5000 : kUnlimited;
  if (sets <= 16) return 500;
  if (sets <= 24) return 400;
  if (sets <= 32) return 250;
  if (sets <= 64) return 120;
  return sets <= 256 ? 64 : 0;
}

const char* why_row_product_slower(const AverageMatvec& p, const Hardware&) {
  constexpr std::int64_t kShortRow = 600, kFewSets = 4, kTinyMatrix = 16;
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
     .blocks = kAveraging,
     .grid = [](const AverageMatvec& p,
                Extent) { return blocks_for(ceil_div(p.sets() * p.length(), kAveragingWarps)); },
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
             const auto sharing = sharing_of<lanes>(p.samples() * std::int64_t{sizeof zero});
             return Extent{
                 static_cast<unsigned>(ceil_div(p.sets() * p.length(), sharing.rows_per_block))};
           });
         },
     .scratch_bytes = bytes_of_averages,
     .flops =
         [](const AverageMatvec& p) {
           return with_type_and_lanes(
               p, [&]<class T>(T, auto lanes) { return flops_of_wide_average<lanes, T>(p); });
         },
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
     .grid =
         [](const AverageMatvec& p, Extent) {
           return with_type_and_lanes(
               p, [&]<class T>(T, auto lanes) { return Extent{schedule_of<lanes, T>(p).blocks}; });
         },
     .shared_bytes =
         [](const AverageMatvec& p, Extent) {
           return with_real(p.vectors.type, []<class T>(T) {
             return std::max(MainTile<T>::kSharedBytes, LastTile<T>::kSharedBytes);
           });
         },
     .scratch_bytes = bytes_of_averages,
     .flops =
         [](const AverageMatvec& p) {
           return with_type_and_lanes(
               p, [&]<class T>(T, auto lanes) { return flops_of_overlapped<lanes, T>(p); });
         },
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
                product_of<T>(p, averages), averages, schedule_of<lanes, T>(p));
       });
     })},
    {.name = "split_average_then_gemm",
     .changes = {"Splits long rows across several blocks, skips averaging if M is 1, and computes "
                 "the product with cuBLAS.",
                 Step::kParallelism, Step::kOperations},
     .why_not = why_not_library,
     .why_slower = why_library_slower,
     .blocks = kAveraging,
     .grid = [](const AverageMatvec& p, Extent) { return blocks_for(averaging_of(p).blocks); },
     .scratch_bytes = scratch_of_averaging,
     .flops = flops_of_split_average_then_gemm,
     .bytes = bytes_of_split_average_then_gemm,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type,
                 [&]<class T>(T) { multiply_with_library<T>(p, go, launch_averaging<T>(go, p)); });
     })},
    {.name = "row_product",
     .changes = {"Reads the matrix once to compute the product for few sets, and starts this read "
                 "before the averages are complete.",
                 Step::kDramReuse, Step::kFusion},
     .min_compute = 90,
     .why_slower = why_row_product_slower,
     .blocks = kAveraging,
     .grid = grid_of_row_product,
     .scratch_bytes = scratch_of_averaging,
     .flops = flops_of_row_product,
     .bytes = bytes_of_row_product,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type,
                 [&]<class T>(T) { launch_row_product<T>(go, p, launch_averaging<T>(go, p)); });
     })},
    {.name = "small_sets",
     .changes = {"Uses one launch, in which each block loads the matrix and the vectors of a few "
                 "sets at once and computes their results.",
                 Step::kFusion},
     .why_not = why_not_small,
     .why_slower = why_small_slower,
     .blocks = {{{kSmallThreads}}},
     .grid = [](const AverageMatvec& p, Extent) { return blocks_for(small_plan(p).blocks); },
     .shared_bytes = [](const AverageMatvec& p, Extent) { return small_plan(p).shared_bytes; },
     .flops = flops_of_small_sets,
     .bytes = bytes_of_small_sets,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type, [&]<class T>(T) {
         launch(go, average_matvec_small_sets<T>, small_operands<T>(p));
       });
     })},
};

}  // namespace

Ladder<AverageMatvec> average_matvec_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

// Largest sums on the GPU: out[p] = max(0, max_k(big[k, p] + small[k])).
//
// Each element of big is used once, for one addition and one comparison, so the kernels are
// memory-bound. Their time depends on the number of bytes in flight and on the order of the
// accesses.
//
// Steps: read one_block.cuh beside the post on memory access tuning, then prefetch.cuh beside the
// post on prefetching; its variants are not faster than whole_device. The list at the end of this
// file has one entry per variant.
//
// Engine, in reading order:
//
//   engine_columns.cuh      vectorised: wide loads on the whole device, for rows of any alignment
//   engine_split_terms.cuh  split_terms, for too few points for the whole device; one_barrier, for
//                           small problems
#include "routines/max_plus.hpp"

#include "common/read_ceiling.cuh"
#include "max_plus/engine_split_terms.cuh"
#include "max_plus/prefetch.cuh"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// Launches the kernel for the element type; the kernel takes only the operands.
template <void (*kFloatKernel)(MaxPlusOperands<float>),
          void (*kDoubleKernel)(MaxPlusOperands<double>)>
void run(const MaxPlus& p, const Launch& go) {
  if (p.big.type == kFloat32)
    launch(go, kFloatKernel, operands_of<float>(p));
  else
    launch(go, kDoubleKernel, operands_of<double>(p));
}

#endif

Extent grid_of_points(const MaxPlus& p, Extent block) {
  return grid_of(ceil_div(p.points(), block.x), 1);
}

template <unsigned kBlocks>
Extent few_blocks(const MaxPlus& p, Extent) {
  return {p.points() > 0 ? kBlocks : 0};
}

// Shared memory for the private slots of all threads.
template <int kPitch>
std::size_t slot_bytes(const MaxPlus& p, Extent block) {
  return block.x * kPitch * static_cast<std::size_t>(p.big.type.size);
}

// If rows are unaligned, only small can be loaded in vectors.
const char* why_not_vectors(const MaxPlus& p) {
  return rows_aligned(p) ? nullptr
                         : "rows of big or out are not aligned to 16 bytes, so only small can be "
                           "loaded in vectors";
}

constexpr Blocks kOneBlock = {{{kOneBlockThreads}}};
constexpr Blocks kPrefetchBlocks = {{{256}, {128}, {kPrefetchThreads}}};

constexpr Variant<MaxPlus> kVariants[] = {
    read_row<MaxPlus, &MaxPlus::big>("Reads big and nothing else."),
    {.name = "one_block",
     .changes = "Computes one point per thread and iteration, in one block of 1024 threads.",
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN(run<max_plus_one_block<float>, max_plus_one_block<double>>)},
    {.name = "vector_load_small",
     .changes = {"Loads small in vectors of 16 bytes.", Step::kWider},
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN(run<max_plus_vector_load_small<float>, max_plus_vector_load_small<double>>)},
    {.name = "vector_load_both",
     .changes =
         {"Also loads big in vectors of 16 bytes, so that a thread computes neighbouring points.",
          Step::kWider},
     .why_not = why_not_vectors,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN(run<max_plus_vector_load_both<float>, max_plus_vector_load_both<double>>)},
    {.name = "one_block_bounded",
     .changes = {"Runs one_block with launch bounds for one block per multiprocessor, which allow "
                 "64 registers per thread.",
                 Step::kInFlight},
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN(run<max_plus_one_block_bounded<float>, max_plus_one_block_bounded<double>>)},
    {.name = "vector_load_small_bounded",
     .changes = {"Adds vector loads of small to the launch bounds.", Step::kWider},
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN(run<max_plus_vector_load_small_bounded<float>,
                        max_plus_vector_load_small_bounded<double>>)},
    {.name = "vector_load_both_bounded",
     .changes = {"Adds vector loads of big to the launch bounds.", Step::kWider},
     .why_not = why_not_vectors,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN(
         run<max_plus_vector_load_both_bounded<float>, max_plus_vector_load_both_bounded<double>>)},
    {.name = "two_blocks",
     .changes =
         {"Uses scalar loads in two blocks of 512 threads, with launch bounds for two blocks per "
          "multiprocessor.",
          Step::kParallelism, Step::kOccupancy},
     .blocks = {{{kTwoBlocksThreads}}},
     .grid = few_blocks<2>,
     .run = ADO_RUN(run<max_plus_two_blocks<float>, max_plus_two_blocks<double>>)},
    {.name = "whole_device",
     .changes = {"Starts one thread per point, so that all multiprocessors have work.",
                 Step::kParallelism},
     .blocks = {{{kTwoBlocksThreads}, {256}, {128}}},
     .grid = grid_of_points,
     .run = ADO_RUN(run<max_plus_whole_device<float>, max_plus_whole_device<double>>)},
    {.name = "scalar_batched",
     .changes = {"Loads six elements together and then uses them one after another, in a loop that "
                 "is not unrolled further.",
                 Step::kInFlight},
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .run = ADO_RUN(run<max_plus_scalar_batched<float>, max_plus_scalar_batched<double>>)},
    {.name = "shared_batched",
     .changes = {"Keeps the prefetched elements in shared memory until they are used.",
                 Step::kOccupancy, Step::kInFlight},
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kPrefetchDistance>,
     .run = ADO_RUN(run<max_plus_shared_batched<float>, max_plus_shared_batched<double>>)},
    {.name = "scalar_rolling",
     .changes = {"Keeps the prefetched elements in registers, and loads the next element whenever "
                 "one has been used.",
                 Step::kInFlight},
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .run = ADO_RUN(run<max_plus_scalar_rolling<float>, max_plus_scalar_rolling<double>>)},
    {.name = "shared_rolling",
     .changes = {"Keeps the prefetched elements in shared memory, and loads the next one whenever "
                 "one has been used.",
                 Step::kOccupancy, Step::kInFlight},
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kPrefetchDistance>,
     .run = ADO_RUN(run<max_plus_shared_rolling<float>, max_plus_shared_rolling<double>>)},
    {.name = "async_rolling",
     .changes = {"Copies to shared memory asynchronously, without passing through registers.",
                 Step::kInFlight},
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kPrefetchDistance>,
     .run = ADO_RUN(run<max_plus_async_rolling<float>, max_plus_async_rolling<double>>)},
    {.name = "padded",
     .changes = {"Pads each thread's slots from six to nine, so that a warp accesses all banks "
                 "without conflicts.",
                 Step::kBankConflicts},
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kPrefetchDistance + kSlotPadding>,
     .run = ADO_RUN(run<max_plus_padded<float>, max_plus_padded<double>>)},
    {.name = "vectorised",
     .changes =
         {"Loads 16 bytes of each of two rows at a time, or two elements of each if rows are "
          "not aligned.",
          Step::kInFlight, Step::kWider},
     .blocks = {{{kColumnThreads}}},
     .grid =
         [](const MaxPlus& p, Extent) {
           return with_batch(p, [&]<class Batch>(auto, Batch) {
             return grid_of(ceil_div(p.points(), kColumnThreads * Batch::kPoints), 1);
           });
         },
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_batch(p, [&]<class T, class Batch>(T, Batch) {
         launch(go, max_plus_vectorised<T, Batch>, operands_of<T>(p));
       });
     })},
    {.name = "split_terms",
     .changes =
         {"Splits the terms over more threads and blocks if the points alone do not keep the "
          "device busy.",
          Step::kParallelism},
     .why_slower = why_split_slower,
     .blocks = {{{kColumnThreads}}},
     .grid = [](const MaxPlus& p, Extent,
                const Hardware& gpu) { return grid_of(term_split_of(p, gpu)); },
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_split_batch(p, [&]<class T, class Batch>(T, Batch) {
         launch_split<T>(go, p, term_split_of(p, go.hardware), max_plus_split_terms<T, Batch>);
       });
     })},
    {.name = "one_barrier",
     .changes =
         {"Loads several rows per thread at once in smaller blocks, and merges the maxima by "
          "shuffles and a single barrier.",
          Step::kInFlight, Step::kBarriers},
     .why_slower = why_one_barrier_slower,
     .blocks = {{{kOneBarrierThreads}}},
     .grid =
         [](const MaxPlus& p, Extent, const Hardware& gpu) {
           return with_one_barrier(
               p, gpu, [](auto, auto, const TermSplit& split) { return grid_of(split); });
         },
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_one_barrier(p, go.hardware,
                        [&]<class T, class Batch>(T, Batch, const TermSplit& split) {
                          launch_split<T>(go, p, split, max_plus_one_barrier<T, Batch>);
                        });
     })},
};

}  // namespace

Ladder<MaxPlus> max_plus_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

// Largest sums on the GPU: out[p] = max(0, max_k(big[k, p] + small[k])).
//
// Each number of big is needed once, for one addition and one comparison, so memory decides: how
// many bytes are under way at any time, and in which order. The first rungs are those of a post
// that looked at one block only; then come the six ways to prefetch of the post before it, and at
// last what a whole device needs.
//
// Times in the comments are for 64 terms of 4 Mi points in float64 on an H200, L2 flushed, where to
// read big and nothing else takes 469 us.
#include "routines/max_plus.hpp"

#include <algorithm>

#include "common/grid.cuh"
#include "common/read_ceiling.cuh"
#include "max_plus/columns.cuh"
#include "max_plus/operands.cuh"
#include "max_plus/prefetch.cuh"

namespace ado::cuda {
namespace {

constexpr int kOneBlockThreads = 1024;  // of the only block
constexpr int kTwoBlocksThreads = 512;  // of each, where there are two

// Blocks that keep a large device busy, and how many batches of rows each works on at least.
constexpr std::int64_t kBusyBlocks = 768;
constexpr int kFewestBatches = 4;

// Whether all rows of big, and out, begin at vectors.
bool rows_aligned(const MaxPlus& p) {
  const auto aligned = [](const Array& a) {
    return reinterpret_cast<std::uintptr_t>(a.data) % kVectorBytes == 0;
  };
  return aligned(p.big) && aligned(p.out) && p.points() * p.big.type.size % kVectorBytes == 0;
}

// A vector of each row or, where rows are not aligned, two elements. With more rows the compiler
// makes no more of 32 registers, and with more registers a multiprocessor holds but one block.
template <class Visit>
auto with_shape(const MaxPlus& p, Visit visit) {
  return with_real(p.big.type, [&]<class T>(T zero) {
    return rows_aligned(p) ? visit(zero, Shape<kWide<T>, 1, 2>{}) : visit(zero, Shape<1, 2, 2>{});
  });
}

// One element, where a block has threads for all of a row anyway.
template <class Visit>
auto with_narrow_shape(const MaxPlus& p, Visit visit) {
  if (rows_aligned(p) || p.points() > kColumnThreads) return with_shape(p, visit);
  return with_real(p.big.type, [&](auto zero) { return visit(zero, Shape<1, 1, 4>{}); });
}

// How the last rung spreads the terms: over teams of so many lanes in a block, and over `splits`
// blocks of so many rows.
struct Spread {
  int lanes;
  std::int64_t tiles, splits, rows;

  bool spreads() const { return splits > 1 || lanes < kColumnThreads; }
};

Spread spread_of(const MaxPlus& p) {
  if (p.points() == 0) return {.lanes = 1, .tiles = 0, .splits = 1, .rows = 1};
  return with_narrow_shape(p, [&]<class Shape>(auto, Shape) {
    const std::int64_t wanted = ceil_div(p.points(), Shape::kPoints);
    // As few whole warps to a team as keep the device busy, but rows for every team.
    std::int64_t lanes = kColumnThreads;
    while (lanes > 32 && ceil_div(wanted, lanes) < kBusyBlocks &&
           2 * kColumnThreads / lanes * Shape::kRows <= p.terms())
      lanes /= 2;
    lanes = std::min(lanes, wanted);
    const std::int64_t tiles = ceil_div(wanted, lanes);
    const std::int64_t batch = kColumnThreads / lanes * Shape::kRows;
    const std::int64_t most = std::max<std::int64_t>(p.terms() / (kFewestBatches * batch), 1);
    const std::int64_t splits = std::clamp<std::int64_t>(kBusyBlocks / tiles, 1, most);
    const std::int64_t rows =
        std::max<std::int64_t>(ceil_div(p.terms(), splits * batch), 1) * batch;
    return Spread{.lanes = static_cast<int>(lanes),
                  .tiles = tiles,
                  .splits = std::max<std::int64_t>(ceil_div(p.terms(), rows), 1),
                  .rows = rows};
  });
}

#ifdef __CUDACC__

// Terms of an iteration of an unrolled loop.
constexpr int kUnrolled = 8;

// The points of a thread, when the grid takes them in turns.
template <class Visit>
__device__ void for_points(std::int64_t points, Visit visit) {
  for (std::int64_t point = thread_x(); point < points;
       point += std::int64_t{gridDim.x} * blockDim.x)
    visit(point);
}

template <class T>
__device__ void store_largest(const Terms<T>& p, std::int64_t point) {
  T best = 0;
#pragma unroll kUnrolled
  for (std::int64_t k = 0; k < p.terms; ++k) best = larger(best, p.sum(k, point));
  p.out[point] = best;
}

// Of a run of points; small comes by vectors where it begins at one.
template <class T, class Points>
__device__ void store_largest_of_runs(const Terms<T>& p, std::int64_t run) {
  constexpr int kCount = sizeof(Points) / sizeof(T);
  const std::int64_t runs = p.points / kCount;
  const Points* const big = reinterpret_cast<const Points*>(p.big) + run;
  const bool aligned = reinterpret_cast<std::uintptr_t>(p.small) % kVectorBytes == 0;
  const std::int64_t wide_terms = aligned ? p.terms / kWide<T> * kWide<T> : 0;
  Points best = {};
  const auto add = [&](std::int64_t k, T term) {
    const Points points = big[k * runs];
#pragma unroll
    for (int i = 0; i < kCount; ++i) best.at[i] = larger(best.at[i], points.at[i] + term);
  };
#pragma unroll(kUnrolled / kWide <T>)
  for (std::int64_t k = 0; k < wide_terms; k += kWide<T>) {
    const auto terms = *reinterpret_cast<const Run<T, kWide<T>>*>(p.small + k);
#pragma unroll
    for (int i = 0; i < kWide<T>; ++i) add(k + i, terms.at[i]);
  }
#pragma unroll 1
  for (std::int64_t k = wide_terms; k < p.terms; ++k) add(k, p.small[k]);
  reinterpret_cast<Points*>(p.out)[run] = best;
}

// ---------------------------------------------------------------------------------------------
// One block, a point a thread at a time. To say 1024 threads keeps the kernel within the 64
// registers that each can have. For float64 on sm_90 the compiler takes 32 to 44 of them, and loads
// wait until what was loaded before them is used.
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads) max_plus_one_block(Terms<T> p) {
  for_points(p.points, [&](std::int64_t point) { store_largest(p, point); });
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads) max_plus_wide_small(Terms<T> p) {
  for_points(p.points, [&](std::int64_t point) { store_largest_of_runs<T, Run<T, 1>>(p, point); });
}

template <class T, class Points>
__global__ void __launch_bounds__(kOneBlockThreads) max_plus_wide_both(Terms<T> p) {
  for_points(p.points * sizeof(T) / sizeof(Points),
             [&](std::int64_t run) { store_largest_of_runs<T, Points>(p, run); });
}

// ---------------------------------------------------------------------------------------------
// The same three, told that one block a multiprocessor will do: 56 to 64 registers for float64.
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1) max_plus_one_block_bounded(Terms<T> p) {
  for_points(p.points, [&](std::int64_t point) { store_largest(p, point); });
}

template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1) max_plus_wide_small_bounded(Terms<T> p) {
  for_points(p.points, [&](std::int64_t point) { store_largest_of_runs<T, Run<T, 1>>(p, point); });
}

template <class T, class Points>
__global__ void __launch_bounds__(kOneBlockThreads, 1) max_plus_wide_both_bounded(Terms<T> p) {
  for_points(p.points * sizeof(T) / sizeof(Points),
             [&](std::int64_t run) { store_largest_of_runs<T, Points>(p, run); });
}

// ---------------------------------------------------------------------------------------------
// Two blocks of half the threads have as many registers each.
template <class T>
__global__ void __launch_bounds__(kTwoBlocksThreads, 2) max_plus_two_blocks(Terms<T> p) {
  for_points(p.points, [&](std::int64_t point) { store_largest(p, point); });
}

// ---------------------------------------------------------------------------------------------
template <class T>
__global__ void __launch_bounds__(kTwoBlocksThreads, 2) max_plus_whole_device(Terms<T> p) {
  if (const std::int64_t point = thread_x(); point < p.points) store_largest(p, point);
}

#endif

Extent grid_of_points(const MaxPlus& p, Extent block) {
  return grid_of(ceil_div(p.points(), block.x), 1);
}

template <unsigned kBlocks>
Extent few_blocks(const MaxPlus& p, Extent) {
  return {p.points() > 0 ? kBlocks : 0};
}

// Shared memory of private slots.
template <int kPitch>
std::size_t slot_bytes(const MaxPlus& p, Extent block) {
  return block.x * kPitch * static_cast<std::size_t>(p.big.type.size);
}

constexpr Blocks kOneBlock = {{{kOneBlockThreads}}};
constexpr Blocks kPrefetchBlocks = {{{256}, {128}, {kPrefetchThreads}}};

constexpr Variant<MaxPlus> kVariants[] = {
    read_row<MaxPlus, &MaxPlus::big>("Reads big and nothing else."),
    {.name = "one_block",
     .changes = "One block of 1024 threads, each taking a point at a time.",
     .device = Device::kCuda,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_one_block<T>, terms_of<T>(p)); });
     })},
    {.name = "wide_small",
     .changes = "Loads small by vectors of 16 bytes.",
     .device = Device::kCuda,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_wide_small<T>, terms_of<T>(p)); });
     })},
    {.name = "wide_both",
     .changes = "Loads big by vectors too, for neighbouring points, where its rows are aligned.",
     .device = Device::kCuda,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_shape(p, [&]<class T, class Shape>(T, Shape) {
         launch(go, max_plus_wide_both<T, Run<T, Shape::kCount>>, terms_of<T>(p));
       });
     })},
    {.name = "one_block_bounded",
     .changes = "The first of these again, with launch bounds: one block need fit, so a thread can "
                "have 64 registers.",
     .device = Device::kCuda,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_one_block_bounded<T>, terms_of<T>(p)); });
     })},
    {.name = "wide_small_bounded",
     .changes = "Loads small by vectors, with launch bounds.",
     .device = Device::kCuda,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_wide_small_bounded<T>, terms_of<T>(p)); });
     })},
    {.name = "wide_both_bounded",
     .changes = "Loads big by vectors too, with launch bounds.",
     .device = Device::kCuda,
     .blocks = kOneBlock,
     .grid = few_blocks<1>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_shape(p, [&]<class T, class Shape>(T, Shape) {
         launch(go, max_plus_wide_both_bounded<T, Run<T, Shape::kCount>>, terms_of<T>(p));
       });
     })},
    {.name = "two_blocks",
     .changes = "Scalar loads in two blocks of 512 threads, launch bounds asking for both at once.",
     .device = Device::kCuda,
     .blocks = {{{kTwoBlocksThreads}}},
     .grid = few_blocks<2>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_two_blocks<T>, terms_of<T>(p)); });
     })},
    {.name = "whole_device",
     .changes = "Starts a thread for each point, so all multiprocessors work.",
     .device = Device::kCuda,
     .blocks = {{{kTwoBlocksThreads}, {256}, {128}}},
     .grid = grid_of_points,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_whole_device<T>, terms_of<T>(p)); });
     })},
    {.name = "scalar_batched",
     .changes = "Asks for six numbers at once and then uses one after the other, in a loop that is "
                "not unrolled further.",
     .device = Device::kCuda,
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_scalar_batched<T>, terms_of<T>(p)); });
     })},
    {.name = "shared_batched",
     .changes = "Keeps the numbers in shared memory until they are used.",
     .device = Device::kCuda,
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kDistance>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_shared_batched<T>, terms_of<T>(p)); });
     })},
    {.name = "scalar_rolling",
     .changes = "Keeps them in registers again, and asks for the next whenever one is used.",
     .device = Device::kCuda,
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_scalar_rolling<T>, terms_of<T>(p)); });
     })},
    {.name = "shared_rolling",
     .changes = "Keeps them in shared memory, and asks for the next whenever one is used.",
     .device = Device::kCuda,
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kDistance>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_shared_rolling<T>, terms_of<T>(p)); });
     })},
    {.name = "async_rolling",
     .changes = "Copies asynchronously to shared memory, past the registers.",
     .device = Device::kCuda,
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kDistance>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type,
                 [&]<class T>(T) { launch(go, max_plus_async_rolling<T>, terms_of<T>(p)); });
     })},
    {.name = "padded",
     .changes = "Pads each thread's slots from six to nine, so that they spread over all banks.",
     .device = Device::kCuda,
     .blocks = kPrefetchBlocks,
     .grid = grid_of_points,
     .shared_bytes = slot_bytes<kDistance + kPadding>,
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_real(p.big.type, [&]<class T>(T) { launch(go, max_plus_padded<T>, terms_of<T>(p)); });
     })},
    {.name = "vectorised",
     .changes =
         "Loads 16 bytes of each of two rows at once, or two elements where rows are not aligned.",
     .device = Device::kCuda,
     .blocks = {{{kColumnThreads}}},
     .grid =
         [](const MaxPlus& p, Extent) {
           return with_shape(p, [&]<class Shape>(auto, Shape) {
             return grid_of(ceil_div(p.points(), kColumnThreads * Shape::kPoints), 1);
           });
         },
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       with_shape(p, [&]<class T, class Shape>(T, Shape) {
         launch(go, max_plus_vectorised<T, Shape>, terms_of<T>(p));
       });
     })},
    {.name = "split_terms",
     .changes = "Spreads the terms over threads and blocks that the points leave idle.",
     .device = Device::kCuda,
     .blocks = {{{kColumnThreads}}},
     .grid =
         [](const MaxPlus& p, Extent) {
           const Spread s = spread_of(p);
           return Extent{static_cast<unsigned>(s.tiles), static_cast<unsigned>(s.splits)};
         },
     .run = ADO_RUN([](const MaxPlus& p, const Launch& go) {
       const Spread s = spread_of(p);
       if (s.splits > 1) clear(go, p.out.data, static_cast<std::size_t>(p.out.bytes()));
       with_narrow_shape(p, [&]<class T, class Shape>(T, Shape) {
         if (s.spreads())
           launch(go, max_plus_split_terms<T, Shape>, terms_of<T>(p), s.lanes, s.rows);
         else
           launch(go, max_plus_vectorised<T, Shape>, terms_of<T>(p));
       });
     })},
};

}  // namespace

Ladder<MaxPlus> max_plus_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

// Gather on the GPU: out[i] = x[index[i]]. The steps are naive and batched, and in_order is their
// ceiling. There is no engine: the default is batched, or naive for a small result.
//
// The indices determine how many sectors the loads of x touch: the same number as a copy if the
// index is sorted, one per element if it is random. `ado.sectors` counts them. The requested bytes
// below are the bytes that the threads request, because the costs of a problem do not depend on its
// values.
#include "routines/gather.hpp"

#include "common/grid.cuh"
#include "common/vector.cuh"

namespace ado::cuda {
namespace {

constexpr int kGatherBatch = 4;  // elements per thread of `batched`
constexpr int kGathered = 4;     // neighbouring elements per thread of `in_order`

// Calls `visit` with the element size in bytes as a constant, and a zero of the index type.
template <class Visit>
void with_types(const Gather& p, Visit visit) {
  with_size(p.x.type.size, [&](auto size) {
    if (p.index.type.size == 4)
      visit(size, std::int32_t{});
    else
      visit(size, std::int64_t{});
  });
}

#ifdef __CUDACC__

template <class T, class Index>
struct GatherOperands {
  const T* x;
  std::int64_t length;
  const Index* index;
  T* out;
  std::int64_t count;

  // The element that an index selects. Indices outside x select the first or the last element.
  __device__ const T* at(Index wanted) const {
    return x + min(max(static_cast<std::int64_t>(wanted), std::int64_t{0}), length - 1);
  }
};

template <class T, class Index>
GatherOperands<T, Index> operands_of(const Gather& p) {
  return {p.x.as<const T>(), p.length(), p.index.as<const Index>(), p.out.as<T>(), p.count()};
}

// The load of an element cannot start before its index has arrived, so a thread waits for memory
// twice. A warp with random indices touches 32 sectors of 32 bytes, and uses one element per
// sector.
template <class T, class Index>
__global__ void gather_naive(GatherOperands<T, Index> p) {
  const std::int64_t i = thread_x();
  if (i < p.count) p.out[i] = *p.at(p.index[i]);
}

// All indices of a thread are loaded before its first element, and all elements before its first
// store. The elements of a thread are one block apart, so that loads of indices and stores are
// coalesced.
//
// Vectors of indices per load, and evict-first hints for indices and results, are not faster (H200,
// 2026; random and sorted indices of 1.5 Ki to 64 Mi elements: 0.99 to 1.08 times the time). The
// loads of x are the limiter.
template <class T, class Index>
__global__ void gather_batched(GatherOperands<T, Index> p) {
  const int threads = static_cast<int>(blockDim.x);
  const std::int64_t first = block_x() * (threads * kGatherBatch) + threadIdx.x;
  if (first + (kGatherBatch - 1) * threads < p.count) {
    Index index[kGatherBatch];
    T element[kGatherBatch];
#pragma unroll
    for (int i = 0; i < kGatherBatch; ++i) index[i] = p.index[first + i * threads];
#pragma unroll
    for (int i = 0; i < kGatherBatch; ++i) element[i] = *p.at(index[i]);
#pragma unroll
    for (int i = 0; i < kGatherBatch; ++i) p.out[first + i * threads] = element[i];
  } else {
    for (int i = 0; i < kGatherBatch; ++i)
      if (first + i * threads < p.count)
        p.out[first + i * threads] = *p.at(p.index[first + i * threads]);
  }
}

// The ceiling: reads element i of x (modulo the length of x) instead of the selected element, and
// also loads the index, all with accesses of up to 16 bytes. `vectors`: number of whole groups of
// kGathered elements in x.
template <class T, class Index>
__global__ void gather_in_order(GatherOperands<T, Index> p, std::int64_t vectors) {
  // Vectors of at most 16 bytes: four int32 indices or two int64 indices, and the elements.
  using Indices = WideVector<Index>;
  using Stored = Vector<T, (kGathered * sizeof(T) > kVectorBytes ? kVectorLength<T> : kGathered)>;
  constexpr int kIndices = kGathered / kVectorLength<Index>;
  constexpr int kStores = kGathered * sizeof(T) / sizeof(Stored);
  const std::int64_t thread = thread_x();
  if ((thread + 1) * kGathered > p.count) return;
  const Indices* const index = reinterpret_cast<const Indices*>(p.index) + thread * kIndices;
  const Stored* const from = reinterpret_cast<const Stored*>(p.x) + thread % vectors * kStores;
  Index used = 0;
#pragma unroll
  for (int i = 0; i < kIndices; ++i)
#pragma unroll
    for (int k = 0; k < kVectorLength<Index>; ++k) used |= index[i].at[k];
  Stored element[kStores];
#pragma unroll
  for (int i = 0; i < kStores; ++i) element[i] = from[i];
  // Almost never true. The compiler cannot prove this, so it keeps the loads of the index.
  if (used == -1) return;
#pragma unroll
  for (int i = 0; i < kStores; ++i)
    reinterpret_cast<Stored*>(p.out)[thread * kStores + i] = element[i];
}

#endif

Extent grid_of_elements(const Gather& p, std::int64_t per_block) {
  return grid_of(ceil_div(p.count(), per_block), 1);
}

double bytes_of_elements(const Gather& p) {
  return static_cast<double>(p.index.bytes() + 2 * p.out.bytes());
}

const char* why_slower_batched(const Gather& p, const Hardware& gpu) {
  return grid_of_elements(p, 256 * kGatherBatch).x < static_cast<unsigned>(gpu.multiprocessors)
             ? "the result is small, so one element per thread keeps more multiprocessors busy"
             : nullptr;
}

const char* why_not_in_order(const Gather& p) {
  if (!starts_at_vector(p.x.data)) return "x is not aligned to 16 bytes";
  if (p.length() < kGathered) return "x has fewer than 4 elements";
  if (!starts_at_vector(p.index.data)) return "index is not aligned to 16 bytes";
  return starts_at_vector(p.out.data) ? nullptr : "out is not aligned to 16 bytes";
}

constexpr Blocks kBlocks = {{{256}, {128}, {512}, {1024}}};

constexpr Variant<Gather> kVariants[] = {
    {.name = "in_order",
     .changes = "Reads the index, and reads x in order instead of the selected elements.",
     .ceiling = true,
     .why_not = why_not_in_order,
     .blocks = kBlocks,
     .grid = [](const Gather& p,
                Extent block) { return grid_of_elements(p, std::int64_t{block.x} * kGathered); },
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_in_order<T, Index>, operands_of<T, Index>(p), p.length() / kGathered);
       });
     })},
    {.name = "naive",
     .changes = "One thread per element loads its index and then the element.",
     .blocks = kBlocks,
     .grid = [](const Gather& p, Extent block) { return grid_of_elements(p, block.x); },
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_naive<T, Index>, operands_of<T, Index>(p));
       });
     })},
    {.name = "batched",
     .changes = {"Each thread issues four loads of indices, then four loads of elements.",
                 Step::kInFlight},
     .why_slower = why_slower_batched,
     .blocks = kBlocks,
     .grid = [](const Gather& p,
                Extent block) { return grid_of_elements(p, std::int64_t{block.x} * kGatherBatch); },
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_batched<T, Index>, operands_of<T, Index>(p));
       });
     })},
};

}  // namespace

Ladder<Gather> gather_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

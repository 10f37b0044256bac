// Gather on the GPU: out[i] = x[index[i]]. There is no engine: the default is batched, or naive for
// a small result.
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

constexpr Blocks kBlocks = {{{256}, {128}, {512}, {1024}}};

template <int kPerThread>
Extent grid_of_elements(const Gather& p, Extent block) {
  return grid_of(ceil_div(p.count(), std::int64_t{block.x} * kPerThread), 1);
}

double bytes_of_elements(const Gather& p) {
  return static_cast<double>(p.index.bytes() + 2 * p.out.bytes());
}

#ifdef __CUDACC__

// Calls `visit` with a zero of the element type and of the index type.
template <class Visit>
void with_types(const Gather& p, Visit visit) {
  with_size(p.x.type.size, [&](auto size) {
    if (p.index.type.size == 4)
      visit(Element<size>{}, std::int32_t{});
    else
      visit(Element<size>{}, std::int64_t{});
  });
}

// Indices outside x select the first or the last element.
template <class Index>
__device__ std::int64_t clamped(Index index, std::int64_t length) {
  return min(max(static_cast<std::int64_t>(index), std::int64_t{0}), length - 1);
}

#endif

// ---- in_order -----------------------------------------------------------------------------------
// The ceiling: reads element i of x (modulo the length of x) instead of the selected element, and
// also loads the index, all with accesses of up to 16 bytes. `vectors`: number of whole groups of
// kGathered elements in x.
constexpr int kGathered = 4;  // neighbouring elements per thread

#ifdef __CUDACC__
template <class T, class Index>
__global__ void gather_in_order(const T* x, std::int64_t vectors, const Index* index, T* out,
                                std::int64_t count) {
  // Vectors of at most 16 bytes: four int32 indices or two int64 indices, and the elements.
  using Indices = WideVector<Index>;
  using Stored = Vector<T, (kGathered * sizeof(T) > kVectorBytes ? kVectorLength<T> : kGathered)>;
  constexpr int kIndices = kGathered / kVectorLength<Index>;
  constexpr int kStores = kGathered * sizeof(T) / sizeof(Stored);
  const std::int64_t thread = thread_x();
  if ((thread + 1) * kGathered > count) return;
  const Indices* const indices = reinterpret_cast<const Indices*>(index) + thread * kIndices;
  const Stored* const from = reinterpret_cast<const Stored*>(x) + thread % vectors * kStores;
  Index used = 0;
#pragma unroll
  for (int i = 0; i < kIndices; ++i)
#pragma unroll
    for (int k = 0; k < kVectorLength<Index>; ++k) used |= indices[i].at[k];
  Stored element[kStores];
#pragma unroll
  for (int i = 0; i < kStores; ++i) element[i] = from[i];
  // Almost never true. The compiler cannot prove this, so it keeps the loads of the index.
  if (used == -1) return;
#pragma unroll
  for (int i = 0; i < kStores; ++i)
    reinterpret_cast<Stored*>(out)[thread * kStores + i] = element[i];
}
#endif

constexpr Variant<Gather> kInOrder = {
    .name = "in_order",
    .changes = "Reads the index, and reads x in order instead of the selected elements.",
    .ceiling = true,
    .why_not = [](const Gather& p) -> const char* {
      if (!starts_at_vector(p.x.data)) return "x is not aligned to 16 bytes";
      if (p.length() < kGathered) return "x has fewer than 4 elements";
      if (!starts_at_vector(p.index.data)) return "index is not aligned to 16 bytes";
      return starts_at_vector(p.out.data) ? nullptr : "out is not aligned to 16 bytes";
    },
    .blocks = kBlocks,
    .grid = grid_of_elements<kGathered>,
    .bytes = bytes_of_elements,
    .run = ADO_RUN([](const Gather& p, const Launch& go) {
      with_types(p, [&]<class T, class Index>(T, Index) {
        launch(go, gather_in_order<T, Index>, p.x.as<const T>(), p.length() / kGathered,
               p.index.as<const Index>(), p.out.as<T>(), p.count());
      });
    })};

// ---- naive --------------------------------------------------------------------------------------
// The load of an element cannot start before its index has arrived, so a thread waits for memory
// twice. A warp with random indices touches 32 sectors of 32 bytes, and uses one element per
// sector.
#ifdef __CUDACC__
template <class T, class Index>
__global__ void gather_naive(const T* x, std::int64_t length, const Index* index, T* out,
                             std::int64_t count) {
  const std::int64_t i = thread_x();
  if (i < count) out[i] = x[clamped(index[i], length)];
}
#endif

constexpr Variant<Gather> kNaive = {
    .name = "naive",
    .changes = "One thread per element loads its index and then the element.",
    .blocks = kBlocks,
    .grid = grid_of_elements<1>,
    .bytes = bytes_of_elements,
    .run = ADO_RUN([](const Gather& p, const Launch& go) {
      with_types(p, [&]<class T, class Index>(T, Index) {
        launch(go, gather_naive<T, Index>, p.x.as<const T>(), p.length(), p.index.as<const Index>(),
               p.out.as<T>(), p.count());
      });
    })};

// ---- batched ------------------------------------------------------------------------------------
// All indices of a thread are loaded before its first element, and all elements before its first
// store. The elements of a thread are one block apart, so that loads of indices and stores are
// coalesced.
//
// Vectors of indices per load, and evict-first hints for indices and results, are not faster (H200,
// 2026; random and sorted indices of 1.5 Ki to 64 Mi elements: 0.99 to 1.08 times the time). The
// loads of x are the limiter.
constexpr int kBatch = 4;  // elements per thread

#ifdef __CUDACC__
template <class T, class Index>
__global__ void gather_batched(const T* x, std::int64_t length, const Index* index, T* out,
                               std::int64_t count) {
  const int threads = static_cast<int>(blockDim.x);
  const std::int64_t first = block_x() * (threads * kBatch) + threadIdx.x;
  if (first + (kBatch - 1) * threads < count) {
    Index wanted[kBatch];
    T element[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) wanted[i] = index[first + i * threads];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) element[i] = x[clamped(wanted[i], length)];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) out[first + i * threads] = element[i];
  } else {
    for (int i = 0; i < kBatch; ++i)
      if (first + i * threads < count)
        out[first + i * threads] = x[clamped(index[first + i * threads], length)];
  }
}
#endif

constexpr Variant<Gather> kBatched = {
    .name = "batched",
    .changes = {"Each thread issues four loads of indices, then four loads of elements.",
                Step::kInFlight},
    .why_slower =
        [](const Gather& p, const Hardware& gpu) {
          return grid_of_elements<kBatch>(p, {256}).x < static_cast<unsigned>(gpu.multiprocessors)
                     ? "the result is small, so one element per thread keeps more multiprocessors "
                       "busy"
                     : nullptr;
        },
    .blocks = kBlocks,
    .grid = grid_of_elements<kBatch>,
    .bytes = bytes_of_elements,
    .run = ADO_RUN([](const Gather& p, const Launch& go) {
      with_types(p, [&]<class T, class Index>(T, Index) {
        launch(go, gather_batched<T, Index>, p.x.as<const T>(), p.length(),
               p.index.as<const Index>(), p.out.as<T>(), p.count());
      });
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Gather> kSteps[] = {kInOrder, kNaive, kBatched};

}  // namespace

Ladder<Gather> gather_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  constexpr std::int64_t kLength = 64 << 20;
  Gather p;
  p.x = cuda::random_array(kFloat32, {kLength});
  p.index = cuda::random_array({'i', 4}, {kLength});
  p.out = cuda::random_array(kFloat32, {kLength});
  for (std::int64_t i = 0; i < kLength; ++i) p.index.as<std::uint32_t>()[i] %= kLength;
  return cuda::run_ladder(cuda::gather_ladder(), p, [](const Gather& p) {
    for (std::int64_t i = 0; i < p.count(); ++i)
      p.out.as<float>()[i] = p.x.as<const float>()[p.index.as<const std::int32_t>()[i]];
  });
}
#endif

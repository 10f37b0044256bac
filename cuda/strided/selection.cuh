// Elements with a constant stride in memory: the steps that strided_copy and component share.
// Functions make the entries of the variants. Their parameter Access has the type of the routine,
// its source (the array that contains the selection), the selected elements as a view of the source
// in the layout that kernels receive, and the texts of the reasons.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"

namespace ado::cuda {

// Bytes of the sectors that contain the elements, for an array that begins at a sector. Elements
// that are at most one sector apart touch every sector between the first and the last one.
inline double sector_bytes(const Array& view, const std::byte* begin) {
  const std::int64_t count = view.shape[0], step = view.stride[0];
  if (count == 0) return 0;
  if (step > kSectorBytes) return static_cast<double>(count) * kSectorBytes;
  const std::int64_t first = view.data - begin;
  const std::int64_t last = first + (count - 1) * step + view.type.size - 1;
  return static_cast<double>((last / kSectorBytes - first / kSectorBytes + 1) * kSectorBytes);
}

template <class Access>
std::int64_t step_bytes(const typename Access::Routine& p) {
  return Access::selected(p).stride[0];
}

// One thread per kPerThread results.
template <class Access, int kPerThread = 1>
Extent grid_of_results(const typename Access::Routine& p, Extent block) {
  return grid_of(ceil_div(p.out.elements(), std::int64_t{block.x} * kPerThread), 1);
}

// The bytes of all touched sectors and of the result.
template <class Access>
double bytes_of_sectors(const typename Access::Routine& p) {
  return sector_bytes(Access::selected(p), Access::source(p).data) +
         static_cast<double>(p.out.bytes());
}

inline constexpr Blocks kSelectionBlocks = {{{256}, {128}, {512}, {1024}}};

#ifdef __CUDACC__

// Launches a kernel with the selected elements: a pointer, the distance in elements, the result and
// the number of elements.
template <class T, class... Others>
void launch_selection(const Launch& go,
                      void (*kernel)(const T*, std::int64_t, T*, std::int64_t, Others...),
                      const Array& view, const Array& out, std::type_identity_t<Others>... others) {
  launch(go, kernel, view.as<const T>(), view.stride[0] / static_cast<std::int64_t>(sizeof(T)),
         out.as<T>(), view.shape[0], others...);
}

#endif

// ---- sectors ------------------------------------------------------------------------------------
// The ceiling: reads all sectors that contain selected elements, and writes the result
// without selecting elements, both with 16-byte accesses.

inline constexpr int kSectorThreads = 256;
inline constexpr int kSectorLoads = 4;  // in flight per thread

// The number of 16-byte vectors to read per 16-byte vector of the result. Both vectors of a sector
// are read, so the elements of a result vector occupy min(step, sector) / element size vectors.
inline int vectors_per_result(const Array& view) {
  const auto step =
      static_cast<int>(view.stride[0] < kSectorBytes ? view.stride[0] : std::int64_t{kSectorBytes});
  return step / view.type.size;
}

inline std::int64_t whole_vectors(const Array& a) { return a.bytes() / kVectorBytes; }

// One vector of the result per thread.
inline Extent grid_of_sectors(const Array& out) {
  return grid_of(ceil_div(out.bytes(), kVectorBytes * kSectorThreads), 1);
}

#ifdef __CUDACC__
// Vector `v` to read is half of the sector that contains element v / 2. If elements are less than a
// sector apart, it is the vector at v * 16 bytes from the first sector.
static __global__ void __launch_bounds__(kSectorThreads)
    copy_sectors(const std::byte* from, std::int64_t step, uint4* out, std::int64_t vectors,
                 const std::byte* end, int reads) {
  const std::int64_t first = block_x() * kSectorThreads;
  const bool dense = step < kSectorBytes;
  const std::byte* const sector = from - reinterpret_cast<std::uintptr_t>(from) % kSectorBytes;
  uint4 sum = {};
  for (int read = 0; read < reads; read += kSectorLoads) {
    uint4 vector[kSectorLoads] = {};
#pragma unroll
    for (int i = 0; i < kSectorLoads; ++i) {
      const std::int64_t v = first * reads + (read + i) * kSectorThreads + threadIdx.x;
      const std::int64_t within =
          (reinterpret_cast<std::uintptr_t>(from) % kSectorBytes + v / 2 * step) / kSectorBytes *
          kSectorBytes;
      const std::byte* const at =
          sector + (dense ? v * kVectorBytes : within + v % 2 * kVectorBytes);
      if (read + i < reads && at + kVectorBytes <= end)
        vector[i] = *reinterpret_cast<const uint4*>(at);
    }
#pragma unroll
    for (int i = 0; i < kSectorLoads; ++i) {
      sum.x ^= vector[i].x;
      sum.y ^= vector[i].y;
      sum.z ^= vector[i].z;
      sum.w ^= vector[i].w;
    }
  }
  const std::int64_t to = first + threadIdx.x;
  if (to < vectors) out[to] = sum;
}
#endif

template <class Access, class Routine = typename Access::Routine>
constexpr Variant<Routine> sectors_row(const char* name, Change changes) {
  return {.name = name,
          .changes = changes,
          .ceiling = true,
          .why_not = [](const Routine& p) -> const char* {
            if (!starts_at_vector(Access::source(p).data, kSectorBytes)) return Access::kUnaligned;
            return starts_at_vector(p.out.data) ? nullptr : "out is not aligned to 16 bytes";
          },
          .blocks = {{{kSectorThreads}}},
          .grid = [](const Routine& p, Extent) { return grid_of_sectors(p.out); },
          .bytes = bytes_of_sectors<Access>,
          .run = ADO_RUN([](const Routine& p, const Launch& go) {
            const Array from = Access::selected(p);
            launch(go, copy_sectors, from.data, from.stride[0], p.out.template as<uint4>(),
                   whole_vectors(p.out), Access::source(p).data + Access::source(p).bytes(),
                   vectors_per_result(from));
          })};
}

// ---- naive, array_of_structures -----------------------------------------------------------------
// A warp stores 32 neighbouring elements, so stores are coalesced. Its load accesses 32 elements
// that are `step` apart: it touches at least the sectors of 32 neighbouring elements, and at most
// 32 sectors of 32 bytes, with one used element per sector. DRAM and L2 transfer whole sectors, so
// no kernel can read less. The variants differ in the number of sectors in flight.
#ifdef __CUDACC__
template <class T>
static __global__ void select_naive(const T* x, std::int64_t step, T* out, std::int64_t count) {
  const std::int64_t i = thread_x();
  if (i < count) out[i] = x[i * step];
}
#endif

template <class Access, class Routine = typename Access::Routine>
constexpr Variant<Routine> naive_row(const char* name, Change changes) {
  return {.name = name,
          .changes = changes,
          .blocks = kSelectionBlocks,
          .grid = grid_of_results<Access>,
          .bytes = bytes_of_sectors<Access>,
          .run = ADO_RUN([](const Routine& p, const Launch& go) {
            with_size(p.out.type.size, [&](auto size) {
              using T = Element<size>;
              launch_selection<T>(go, select_naive<T>, Access::selected(p), p.out);
            });
          })};
}

// ---- batched ------------------------------------------------------------------------------------
// Loads per thread before its first store.
inline constexpr int kBatch = 4;

#ifdef __CUDACC__
// The loads of a thread are one block apart, so that the stores of a warp are coalesced.
template <class T>
static __global__ void select_batched(const T* x, std::int64_t step, T* out, std::int64_t count) {
  const int threads = static_cast<int>(blockDim.x);
  const std::int64_t first = block_x() * (threads * kBatch) + threadIdx.x;
  const T* const from = x + first * step;
  const std::int64_t distance = threads * step;
  T element[kBatch];
  if (first + (kBatch - 1) * threads < count) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) element[i] = from[i * distance];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) out[first + i * threads] = element[i];
  } else {
    for (int i = 0; i < kBatch; ++i)
      if (first + i * threads < count) out[first + i * threads] = from[i * distance];
  }
}
#endif

template <class Access, class Routine = typename Access::Routine>
constexpr Variant<Routine> batched_row(const char* name) {
  return {.name = name,
          .changes = {"Each thread issues four loads before its first store.", Step::kInFlight},
          .why_slower =
              [](const Routine& p, const Hardware& gpu) {
                return grid_of_results<Access, kBatch>(p, {256}).x <
                               static_cast<unsigned>(gpu.multiprocessors)
                           ? Access::kTooFewToBatch
                           : nullptr;
              },
          .blocks = kSelectionBlocks,
          .grid = grid_of_results<Access, kBatch>,
          .bytes = bytes_of_sectors<Access>,
          .run = ADO_RUN([](const Routine& p, const Launch& go) {
            with_size(p.out.type.size, [&](auto size) {
              using T = Element<size>;
              launch_selection<T>(go, select_batched<T>, Access::selected(p), p.out);
            });
          })};
}

// ---- staged -------------------------------------------------------------------------------------
// A block loads a contiguous range of bytes with 16-byte loads, and selects elements from
// shared memory.
//
// With one element per thread and load, a request uses part of each sector. If the other elements
// of the sector are needed, other lanes or warps request the sector again. Here, every vector is
// requested once. A warp requests 512 bytes per load for any element size.

inline constexpr int kStagedThreads = 256;
inline constexpr int kStagedVectors = 4;  // in flight per thread
inline constexpr int kStagedBytes = kStagedThreads * kStagedVectors * kVectorBytes;

// With fewer results, the barrier per tile costs more than the saved requests: on an H200 (2026),
// up to 9 % of the time of a kernel with one load per element. With more results, staged takes 0.96
// to 1.02 times the time of that kernel.
inline constexpr std::int64_t kFewestStagedResults = 4 << 20;

// Elements per block. Their bytes fit the tile at any alignment. The number is a multiple of 32, so
// that each block stores whole sectors of an aligned result. 0: the elements are too far apart.
inline int staged_elements(std::int64_t step_bytes) {
  return static_cast<int>((kStagedBytes - kVectorBytes) / step_bytes / 32 * 32);
}

#ifdef __CUDACC__
// `begin` and `end`: the whole array, which contains the selected elements. The tile begins at the
// vector that contains the first element of the block. If a vector extends beyond the array, the
// block loads single elements instead.
template <class T>
static __global__ void __launch_bounds__(kStagedThreads)
    select_staged(const T* x, std::int64_t step, T* out, std::int64_t results, const T* begin,
                  const T* end, int elements) {
  using Wide = WideVector<T>;
  constexpr int kLength = kVectorLength<T>;
  __shared__ Wide tile[kStagedBytes / kVectorBytes];
  T* const staged = reinterpret_cast<T*>(tile);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = block_x() * elements;
  const int count = static_cast<int>(min(results - first, std::int64_t{elements}));
  const T* const from = x + first * step;
  const int before = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % kVectorBytes /
                                      static_cast<int>(sizeof(T)));
  const T* const start = from - before;
  const int loaded = before + (count - 1) * static_cast<int>(step) + 1;
  const int vectors = (loaded + kLength - 1) / kLength;
  if (start >= begin && start + vectors * kLength <= end) {
    Wide vector[kStagedVectors];
#pragma unroll
    for (int i = 0; i < kStagedVectors; ++i)
      if (thread + i * kStagedThreads < vectors)
        vector[i] = reinterpret_cast<const Wide*>(start)[thread + i * kStagedThreads];
#pragma unroll
    for (int i = 0; i < kStagedVectors; ++i)
      if (thread + i * kStagedThreads < vectors) tile[thread + i * kStagedThreads] = vector[i];
  } else {
    for (int i = before + thread; i < loaded; i += kStagedThreads) staged[i] = start[i];
  }
  __syncthreads();
  for (int i = thread; i < count; i += kStagedThreads)
    out[first + i] = staged[before + i * static_cast<int>(step)];
}
#endif

template <class Access, class Routine = typename Access::Routine>
constexpr Variant<Routine> staged_row(const char* name, Change changes) {
  return {
      .name = name,
      .changes = changes,
      .why_not =
          [](const Routine& p) {
            return staged_elements(step_bytes<Access>(p)) > 0 ? nullptr : Access::kTooFarApart;
          },
      .why_slower = [](const Routine& p) -> const char* {
        if (step_bytes<Access>(p) > kSectorBytes) return Access::kUnusedSectors;
        return p.out.elements() < kFewestStagedResults ? Access::kTooFewToStage : nullptr;
      },
      .blocks = {{{kStagedThreads}}},
      .grid =
          [](const Routine& p, Extent) {
            return grid_of(ceil_div(p.out.elements(), staged_elements(step_bytes<Access>(p))), 1);
          },
      .bytes =
          [](const Routine& p) {
            return static_cast<double>(p.out.elements() * step_bytes<Access>(p) + p.out.bytes());
          },
      .run = ADO_RUN([](const Routine& p, const Launch& go) {
        with_size(p.out.type.size, [&](auto size) {
          using T = Element<size>;
          const Array& source = Access::source(p);
          launch_selection<T>(go, select_staged<T>, Access::selected(p), p.out,
                              source.as<const T>(), source.as<const T>() + source.elements(),
                              staged_elements(step_bytes<Access>(p)));
        });
      })};
}

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

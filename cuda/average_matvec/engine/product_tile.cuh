// average_matvec, engine: one tile of the product of the matrix with the averages, and
// wide_average, which computes the averages and then the product.
#pragma once

#include "average_matvec/engine/row_averages.cuh"
#include "common/async_copy.cuh"

namespace ado::cuda {
namespace {

// ---- wide_average, overlapped, row_product ------------------------------------------------------
template <class T>
struct ProductOperands {
  const T *matrix, *averages;  // (length, length) and (sets, length)
  T* out;                      // (length, sets)
  std::int64_t sets;
  int length;
  bool aligned;  // all rows of the matrix and the averages start at a vector
};

template <class T>
ProductOperands<T> product_of(const AverageMatvec& p, const T* averages) {
  const bool aligned = starts_at_vector(p.matrix.data) && starts_at_vector(averages) &&
                       p.length() * std::int64_t{sizeof(T)} % kVectorBytes == 0;
  return {p.matrix.as<const T>(),       averages, p.out.as<T>(), p.sets(),
          static_cast<int>(p.length()), aligned};
}

// ---- wide_average, overlapped -------------------------------------------------------------------
// A block computes a tile. The tile is the product of kRows rows of the matrix and the averages of
// kSets sets. A block stages a chunk of columns of both operands in shared memory, multiplies it,
// and continues with the next chunk. Teams of threads share the columns of a chunk:
//
//                              columns of a chunk
//                    | team 0 | team 1 | team 2 | ... |
//   matrix, kRows    |        |        |        |     |
//   averages, kSets  |        |        |        |     |
//
// Each team computes the whole tile from its kTeamColumns columns. Each thread of a team computes
// kThreadRows by kThreadSets elements of the tile. At the end, the tiles of all teams are added.
template <class T, int kRows_, int kSets_, int kChunkBytes>
struct ProductTile {
  static constexpr int kRows = kRows_, kSets = kSets_;
  static constexpr int kLength = kVectorLength<T>;
  static constexpr int kChunk = kChunkBytes / sizeof(T);
  static constexpr int kChunkVectors = kChunk / kLength;

  // Distance in elements between staged lines (rows or sets): 16 bytes more than a chunk. 16-byte
  // accesses are served for eight threads at a time, and these threads read the same column of
  // neighbouring lines. First bank:
  //
  //   line             0   1   2   3   4   5   6   7
  //   without padding  0   0   0   0   0   0   0   0   eight-way bank conflict
  //   with 16 bytes    0   4   8  12  16  20  24  28   all 32 banks, no conflict
  static constexpr int kPitch = kChunk + kLength;

  // A team is kThreadsDown by kThreadsAcross threads.
  static constexpr int kThreadRows = 4, kThreadSets = kLength;
  static constexpr int kThreadsDown = kRows / kThreadRows, kThreadsAcross = kSets / kThreadSets;
  static constexpr int kTeamThreads = kThreadsDown * kThreadsAcross;
  static constexpr int kTeams = kAveragingThreads / kTeamThreads;
  static constexpr int kTeamColumns = kChunk / kTeams;

  // Vectors of a chunk that each thread copies.
  static constexpr int kRowLoads = kRows * kChunkVectors / kAveragingThreads;
  static constexpr int kSetLoads = kSets * kChunkVectors / kAveragingThreads;

  // Shared memory: two buffers for rows of the matrix and one for averages; then the teams' tiles.
  static constexpr int kElements = kRows * kSets;
  static constexpr int kStagedElements = (2 * kRows + kSets) * kPitch;
  static constexpr int kReducedElements = kTeams * kElements;
  static constexpr std::size_t kSharedBytes =
      sizeof(T) * (kStagedElements > kReducedElements ? kStagedElements : kReducedElements);

  static_assert(kTeams * kTeamThreads == kAveragingThreads && kTeams * kTeamColumns == kChunk);
  static_assert(kTeamColumns % kLength == 0);
  static_assert(kRowLoads * kAveragingThreads == kRows * kChunkVectors);
  static_assert(kSetLoads * kAveragingThreads == kSets * kChunkVectors);
};

#ifdef __CUDACC__

// Blocks can read averages that other blocks of the same launch write. The memory is zeroed before
// the launch, so a word of zero bits has not been written yet. An average of 0 is therefore stored
// as -0, which does not change any product. A word is written by a single access, so no fence and
// no counter are needed.
template <class T>
struct Published {
  using Bits = std::conditional_t<sizeof(T) == sizeof(float), unsigned, unsigned long long>;

  static __device__ bool missing(T x) { return __builtin_bit_cast(Bits, x) == 0; }
  static __device__ void store(T* to, T average) {
    const T x = average == 0 ? T(-0.0) : average;
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(T) == sizeof(float))
      asm volatile("st.relaxed.gpu.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(x),
                   "l"(keep_in_l2_policy())
                   : "memory");
    else
      asm volatile("st.relaxed.gpu.global.L2::cache_hint.f64 [%0], %1, %2;" ::"l"(to), "d"(x),
                   "l"(keep_in_l2_policy())
                   : "memory");
#else
    *static_cast<volatile T*>(to) = x;
#endif
  }
  static __device__ WideVector<T> load(const T* from) {
    WideVector<T> v;
    if constexpr (sizeof(T) == sizeof(float))
      asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v.at[0]), "=f"(v.at[1]), "=f"(v.at[2]), "=f"(v.at[3])
                   : "l"(from)
                   : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.v2.f64 {%0, %1}, [%2];"
                   : "=d"(v.at[0]), "=d"(v.at[1])
                   : "l"(from)
                   : "memory");
    return v;
  }
};

// Waits until the average has been published.
template <class T>
__device__ T await_average(const T* from) {
  T average;
  while (Published<T>::missing(average = *static_cast<const volatile T*>(from))) __nanosleep(500);
  return average;
}

// out = matrix * averages^T, in the tile that begins at first_row and first_set. kAwaited: some
// averages may not have been published yet. `shared` has Tile::kSharedBytes.
template <class Tile, bool kAwaited, bool kAligned, class T>
__device__ void multiply_tile(const ProductOperands<T>& p, int first_row, std::int64_t first_set,
                              T* shared) {
  constexpr int kLength = Tile::kLength, kPitch = Tile::kPitch;
  T* const staged_sets = shared + 2 * Tile::kRows * kPitch;  // after two buffers for rows
  const int thread = threadIdx.x;

  // Staging: a thread copies one vector of every kLineStep-th row and set.
  constexpr int kLineStep = kAveragingThreads / Tile::kChunkVectors;
  const int line = thread / Tile::kChunkVectors, column = thread % Tile::kChunkVectors * kLength;
  const int staged = line * kPitch + column;
  const T* const matrix =
      p.matrix + static_cast<std::int64_t>(first_row + line) * p.length + column;
  const T* const averages = p.averages + (first_set + line) * p.length + column;
  const std::int64_t step = static_cast<std::int64_t>(kLineStep) * p.length;
  const int rows_left = p.length - first_row - line;
  const int sets_left =
      static_cast<int>(min(p.sets - first_set - line, static_cast<std::int64_t>(Tile::kSets)));
  const auto columns_left = [&](int chunk) { return p.length - column - chunk * Tile::kChunk; };
  const auto copy_rows = [&](int chunk) {
    T* const to = shared + chunk % 2 * (Tile::kRows * kPitch) + staged;
    const T* const from = matrix + chunk * Tile::kChunk;
    const int columns = columns_left(chunk);
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < Tile::kRowLoads; ++i) {
        const bool exists = i * kLineStep < rows_left && columns > 0;
        copy_vector_async_keep(to + i * (kLineStep * kPitch), exists ? from + i * step : p.matrix,
                               exists);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < Tile::kRowLoads; ++i)
        for (int j = 0; j < kLength; ++j)
          if (i * kLineStep < rows_left && j < columns)
            copy_element_async_keep(to + i * (kLineStep * kPitch) + j, from + i * step + j);
          else
            to[i * (kLineStep * kPitch) + j] = 0;
    }
    commit_copies();
  };
  // Averages are loaded into registers one chunk ahead, so that missing averages can be detected.
  // Unaligned averages are loaded only when they are staged.
  WideVector<T> next[Tile::kSetLoads];
  const auto load_sets = [&](int chunk) {
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < Tile::kSetLoads; ++i) {
        next[i] = {};
        if (i * kLineStep < sets_left && columns_left(chunk) > 0)
          next[i] = Published<T>::load(averages + chunk * Tile::kChunk + i * step);
      }
    }
  };
  const auto store_sets = [&](int chunk) {
    T* const to = staged_sets + staged;
    const T* const from = averages + chunk * Tile::kChunk;
    const int columns = columns_left(chunk);
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < Tile::kSetLoads; ++i) {
        if constexpr (kAwaited)
#pragma unroll
          for (int j = 0; j < kLength; ++j)
            if (Published<T>::missing(next[i].at[j]) && i * kLineStep < sets_left && columns > 0)
              next[i].at[j] = await_average(from + i * step + j);
        *reinterpret_cast<WideVector<T>*>(to + i * (kLineStep * kPitch)) = next[i];
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < Tile::kSetLoads; ++i)
        for (int j = 0; j < kLength; ++j) {
          T average = 0;
          if (i * kLineStep < sets_left && j < columns) {
            const T* const at = from + i * step + j;
            average = kAwaited ? await_average(at) : *at;
          }
          to[i * (kLineStep * kPitch) + j] = average;
        }
    }
  };

  // Multiplication: the thread computes rows `row`, row + kThreadsDown, ... and sets `set`,
  // set + kThreadsAcross, ... of the tile.
  const int member = thread % Tile::kTeamThreads, team = thread / Tile::kTeamThreads;
  const int row = member / Tile::kThreadsAcross, set = member % Tile::kThreadsAcross;
  T product[Tile::kThreadRows][Tile::kThreadSets] = {};

  const int chunks = (p.length + Tile::kChunk - 1) / Tile::kChunk;
  copy_rows(0);
  if constexpr (kAwaited) {
    // One thread waits for the average that is probably the last to be published. Polling in all
    // threads takes L2 bandwidth: 1.12 instead of 1.04 times the ceiling's time (H200).
    if (thread == 0) {
      const std::int64_t end = first_set + Tile::kSets;
      await_average(p.averages + (end < p.sets ? end : p.sets) * p.length - 1);
    }
    __syncthreads();
  }
  load_sets(0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    __syncthreads();  // all threads have read the previous chunk
    store_sets(chunk);
    if (chunk + 1 < chunks) {
      copy_rows(chunk + 1);
      load_sets(chunk + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const T* const rows =
        shared + chunk % 2 * (Tile::kRows * kPitch) + row * kPitch + team * Tile::kTeamColumns;
    const T* const sets = staged_sets + set * kPitch + team * Tile::kTeamColumns;
#pragma unroll 1  // otherwise registers spill, which also slows down averaging blocks
    for (int k = 0; k < Tile::kTeamColumns; k += kLength) {
      WideVector<T> left[Tile::kThreadRows], right[Tile::kThreadSets];
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; ++i)
        left[i] =
            *reinterpret_cast<const WideVector<T>*>(rows + i * Tile::kThreadsDown * kPitch + k);
#pragma unroll
      for (int j = 0; j < Tile::kThreadSets; ++j)
        right[j] =
            *reinterpret_cast<const WideVector<T>*>(sets + j * Tile::kThreadsAcross * kPitch + k);
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; ++i)
#pragma unroll
        for (int j = 0; j < Tile::kThreadSets; ++j)
#pragma unroll
          for (int e = 0; e < kLength; ++e)
            product[i][j] = fma(left[i].at[e], right[j].at[e], product[i][j]);
    }
  }

  // Reduction over the teams.
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Tile::kThreadRows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kThreadSets; ++j)
      shared[team * Tile::kElements + (row + i * Tile::kThreadsDown) * Tile::kSets + set +
             j * Tile::kThreadsAcross] = product[i][j];
  __syncthreads();
  for (int element = thread; element < Tile::kElements; element += kAveragingThreads) {
    T sum = 0;
#pragma unroll
    for (int i = 0; i < Tile::kTeams; ++i) sum += shared[i * Tile::kElements + element];
    const int out_row = first_row + element / Tile::kSets;
    const std::int64_t out_set = first_set + element % Tile::kSets;
    if (out_row < p.length && out_set < p.sets) p.out[out_row * p.sets + out_set] = sum;
  }
}

template <class Tile, bool kAwaited, class T>
__device__ void multiply_tile(const ProductOperands<T>& p, int first_row, std::int64_t first_set,
                              T* shared) {
  if (p.aligned)
    multiply_tile<Tile, kAwaited, true>(p, first_row, first_set, shared);
  else
    multiply_tile<Tile, kAwaited, false>(p, first_row, first_set, shared);
}

#endif

// ---- wide_average -------------------------------------------------------------------------------
// 16 bytes per load, eight loads in flight per lane, and a number of lanes per row that depends on
// the row length (row_averages.cuh). Two techniques have no variant of their own, because
// measurements of wide_average show that they could gain little. Persistent blocks could gain at
// most the difference between its first kernel and the ceiling `read`, about 1 %. Programmatic
// dependent launch of its second kernel could hide the launch and the first tile, about 0.3 %;
// overlapped hides most of the product.
template <class T>
using WideTile = ProductTile<T, 64, 16 * kVectorLength<T>, 256>;

#ifdef __CUDACC__
template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, kAveragingBlocks)
    average_matvec_wide_average(SampleRows<T> rows, T* averages) {
  __shared__ T warp_sums[kAveragingWarps];
  average_rows_of<kLanes>(rows, blockIdx.x, warp_sums,
                          [&](std::int64_t row, T average) { averages[row] = average; });
}

// One block per tile of the product.
template <class Tile, class T>
__global__ void __launch_bounds__(kAveragingThreads, 2)
    average_matvec_product(ProductOperands<T> p) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  multiply_tile<Tile, false>(p, static_cast<int>(blockIdx.y) * Tile::kRows,
                             std::int64_t{blockIdx.x} * Tile::kSets, reinterpret_cast<T*>(shared));
}
#endif

constexpr Variant<AverageMatvec> kWideAverage = {
    .name = "wide_average",
    .changes = {"Loads 16 bytes at a time, with eight loads in flight per lane, and computes the "
                "product in tiles of its own.",
                Step::kInFlight, Step::kWider},
    .blocks = {{{kAveragingThreads}}},
    .grid =
        [](const AverageMatvec& p, Extent) {
          return with_type_and_lanes(p, [&](auto zero, auto lanes) {
            const RowSharing sharing = sharing_of<lanes, decltype(zero)>(p);
            return Extent{
                static_cast<unsigned>(ceil_div(p.sets() * p.length(), sharing.rows_per_block))};
          });
        },
    .scratch_bytes = bytes_of_averages,
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
    })};

}  // namespace
}  // namespace ado::cuda

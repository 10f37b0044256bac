// One tile of the product of a matrix with averages, by one block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "average_matvec/row_averages.cuh"

namespace ado::cuda {

// kRows rows of the matrix times the averages of kSets sets, a chunk of columns at a time. Teams of
// threads share out the columns of a chunk: each adds up a product of its own, of which a thread
// has kDown by kAcross elements, and all products are added in the end.
template <class T, int kRows_, int kSets_, int kChunkBytes>
struct ProductTile {
  static constexpr int kRows = kRows_, kSets = kSets_;
  static constexpr int kWidth = kVectorBytes / sizeof(T);
  static constexpr int kChunk = kChunkBytes / sizeof(T);
  // 16 bytes more than the chunk: then neighbours read their rows without conflicts of banks.
  static constexpr int kPitch = kChunk + kWidth;
  static constexpr int kVectors = kChunk / kWidth;  // of a row
  static constexpr int kDown = 4, kAcross = kWidth;
  static constexpr int kTeamDown = kRows / kDown, kTeamAcross = kSets / kAcross;
  static constexpr int kTeam = kTeamDown * kTeamAcross;
  static constexpr int kTeams = kAveragingThreads / kTeam;
  static constexpr int kShare = kChunk / kTeams;
  static constexpr int kRowLoads = kRows * kVectors / kAveragingThreads;
  static constexpr int kSetLoads = kSets * kVectors / kAveragingThreads;
  static constexpr int kElements = kRows * kSets;
  static constexpr int kStaged = (2 * kRows + kSets) * kPitch, kReduced = kTeams * kElements;
  static constexpr std::size_t kSharedBytes = sizeof(T) * (kStaged > kReduced ? kStaged : kReduced);
  static_assert(kTeams * kTeam == kAveragingThreads && kTeams * kShare == kChunk);
  static_assert(kShare % kWidth == 0);
  static_assert(kRowLoads * kAveragingThreads == kRows * kVectors);
  static_assert(kSetLoads * kAveragingThreads == kSets * kVectors);
};

template <class T>
struct Product {
  const T *matrix, *averages;  // (length, length) and (sets, length)
  T* out;                      // (length, sets)
  std::int64_t sets;
  int length;
  bool aligned;  // all rows begin at multiples of 16 bytes
};

#ifdef __CUDACC__

template <class T>
struct alignas(kVectorBytes) Elements {
  T at[kVectorBytes / sizeof(T)];
};

// Copies to shared memory while the thread goes on. L2 is to keep what was copied, whatever streams
// through it meanwhile.
#if __CUDA_ARCH__ >= 800
inline __device__ std::uint64_t keep_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
inline __device__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
// kVectorBytes, or zeros.
template <class T>
__device__ void copy_vector(T* to, const T* from, bool exists) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address(to)),
      "l"(from), "r"(exists ? kVectorBytes : 0), "l"(keep_policy())
      : "memory");
}
template <class T>
__device__ void copy_element(T* to, const T* from) {
  asm volatile(
      "cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
      "l"(from), "n"(sizeof(T)), "l"(keep_policy())
      : "memory");
}
inline __device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the youngest kYoungest groups of copies have arrived.
template <int kYoungest>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kYoungest) : "memory");
}
#else
template <class T>
__device__ void copy_vector(T* to, const T* from, bool exists) {
  using Vector = Elements<T>;
  *reinterpret_cast<Vector*>(to) = exists ? *reinterpret_cast<const Vector*>(from) : Vector{};
}
template <class T>
__device__ void copy_element(T* to, const T* from) {
  *to = *from;
}
inline __device__ void commit_copies() {}
template <int kYoungest>
__device__ void wait_for_copies() {}
#endif

// Averages may be read by blocks of the launch that writes them, if their memory was cleared
// before: a word without bits is not there yet, and an average of 0 has its sign bit set, which no
// product shows. A word is written at once, so that it needs no fence and no counter.
template <class T>
struct Published;

template <>
struct Published<float> {
  static __device__ bool missing(float x) { return __float_as_uint(x) == 0; }
  static __device__ void store(float* to, float average) {
    const float x = average == 0 ? -0.0F : average;
#if __CUDA_ARCH__ >= 800
    asm volatile("st.relaxed.gpu.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(to), "f"(x),
                 "l"(keep_policy())
                 : "memory");
#else
    *static_cast<volatile float*>(to) = x;
#endif
  }
  static __device__ Elements<float> load(const float* from) {
    Elements<float> v;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.at[0]), "=f"(v.at[1]), "=f"(v.at[2]), "=f"(v.at[3])
                 : "l"(from)
                 : "memory");
    return v;
  }
};

template <>
struct Published<double> {
  static __device__ bool missing(double x) { return __double_as_longlong(x) == 0; }
  static __device__ void store(double* to, double average) {
    const double x = average == 0 ? -0.0 : average;
#if __CUDA_ARCH__ >= 800
    asm volatile("st.relaxed.gpu.global.L2::cache_hint.f64 [%0], %1, %2;" ::"l"(to), "d"(x),
                 "l"(keep_policy())
                 : "memory");
#else
    *static_cast<volatile double*>(to) = x;
#endif
  }
  static __device__ Elements<double> load(const double* from) {
    Elements<double> v;
    asm volatile("ld.relaxed.gpu.global.v2.f64 {%0, %1}, [%2];"
                 : "=d"(v.at[0]), "=d"(v.at[1])
                 : "l"(from)
                 : "memory");
    return v;
  }
};

template <class T>
__device__ T await_average(const T* from) {
  T average;
  while (Published<T>::missing(average = *static_cast<const volatile T*>(from))) __nanosleep(500);
  return average;
}

// out = matrix * averages^T, in the tile from first_row and first_set. kAwaited: the averages may
// still have to be published. `shared` has Tile::kSharedBytes.
template <class Tile, bool kAwaited, bool kAligned, class T>
__device__ void multiply_tile(const Product<T>& p, int first_row, std::int64_t first_set,
                              T* shared) {
  constexpr int kWidth = Tile::kWidth, kPitch = Tile::kPitch;
  using Vector = Elements<T>;
  T* const set_chunk = shared + 2 * Tile::kRows * kPitch;  // after two buffers for rows
  const int thread = threadIdx.x;

  // What the thread loads of a chunk: a vector of every kApart-th row and set.
  constexpr int kApart = kAveragingThreads / Tile::kVectors;
  const int line = thread / Tile::kVectors, column = thread % Tile::kVectors * kWidth;
  const int staged = line * kPitch + column;
  const T* const matrix =
      p.matrix + static_cast<std::int64_t>(first_row + line) * p.length + column;
  const T* const averages = p.averages + (first_set + line) * p.length + column;
  const std::int64_t step = static_cast<std::int64_t>(kApart) * p.length;
  const int rows_there = p.length - first_row - line;  // from the first one on
  const int sets_there =
      static_cast<int>(min(p.sets - first_set - line, static_cast<std::int64_t>(Tile::kSets)));
  const auto elements_there = [&](int chunk) { return p.length - column - chunk * Tile::kChunk; };
  const auto copy_rows = [&](int chunk) {
    T* const to = shared + chunk % 2 * (Tile::kRows * kPitch) + staged;
    const T* const from = matrix + chunk * Tile::kChunk;
    const int elements = elements_there(chunk);
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < Tile::kRowLoads; ++i) {
        const bool exists = i * kApart < rows_there && elements > 0;
        copy_vector(to + i * (kApart * kPitch), exists ? from + i * step : p.matrix, exists);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < Tile::kRowLoads; ++i)
        for (int j = 0; j < kWidth; ++j)
          if (i * kApart < rows_there && j < elements)
            copy_element(to + i * (kApart * kPitch) + j, from + i * step + j);
          else
            to[i * (kApart * kPitch) + j] = 0;
    }
    commit_copies();
  };
  // Averages come one chunk ahead to registers, where it shows whether they were there already. If
  // they are not aligned they come late.
  Vector next[Tile::kSetLoads];
  const auto load_sets = [&](int chunk) {
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < Tile::kSetLoads; ++i) {
        next[i] = {};
        if (i * kApart < sets_there && elements_there(chunk) > 0)
          next[i] = Published<T>::load(averages + chunk * Tile::kChunk + i * step);
      }
    }
  };
  const auto store_sets = [&](int chunk) {
    T* const to = set_chunk + staged;
    const T* const from = averages + chunk * Tile::kChunk;
    const int elements = elements_there(chunk);
    if constexpr (kAligned) {
#pragma unroll
      for (int i = 0; i < Tile::kSetLoads; ++i) {
        if constexpr (kAwaited)
#pragma unroll
          for (int j = 0; j < kWidth; ++j)
            if (Published<T>::missing(next[i].at[j]) && i * kApart < sets_there && elements > 0)
              next[i].at[j] = await_average(from + i * step + j);
        *reinterpret_cast<Vector*>(to + i * (kApart * kPitch)) = next[i];
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < Tile::kSetLoads; ++i)
        for (int j = 0; j < kWidth; ++j) {
          T average = 0;
          if (i * kApart < sets_there && j < elements) {
            const T* const at = from + i * step + j;
            average = kAwaited ? await_average(at) : *at;
          }
          to[i * (kApart * kPitch) + j] = average;
        }
    }
  };

  // What the thread computes.
  const int member = thread % Tile::kTeam, team = thread / Tile::kTeam;
  const int row = member / Tile::kTeamAcross, set = member % Tile::kTeamAcross;
  T product[Tile::kDown][Tile::kAcross] = {};

  const int chunks = (p.length + Tile::kChunk - 1) / Tile::kChunk;
  copy_rows(0);
  if constexpr (kAwaited) {
    // One thread waits for what is probably the last to come. If all do, they take bandwidth of L2:
    // a first version with 66 blocks at products took 1.12 times the ceiling's time instead
    // of 1.04.
    if (thread == 0) {
      const std::int64_t end = first_set + Tile::kSets;
      await_average(p.averages + (end < p.sets ? end : p.sets) * p.length - 1);
    }
    __syncthreads();
  }
  load_sets(0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    __syncthreads();  // nobody reads the chunk before any more
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
        shared + chunk % 2 * (Tile::kRows * kPitch) + row * kPitch + team * Tile::kShare;
    const T* const sets = set_chunk + set * kPitch + team * Tile::kShare;
#pragma unroll 1  // or registers are spilled, which slows even the blocks that average
    for (int k = 0; k < Tile::kShare; k += kWidth) {
      Vector left[Tile::kDown], right[Tile::kAcross];
#pragma unroll
      for (int i = 0; i < Tile::kDown; ++i)
        left[i] = *reinterpret_cast<const Vector*>(rows + i * Tile::kTeamDown * kPitch + k);
#pragma unroll
      for (int j = 0; j < Tile::kAcross; ++j)
        right[j] = *reinterpret_cast<const Vector*>(sets + j * Tile::kTeamAcross * kPitch + k);
#pragma unroll
      for (int i = 0; i < Tile::kDown; ++i)
#pragma unroll
        for (int j = 0; j < Tile::kAcross; ++j)
#pragma unroll
          for (int e = 0; e < kWidth; ++e)
            product[i][j] = fma(left[i].at[e], right[j].at[e], product[i][j]);
    }
  }

  __syncthreads();
#pragma unroll
  for (int i = 0; i < Tile::kDown; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kAcross; ++j)
      shared[team * Tile::kElements + (row + i * Tile::kTeamDown) * Tile::kSets + set +
             j * Tile::kTeamAcross] = product[i][j];
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
__device__ void multiply_tile(const Product<T>& p, int first_row, std::int64_t first_set,
                              T* shared) {
  if (p.aligned)
    multiply_tile<Tile, kAwaited, true>(p, first_row, first_set, shared);
  else
    multiply_tile<Tile, kAwaited, false>(p, first_row, first_set, shared);
}

#endif

}  // namespace ado::cuda

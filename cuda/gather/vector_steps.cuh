// 16 bytes of indices per load: vector_index and evict_first, and the ceiling in_order.
#pragma once

#include "gather/operands.cuh"

namespace ado::cuda {

// Each thread gathers kGathered neighbouring elements.
inline constexpr int kGathered = 4;

#ifdef __CUDACC__

// The elements of a thread are stored together, in vectors of at most 16 bytes.
template <class T>
using StoredVector =
    Vector<T, (kGathered * sizeof(T) > kVectorBytes ? kVectorLength<T> : kGathered)>;

// The indices of a thread: one vector of four int32, or two of two int64.
template <class Index>
using IndexVector = WideVector<Index>;

// kReadOnce: indices and results are used once. The loads and stores have an evict-first hint
// (.cs), so that x stays in L2.
template <bool kReadOnce, class T>
__device__ T load_once(const T* from) {
  if constexpr (kReadOnce)
    return __builtin_bit_cast(T, __ldcs(reinterpret_cast<const uint4*>(from)));
  else
    return *from;
}
template <bool kReadOnce, class V>
__device__ void store_once(V* to, V value) {
  if constexpr (!kReadOnce)
    *to = value;
  else if constexpr (sizeof(V) == 16)
    __stcs(reinterpret_cast<uint4*>(to), __builtin_bit_cast(uint4, value));
  else if constexpr (sizeof(V) == 8)
    __stcs(reinterpret_cast<uint2*>(to), __builtin_bit_cast(uint2, value));
  else
    __stcs(reinterpret_cast<unsigned*>(to), __builtin_bit_cast(unsigned, value));
}

template <bool kReadOnce, class T, class Index>
__global__ void gather_vectors(GatherOperands<T, Index> p) {
  using Indices = IndexVector<Index>;
  using Stored = StoredVector<T>;
  constexpr int kIndices = kGathered / kVectorLength<Index>;
  constexpr int kLength = sizeof(Stored) / sizeof(T), kStores = kGathered / kLength;
  const std::int64_t first = thread_x() * kGathered;
  if (first + kGathered <= p.count) {
    Indices index[kIndices];
    Stored element[kStores];
#pragma unroll
    for (int i = 0; i < kIndices; ++i)
      index[i] = load_once<kReadOnce>(reinterpret_cast<const Indices*>(p.index + first) + i);
#pragma unroll
    for (int i = 0; i < kGathered; ++i)
      element[i / kLength].at[i % kLength] =
          *p.at(index[i / kVectorLength<Index>].at[i % kVectorLength<Index>]);
#pragma unroll
    for (int i = 0; i < kStores; ++i)
      store_once<kReadOnce>(reinterpret_cast<Stored*>(p.out + first) + i, element[i]);
  } else {
    for (std::int64_t i = first; i < p.count; ++i) p.out[i] = *p.at(p.index[i]);
  }
}

// The ceiling: reads element i of x (modulo the length of x) instead of the selected element, and
// also loads the index. `vectors`: number of whole groups of kGathered elements in x.
template <class T, class Index>
__global__ void gather_in_order(GatherOperands<T, Index> p, std::int64_t vectors) {
  using Indices = IndexVector<Index>;
  using Stored = StoredVector<T>;
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

}  // namespace ado::cuda

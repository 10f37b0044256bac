// The kernels of "Boosting Application Performance with GPU Memory Prefetching", in its order: six
// ways to load elements of big before they are needed, with one point per thread.
//
// The batched kernels load kPrefetchDistance elements and then use them. The rolling kernels load
// big[k + kPrefetchDistance] at about the time at which they use big[k]. Until its use, the element
// is in a register or in a slot of shared memory. Slots are private to a thread, so threads need no
// synchronisation.
//
// On an H200, with enough warps to hide the latency, none of the six is faster than whole_device.
#pragma once

#include "common/async_copy.cuh"
#include "max_plus/one_block.cuh"

namespace ado::cuda {

// Number of elements that a thread has loaded but not used yet: six were the fastest in the post,
// which pads the slots of a thread from six to nine.
inline constexpr int kPrefetchDistance = 6, kSlotPadding = 3;
inline constexpr int kPrefetchThreads = 512;  // the largest block

#ifdef __CUDACC__

// The slots of the calling thread; kPitch is the distance in elements between the first slots of
// two neighbouring threads. The slots are volatile. Otherwise the compiler could keep the elements
// in registers, or read a slot before the wait for the copy to it.
template <class T, int kPitch>
__device__ volatile T* private_slots() {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  return reinterpret_cast<T*>(shared) + threadIdx.x * kPitch;
}

// The slots form a ring.
inline __device__ int next_slot(int slot) { return slot + 1 == kPrefetchDistance ? 0 : slot + 1; }

// Batched: a thread loads kPrefetchDistance elements together and then uses them one after another.
// No load is in flight while it uses the last one.
//
//   load 0 1 2 3 4 5 | use 0 1 2 3 4 5 | load 6 7 8 9 10 11 | use 6 7 8 9 10 11 | ...
template <class T, class Slots>
__device__ void max_plus_batched(const MaxPlusOperands<T>& p, std::int64_t point, Slots& slots) {
  T best = 0;
  std::int64_t k = 0;
#pragma unroll 1
  for (; k + kPrefetchDistance <= p.terms; k += kPrefetchDistance) {
    T loaded[kPrefetchDistance];
#pragma unroll
    for (int i = 0; i < kPrefetchDistance; ++i) loaded[i] = p.big[(k + i) * p.points + point];
#pragma unroll
    for (int i = 0; i < kPrefetchDistance; ++i) slots[i] = loaded[i];
#pragma unroll
    for (int i = 0; i < kPrefetchDistance; ++i) best = larger(best, slots[i] + p.small[k + i]);
  }
#pragma unroll 1
  for (; k < p.terms; ++k) best = larger(best, p.big[k * p.points + point] + p.small[k]);
  p.out[point] = best;
}

template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_scalar_batched(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T slots[kPrefetchDistance];  // in registers
  max_plus_batched(p, point, slots);
}

template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_shared_batched(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPrefetchDistance>();
  max_plus_batched(p, point, slots);
}

// Rolling: as soon as an element has been used, the next one is loaded into its slot. Registers
// cannot be indexed at run time, so one iteration of the loop uses each of them once.
//
//   load 0 1 2 3 4 5 | use 0, load 6 | use 1, load 7 | use 2, load 8 | ...
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_scalar_rolling(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T slots[kPrefetchDistance] = {};  // in registers
#pragma unroll
  for (int i = 0; i < kPrefetchDistance; ++i)
    if (i < p.terms) slots[i] = p.big[i * p.points + point];
  T best = 0;
#pragma unroll 1
  for (std::int64_t first = 0; first < p.terms; first += kPrefetchDistance) {
#pragma unroll
    for (int i = 0; i < kPrefetchDistance; ++i) {
      const std::int64_t k = first + i;
      if (k >= p.terms) break;
      best = larger(best, slots[i] + p.small[k]);
      if (k + kPrefetchDistance < p.terms)
        slots[i] = p.big[(k + kPrefetchDistance) * p.points + point];
    }
  }
  p.out[point] = best;
}

// An element is stored to shared memory from a register. The store waits for the load of this
// register.
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_shared_rolling(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPrefetchDistance>();
#pragma unroll
  for (int i = 0; i < kPrefetchDistance; ++i)
    if (i < p.terms) slots[i] = p.big[i * p.points + point];
  T best = 0;
  int slot = 0;
  for (std::int64_t k = 0; k < p.terms; ++k) {
    best = larger(best, slots[slot] + p.small[k]);
    if (k + kPrefetchDistance < p.terms)
      slots[slot] = p.big[(k + kPrefetchDistance) * p.points + point];
    slot = next_slot(slot);
  }
  p.out[point] = best;
}

// An asynchronous copy bypasses the registers. Each copy is a separate group. Past the last term,
// the groups are empty. So the copy of the next element is always in the oldest of
// kPrefetchDistance groups, and the other groups may still be in flight.
template <class T, int kPitch>
__device__ void max_plus_async_copies(const MaxPlusOperands<T>& p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPitch>();
  const auto fetch = [&](std::int64_t k, int slot) {
    if (k < p.terms) copy_element_async(const_cast<T*>(slots + slot), p.big + k * p.points + point);
    commit_copies();
  };
#pragma unroll
  for (int i = 0; i < kPrefetchDistance; ++i) fetch(i, i);
  T best = 0;
  int slot = 0;
  for (std::int64_t k = 0; k < p.terms; ++k) {
    wait_for_copies<kPrefetchDistance - 1>();
    best = larger(best, slots[slot] + p.small[k]);
    fetch(k + kPrefetchDistance, slot);
    slot = next_slot(slot);
  }
  p.out[point] = best;
}

template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_async_rolling(MaxPlusOperands<T> p) {
  max_plus_async_copies<T, kPrefetchDistance>(p);
}

// The threads of a warp access slots with the same index at the same time. Bank of each thread's
// slot for float32, for which a slot occupies one of the 32 banks:
//
//   thread          0   1   2   3   4   5 ...  15  16  17 ...
//   pitch 6 (even)  0   6  12  18  24  30 ...  26   0   6 ...   16 banks, two threads in each
//   pitch 9 (odd)   0   9  18  27   4  13 ...   7  16  25 ...   32 banks, no conflict
//
// float64 is accessed by half a warp at a time, and the same holds for its 16 pairs of banks.
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_padded(MaxPlusOperands<T> p) {
  max_plus_async_copies<T, kPrefetchDistance + kSlotPadding>(p);
}

#endif

}  // namespace ado::cuda

// Six ways to ask for the numbers of big before they are needed, a thread a point.
//
// A thread asks for big[k + kDistance] about when it uses big[k], and waits in registers or in
// slots of shared memory. The slots are private to a thread, so nothing has to be synchronised.
#pragma once

#include "max_plus/operands.cuh"

#ifdef __CUDACC__
#include <cuda_pipeline.h>
#endif

namespace ado::cuda {

// Numbers that a thread has asked for and not used yet; the post was fastest with six. Its padding
// makes that 2^n + 1.
inline constexpr int kDistance = 6, kPadding = 3;

inline constexpr int kPrefetchThreads = 512;  // of a block, at most

#ifdef __CUDACC__

// The next of the slots, which are used in turn.
inline __device__ int after(int slot) { return slot + 1 == kDistance ? 0 : slot + 1; }

// This thread's slots, each thread's beginning kPitch after its neighbour's. Volatile, or the
// compiler would keep the numbers in registers instead, and read slots before the copies to them
// have been waited for.
template <class T, int kPitch>
__device__ volatile T* private_slots() {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  return reinterpret_cast<T*>(shared) + threadIdx.x * kPitch;
}

// ---------------------------------------------------------------------------------------------
// kDistance numbers are asked for together and then used one after the other, so a thread has none
// under way while it uses the last.
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_scalar_batched(Terms<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T best = 0;
  std::int64_t k = 0;
#pragma unroll 1
  for (; k + kDistance <= p.terms; k += kDistance) {
    T value[kDistance];
#pragma unroll
    for (int j = 0; j < kDistance; ++j) value[j] = p.big[(k + j) * p.points + point];
#pragma unroll
    for (int j = 0; j < kDistance; ++j) best = larger(best, value[j] + p.small[k + j]);
  }
#pragma unroll 1
  for (; k < p.terms; ++k) best = larger(best, p.sum(k, point));
  p.out[point] = best;
}

// ---------------------------------------------------------------------------------------------
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_shared_batched(Terms<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kDistance>();
  T best = 0;
  std::int64_t k = 0;
#pragma unroll 1
  for (; k + kDistance <= p.terms; k += kDistance) {
    T value[kDistance];
#pragma unroll
    for (int j = 0; j < kDistance; ++j) value[j] = p.big[(k + j) * p.points + point];
#pragma unroll
    for (int j = 0; j < kDistance; ++j) slots[j] = value[j];
#pragma unroll
    for (int j = 0; j < kDistance; ++j) best = larger(best, slots[j] + p.small[k + j]);
  }
#pragma unroll 1
  for (; k < p.terms; ++k) best = larger(best, p.sum(k, point));
  p.out[point] = best;
}

// ---------------------------------------------------------------------------------------------
// A number takes the place of the one just used. As registers have no index, the loop goes once
// around all of them.
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_scalar_rolling(Terms<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T value[kDistance] = {};
#pragma unroll
  for (int j = 0; j < kDistance; ++j)
    if (j < p.terms) value[j] = p.big[j * p.points + point];
  T best = 0;
#pragma unroll 1
  for (std::int64_t first = 0; first < p.terms; first += kDistance) {
#pragma unroll
    for (int j = 0; j < kDistance; ++j) {
      const std::int64_t k = first + j;
      if (k >= p.terms) break;
      best = larger(best, value[j] + p.small[k]);
      if (k + kDistance < p.terms) value[j] = p.big[(k + kDistance) * p.points + point];
    }
  }
  p.out[point] = best;
}

// ---------------------------------------------------------------------------------------------
// What goes to shared memory through a register is waited for on its way.
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_shared_rolling(Terms<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kDistance>();
#pragma unroll
  for (int j = 0; j < kDistance; ++j)
    if (j < p.terms) slots[j] = p.big[j * p.points + point];
  T best = 0;
  int slot = 0;
  for (std::int64_t k = 0; k < p.terms; ++k) {
    best = larger(best, slots[slot] + p.small[k]);
    if (k + kDistance < p.terms) slots[slot] = p.big[(k + kDistance) * p.points + point];
    slot = after(slot);
  }
  p.out[point] = best;
}

// ---------------------------------------------------------------------------------------------
// Each copy is a group of its own, and at the end groups are empty, so that the oldest but
// kDistance - 1 always is the one for the next number.
template <class T, int kPitch>
__device__ void max_plus_async(const Terms<T>& p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPitch>();
  const auto fetch = [&](std::int64_t k, int slot) {
    if (k < p.terms)
      __pipeline_memcpy_async(const_cast<T*>(slots + slot), p.big + k * p.points + point,
                              sizeof(T));
    __pipeline_commit();
  };
#pragma unroll
  for (int j = 0; j < kDistance; ++j) fetch(j, j);
  T best = 0;
  int slot = 0;
  for (std::int64_t k = 0; k < p.terms; ++k) {
    __pipeline_wait_prior(kDistance - 1);
    best = larger(best, slots[slot] + p.small[k]);
    fetch(k + kDistance, slot);
    slot = after(slot);
  }
  p.out[point] = best;
}

template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_async_rolling(Terms<T> p) {
  max_plus_async<T, kDistance>(p);
}

// ---------------------------------------------------------------------------------------------
// With a pitch of six numbers, a warp's threads meet in every other bank; with an odd one, in none.
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_padded(Terms<T> p) {
  max_plus_async<T, kDistance + kPadding>(p);
}

#endif

}  // namespace ado::cuda

// Asynchronous copies from global to shared memory (cp.async).
//
// A thread starts copies, closes groups of copies with commit_copies, and waits for its older
// groups with wait_for_copies. After that, its own copies are visible to the thread itself. Other
// threads need a barrier. Devices before compute capability 8.0 have no cp.async. There, a copy is
// complete when the function returns.
#pragma once

#ifdef __CUDACC__

#include <cstdint>

#include "common/vector.cuh"

namespace ado::cuda {

inline __device__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// A cache policy (evict_last): L2 evicts lines that were loaded with it last. Data that is read
// again thus stays in L2 while other data is read once.
inline __device__ std::uint64_t keep_in_l2_policy() {
#if __CUDA_ARCH__ >= 800
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
#else
  return 0;
#endif
}

// Copies the first `bytes` bytes of a 16-byte vector and fills the rest with zeros. All 16 bytes at
// `from` must be readable unless `bytes` is 0. Allocates in L1.
inline __device__ void copy_vector_async(std::uint32_t to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#else
  uint4 vector = {};
  if (bytes > 0) vector = *static_cast<const uint4*>(from);
  if (bytes < kVectorBytes) {
    const auto first_bytes = [bytes](int word) {
      const int count = min(max(bytes - 4 * word, 0), 4);
      return static_cast<unsigned>((std::uint64_t{1} << (8 * count)) - 1);
    };
    vector.x &= first_bytes(0);
    vector.y &= first_bytes(1);
    vector.z &= first_bytes(2);
    vector.w &= first_bytes(3);
  }
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(vector.x), "r"(vector.y),
               "r"(vector.z), "r"(vector.w)
               : "memory");
#endif
}

// Copies a 16-byte vector, or stores zeros if `exists` is false. Bypasses L1 and keeps the vector
// in L2.
template <class T>
__device__ void copy_vector_async_keep(T* to, const T* from, bool exists) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address(to)),
      "l"(from), "r"(exists ? kVectorBytes : 0), "l"(keep_in_l2_policy())
      : "memory");
#else
  using Wide = WideVector<T>;
  *reinterpret_cast<Wide*>(to) = exists ? *reinterpret_cast<const Wide*>(from) : Wide{};
#endif
}

// Copies one element of 4, 8 or 16 bytes.
template <class T>
__device__ void copy_element_async(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from),
               "n"(sizeof(T))
               : "memory");
#else
  *to = *from;
#endif
}

// Copies one element like copy_element_async, and keeps it in L2.
template <class T>
__device__ void copy_element_async_keep(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
      "l"(from), "n"(sizeof(T)), "l"(keep_in_l2_policy())
      : "memory");
#else
  *to = *from;
#endif
}

// Closes a group: all copies that the thread has started since the last call.
inline __device__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the kPending latest groups of the thread are still in flight.
template <int kPending>
__device__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace ado::cuda

#endif

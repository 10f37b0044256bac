// Vectors: neighbouring elements that are loaded or stored by one memory access.
#pragma once

#include "common/launch.cuh"
#include "core/unsigned.hpp"

#ifdef __CUDACC__
#define ADO_HOST_DEVICE __host__ __device__
#else
#define ADO_HOST_DEVICE
#endif

namespace ado::cuda {

// The widest access of a thread in bytes, and the number of elements per such access.
inline constexpr int kVectorBytes = 16;
// Bytes per sector, the smallest transfer of DRAM and L2.
inline constexpr int kSectorBytes = 32;
template <class T>
inline constexpr int kVectorLength = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T at[kCount];
};

template <class T>
using WideVector = Vector<T, kVectorLength<T>>;

ADO_HOST_DEVICE inline bool starts_at_vector(const void* address, int bytes = kVectorBytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

#ifdef __CUDACC__

// The built-in vector type of 16 bytes. For double, its registers are 64 bits wide. A cast from
// four 32-bit words would need additional moves.
template <class T>
using BuiltinVector = std::conditional_t<sizeof(T) == 8, double2, float4>;

// Loads a 16-byte vector and caches it in L2 only (ld.global.cg).
template <class T, int kCount>
__device__ Vector<T, kCount> load_past_l1(const Vector<T, kCount>* from) {
  return __builtin_bit_cast(Vector<T, kCount>,
                            __ldcg(reinterpret_cast<const BuiltinVector<T>*>(from)));
}

// Loads a 16-byte vector that is read-only during the kernel (ld.global.nc). Allocates in L1.
template <class T, int kCount>
__device__ Vector<T, kCount> load_read_only(const Vector<T, kCount>* from) {
  return __builtin_bit_cast(Vector<T, kCount>,
                            __ldg(reinterpret_cast<const BuiltinVector<T>*>(from)));
}

template <int kSize>
struct ElementOf : UnsignedOf<kSize> {};
template <>
struct ElementOf<16> {
  using Type = uint4;
};
// Element type of kernels that only move elements: they are compiled per element size, not per
// type.
template <int kSize>
using Element = typename ElementOf<kSize>::Type;

#endif

}  // namespace ado::cuda

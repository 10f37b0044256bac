// Transposes a square of elements in the registers of a thread.
#pragma once

#include "common/vector.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// Swaps, in every pair of neighbouring blocks of kBlock bytes, the second block of `upper` with the
// first block of `lower`.
template <int kBlock, int kWords>
__device__ void swap_blocks(Vector<unsigned, kWords>& upper, Vector<unsigned, kWords>& lower) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    if constexpr (kBlock >= 4) {  // whole words: free, because the compiler renames registers
      constexpr int kStep = kBlock / 4;
      if (w & kStep) continue;
      const unsigned second = upper.at[w + kStep];
      upper.at[w + kStep] = lower.at[w];
      lower.at[w] = second;
    } else {
      constexpr unsigned kFirsts = kBlock == 2 ? 0x5410 : 0x6240;
      constexpr unsigned kSeconds = kBlock == 2 ? 0x7632 : 0x7351;
      const unsigned firsts = __byte_perm(upper.at[w], lower.at[w], kFirsts);
      lower.at[w] = __byte_perm(upper.at[w], lower.at[w], kSeconds);
      upper.at[w] = firsts;
    }
  }
}

// Transposes a micro-tile of elements of kSize bytes recursively: swaps the off-diagonal quarters
// of the square, then the off-diagonal quarters of each quarter. With 4 elements per vector, row a
// in vector[0]:
//
//                loaded          kBlock: 2 elements    kBlock: 1 element
//   vector[0]    a0 a1 a2 a3     a0 a1|c0 c1           a0 b0 c0 d0
//   vector[1]    b0 b1 b2 b3     b0 b1|d0 d1           a1 b1 c1 d1
//                                -----+-----
//   vector[2]    c0 c1 c2 c3     a2 a3|c2 c3           a2 b2 c2 d2
//   vector[3]    d0 d1 d2 d3     b2 b3|d2 d3           a3 b3 c3 d3
//
// 16 x 16 elements of 1 byte take 128 byte permutes, half a permute per byte. Elements of 4 bytes
// and more need no instructions.
template <int kSize, int kWords, int kSide, int kBlock = 2 * kWords>
__device__ void transpose_in_registers(Vector<unsigned, kWords> (&vector)[kSide]) {
  static_assert(kSide * kSize == 4 * kWords);
  if constexpr (kBlock >= kSize) {
    constexpr int kStep = kBlock / kSize;
#pragma unroll
    for (int i = 0; i < kSide; ++i)
      if (!(i & kStep)) swap_blocks<kBlock>(vector[i], vector[i + kStep]);
    if constexpr (kBlock > 1) transpose_in_registers<kSize, kWords, kSide, kBlock / 2>(vector);
  }
}

}  // namespace ado::cuda

#endif

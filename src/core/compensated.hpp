// A sum whose error hardly grows with the number of terms.
#pragma once

#if defined(__CUDACC__)
#define ADO_ANYWHERE __host__ __device__ __forceinline__
#else
#define ADO_ANYWHERE __attribute__((always_inline)) inline
#endif

namespace ado {

// A sum and, apart, what rounding has lost of it (Knuth's TwoSum; Neumaier, 1974): together within
// u + O(n u^2) of the exact sum, relative to the sum of magnitudes. T is a number or a vector of
// them. Infinities and NaN come out as from a plain sum, because the sum never reads what was lost.
// -ffast-math would break it.
template <class T>
struct CompensatedSum {
  T sum{}, lost{};

  ADO_ANYWHERE void add(T x) {
    const T before = sum;
    sum = before + x;
    const T added = sum - before;
    lost = lost + ((before - (sum - added)) + (x - added));
  }
};

// Of one element. What an infinite sum has lost is NaN.
template <class T>
ADO_ANYWHERE T total(T sum, T lost) {
  return lost - lost == T(0) ? sum + lost : sum;
}

}  // namespace ado

// A sum whose error hardly grows with the number of terms.
#pragma once

#if defined(__CUDACC__)
#define ADO_ANYWHERE __host__ __device__ __forceinline__
#else
#define ADO_ANYWHERE __attribute__((always_inline)) inline
#endif

namespace ado {

// A sum and, apart, what rounding has lost of it (Knuth's TwoSum; Neumaier, 1974). T is a number or
// a vector of them.
//
// What is lost is added up plainly, so that n terms may be wrong by u + (n u)^2 of their magnitudes
// (270000 equal terms in float32 by 2 to 77 u). After kAdditions, which are good for u, the part is
// therefore added to the whole and another begun.
//
// Infinities and NaN come out as from a plain sum, because a sum never reads what was lost.
// -ffast-math would break it.
template <class T>
class CompensatedSum {
 public:
  static constexpr int kFlopsOfAdd = 7;

  ADO_ANYWHERE void add(T x) {
    part_.add(x);
    if (++additions_ == kAdditions) fold();
  }

  // The sum, in each element. The last word: nothing is to be added afterwards.
  ADO_ANYWHERE T total() {
    fold();
    const T lost_nothing = whole_.lost - whole_.lost;  // NaN if the sum is not finite
    return lost_nothing == T{} ? whole_.sum + whole_.lost : whole_.sum;
  }

 private:
  static constexpr int kAdditions = 4096;

  struct Pair {
    T sum{}, lost{};

    ADO_ANYWHERE void add(T x) {
      const T before = sum;
      sum = before + x;
      const T added = sum - before;
      lost = lost + ((before - (sum - added)) + (x - added));
    }
  };

  ADO_ANYWHERE void fold() {
    whole_.add(part_.sum);
    whole_.lost = whole_.lost + part_.lost;
    part_ = {};
    additions_ = 0;
  }

  Pair whole_, part_;
  int additions_ = 0;
};

}  // namespace ado

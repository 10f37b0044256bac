// Compensated summation: the error hardly grows with the number of terms.
#pragma once

#if defined(__CUDACC__)
#define ADO_ANYWHERE __host__ __device__ __forceinline__
#else
#define ADO_ANYWHERE __attribute__((always_inline)) inline
#endif

namespace ado {

// A sum plus its accumulated rounding error (Knuth's TwoSum; Neumaier, 1974). T is a number, or a
// vector that is summed element by element.
//
// The error term is itself a plain sum, so the error of n terms can reach u + (n u)^2 times the sum
// of their magnitudes (270000 equal terms in float32: 2 to 77 u). For kAdditions terms it is about
// u. Therefore the sum is folded into a total after kAdditions terms, and a new sum starts.
//
// Infinities and NaN have the same result as in a plain sum, because the sum never depends on its
// error term. -ffast-math would remove the compensation.
template <class T>
class CompensatedSum {
 public:
  // FLOPs of add() and total(). Every kAdditions-th add() executes eight more, which are not
  // counted.
  static constexpr int kFlopsOfAdd = 7, kFlopsOfTotal = 10;

  ADO_ANYWHERE void add(T x) {
    recent_.add(x);
    if (++additions_ == kAdditions) fold();
  }

  // Finalises the sum; do not call add() afterwards.
  ADO_ANYWHERE T total() {
    fold();
    const T zero_if_finite = folded_.error - folded_.error;  // NaN if the sum is not finite
    return zero_if_finite == T{} ? folded_.sum + folded_.error : folded_.sum;
  }

 private:
  static constexpr int kAdditions = 4096;

  struct SumAndError {
    T sum{}, error{};

    ADO_ANYWHERE void add(T x) {
      const T before = sum;
      sum = before + x;
      const T added = sum - before;
      error = error + ((before - (sum - added)) + (x - added));
    }
  };

  ADO_ANYWHERE void fold() {
    folded_.add(recent_.sum);
    folded_.error = folded_.error + recent_.error;
    recent_ = {};
    additions_ = 0;
  }

  SumAndError folded_, recent_;
  int additions_ = 0;
};

}  // namespace ado

// Averages of vectors times a matrix on the CPU. One source, compiled once per instruction set
// (core/isa.hpp).
#include "routines/average_matvec.hpp"

#include "core/compensated.hpp"
#include "core/isa.hpp"
#include "core/variant.hpp"
#include "cpu/streaming.hpp"

namespace ado::ADO_ISA {
namespace {

template <class T>
ADO_INLINE T& element(const Array& a, int64_t i, int64_t j) {
  return *reinterpret_cast<T*>(a.data + i * a.stride[0] + j * a.stride[1]);
}

void textbook(const AverageMatvec& p, const Launch& go) {
  with_real(p.vectors.type, [&]<class T>(T) {
    T* const average = reinterpret_cast<T*>(go.scratch);
    for (int64_t n = 0; n < p.sets(); ++n) {
      for (int64_t j = 0; j < p.length(); ++j) {
        const std::byte* from = p.vectors.data + n * p.vectors.stride[0] + j * p.vectors.stride[1];
        CompensatedSum<T> sum;
        for (int64_t m = 0; m < p.samples(); ++m)
          sum.add(*reinterpret_cast<const T*>(from + m * p.vectors.stride[2]));
        average[j] = total(sum.sum, sum.lost) / static_cast<T>(p.samples());
      }
      for (int64_t i = 0; i < p.length(); ++i) {
        T product = 0;
        for (int64_t j = 0; j < p.length(); ++j) product += element<T>(p.matrix, i, j) * average[j];
        element<T>(p.out, i, n) = product;
      }
    }
  });
}

constexpr Variant<AverageMatvec> kRows[] = {
    {.name = "textbook",
     .changes = "One set after another: its averages, then their products with the matrix's rows.",
     .scratch_bytes =
         [](const AverageMatvec& p) {
           return static_cast<std::size_t>(p.length() * p.vectors.type.size);
         },
     .run = textbook},
};

}  // namespace

Ladder<AverageMatvec> average_matvec_ladder() { return ladder_of(kRows); }

}  // namespace ado::ADO_ISA

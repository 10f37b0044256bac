// Largest sums on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/max_plus.hpp"

#include "core/isa.hpp"
#include "core/variant.hpp"
#include "cpu/streaming.hpp"

namespace ado::ADO_ISA {
namespace {

void textbook(const MaxPlus& p, const Launch&) {
  with_real(p.big.type, [&]<class T>(T) {
    for (int64_t point = 0; point < p.points(); ++point) {
      T best = 0;
      for (int64_t k = 0; k < p.terms(); ++k) {
        const T sum = *reinterpret_cast<const T*>(p.big.data + k * p.big.stride[0] +
                                                  point * p.big.stride[1]) +
                      *reinterpret_cast<const T*>(p.small.data + k * p.small.stride[0]);
        best = sum > best || sum != sum ? sum : best;
      }
      *reinterpret_cast<T*>(p.out.data + point * p.out.stride[0]) = best;
    }
  });
}

constexpr Variant<MaxPlus> kRows[] = {
    {.name = "textbook", .changes = "One point after another.", .run = textbook},
};

}  // namespace

Ladder<MaxPlus> max_plus_ladder() { return ladder_of(kRows); }

}  // namespace ado::ADO_ISA

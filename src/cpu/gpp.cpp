// The GPP self-energy on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/gpp.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/isa.hpp"
#include "core/threads.hpp"
#include "core/variant.hpp"
#include "cpu/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

struct Complex {
  double re, im;
  friend ADO_INLINE Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
  friend ADO_INLINE Complex operator*(Complex x, Complex y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
  }
  friend ADO_INLINE Complex operator*(double s, Complex x) { return {s * x.re, s * x.im}; }
  friend ADO_INLINE Complex operator/(Complex x, Complex y) {
    const double scale = y.re * y.re + y.im * y.im;
    return {(x.re * y.re + x.im * y.im) / scale, (x.im * y.re - x.re * y.im) / scale};
  }
};
ADO_INLINE Complex conj(Complex x) { return {x.re, -x.im}; }
ADO_INLINE double norm(Complex x) { return x.re * x.re + x.im * x.im; }
ADO_INLINE double abs(Complex x) { return __builtin_sqrt(norm(x)); }

template <class T>
ADO_INLINE T element(const Array& a, int64_t i) {
  return load<T>(a.data + i * a.stride[0]);
}
template <class T>
ADO_INLINE T element(const Array& a, int64_t i, int64_t j) {
  return load<T>(a.data + i * a.stride[0] + j * a.stride[1]);
}

void textbook(const Gpp& p, const Launch&) {
  for (int64_t f = 0; f < p.frequencies(); ++f) {
    Complex asx = {}, ach = {};
    for (int64_t n = 0; n < p.bands(); ++n) {
      const double x = element<double>(p.wx, n, f), occ = element<double>(p.occ, n);
      for (int64_t igp = 0; igp < p.rows(); ++igp) {
        Complex screened = {}, coulomb = {};  // of one row: the sums of all would round too often
        for (int64_t ig = 0; ig < p.columns(); ++ig) {
          const auto w = element<Complex>(p.wtilde, igp, ig);
          const auto eps = element<Complex>(p.i_eps, igp, ig);
          const Complex wdiff = {x - w.re, -w.im}, delw = w / wdiff;
          const double wdiffr = norm(wdiff), delwr = norm(delw);
          Complex sch = {}, ssx = {};
          if (wdiffr > p.limit_two() && delwr < p.limit_one()) {
            sch = delw * eps;
            ssx = (w * w) * eps / (wdiff * Complex{x + w.re, w.im});
          } else if (delwr > Gpp::kTolZero) {
            ssx = -1.0 * ((w * w) * eps * delw / (4.0 * (w * w) * (delw + Complex{0.5, 0})));
          }
          if (abs(ssx) > p.sexcut * abs(eps) && x < 0) ssx = {};
          const Complex m =
              conj(element<Complex>(p.aqsm, n, igp)) * element<Complex>(p.aqsn, n, ig);
          screened = screened + ssx * m;
          coulomb = coulomb + sch * m;
        }
        const auto v = element<double>(p.vcoul, igp);
        if (occ != 0) asx = asx + (-v * occ) * screened;
        ach = ach + (0.5 * v) * coulomb;
      }
    }
    store_vector(p.asx.data + f * p.asx.stride[0], asx);
    store_vector(p.ach.data + f * p.ach.stride[0], ach);
  }
}

constexpr Variant<Gpp> kRows[] = {
    {.name = "textbook",
     .changes = "The formulas with complex numbers, one loop inside the other.",
     .run = textbook},
};

}  // namespace

Ladder<Gpp> gpp_ladder() { return ladder_of(kRows); }

}  // namespace ado::ADO_ISA

// asx[f], ach[f]: sums over all (band, igp, ig) of the generalised plasmon-pole model's two terms,
// the inner kernel of BerkeleyGW's self-energy.
//
// With w = wtilde[igp, ig], I = i_eps[igp, ig], x = wx[band, f] and
// m = vcoul[igp] conj(aqsm[band, igp]) aqsn[band, ig]:
//
//   wdiff = x - w, delw = w / wdiff
//   if |wdiff|^2 > gamma^2 and |delw|^2 < 1/(4 tol): sch = I delw, ssx = I w^2 / (x^2 - w^2)
//   else if |delw|^2 > 1e-12: sch = 0, ssx = -I w^2 delw / (4 w^2 (delw + 1/2))
//   else: sch = ssx = 0
//   if x < 0 and |ssx| > sexcut |I|: ssx = 0
//   asx[f] -= occ[band] ssx m, ach[f] += sch m / 2
//
// If wdiff is 0, delw is NaN and all comparisons are false: sch = ssx = 0, as in the Fortran code.
// If x^2 - w^2 is 0, ssx exceeds every cut-off. Operands must be finite. Otherwise, the results are
// unspecified.
#pragma once

#include "core/operand.hpp"

namespace ado {

// Every variant keeps |error| <= (32 + min(bands, kLongestSum)) u sum |term|, u = 2^-53, under two
// conditions: the fourth power of a frequency, its reciprocal, and their products with the other
// operands neither overflow nor underflow; and the same holds for (Im w)^2, unless Im w is 0.
//
// This bound requires x^2 - w^2 without cancellation. If x is near w, the difference of the squares
// loses digits, and (x - w)(x + w) does not. The real part of the product, d p + (Im w)^2 with d =
// x - Re w and p = x + Re w, costs no more than the squares.
struct Gpp {
  static constexpr const char* kName = "gpp";
  static constexpr const char* kSummary =
      "The generalised plasmon-pole self-energy of BerkeleyGW: screened exchange and Coulomb hole, "
      "summed over bands and pairs of plane waves.";
  static constexpr const char* kSource =
      "Accelerating HPC Applications with NVIDIA Nsight Compute Roofline Analysis (2020); C. Yang, "
      "8 Steps to 3.7 TFLOP/s on NVIDIA V100 GPU, arXiv:2008.11326.";

  static constexpr const char* kPrecision = "(32 + min(bands, 2048)) roundings of the magnitudes";
  static constexpr std::int64_t kLongestSum = 2048;  // bands that are summed without compensation
  static constexpr double kTolZero = 1e-12;

  Array wtilde, i_eps, aqsn, aqsm, wx, vcoul, occ, asx, ach;
  double gamma = 0.5, sexcut = 4.0, tol = 1e-6;

  // Number of bands with an occupation other than 0; -1: unknown.
  std::int64_t occupied_bands = -1;

  template <class Visitor>
  void operands(Visitor&& visit) {
    inputs_and_options(visit);
    visit.output(Operand{"asx", "nfreqs", kComplex128Elements, "Screened exchange."}, asx);
    visit.output(Operand{"ach", "nfreqs", kComplex128Elements, "Coulomb hole."}, ach);
  }

  template <class Visitor>
  void inputs_and_options(Visitor&& visit) {
    visit.input(
        Operand{"wtilde", "ngpown ncouls", kComplex128Elements,
                "Plasmon-pole frequencies w, indexed [igp, ig]; finite, like all operands."},
        wtilde);
    visit.input(Operand{"i_eps", "ngpown ncouls", kComplex128Elements,
                        "The inverse dielectric matrix minus the identity."},
                i_eps);
    visit.input(Operand{"aqsn", "nbands ncouls", kComplex128Elements,
                        "Matrix elements between each band and state n, for all ig."},
                aqsn);
    visit.input(Operand{"aqsm", "nbands ngpown", kComplex128Elements,
                        "Matrix elements between each band and state m, for all igp."},
                aqsm);
    visit.input(
        Operand{"wx", "nbands nfreqs", kFloat64Elements,
                "Energies at which the self-energy is evaluated, minus the energy of the band; "
                "finite."},
        wx);
    visit.input(
        Operand{"vcoul", "ngpown", kFloat64Elements, "The Coulomb interaction, for all igp."},
        vcoul);
    visit.input(
        Operand{"occ", "nbands", kFloat64Elements,
                "Occupation of each band, from 0 to 1; bands with 0 do not contribute to asx."},
        occ);
    visit.option(
        Option{"gamma",
               "Terms with abs(wx - wtilde) <= gamma are near a pole: they add nothing to ach, "
               "and a different expression to asx."},
        gamma);
    visit.option(Option{"sexcut",
                        "Cut-off of the screened exchange: at negative wx, terms with abs(ssx) "
                        "above sexcut * abs(i_eps) are omitted."},
                 sexcut);
    visit.option(
        Option{"tol",
               "Terms with abs(wtilde / (wx - wtilde))**2 >= 1 / (4 tol) are also near a pole."},
        tol);
  }

  std::int64_t bands() const { return wx.shape[0]; }
  std::int64_t frequencies() const { return wx.shape[1]; }
  std::int64_t rows() const { return wtilde.shape[0]; }     // of igp
  std::int64_t columns() const { return wtilde.shape[1]; }  // of ig
  std::int64_t occupied() const { return occupied_bands < 0 ? bands() : occupied_bands; }

  // Returns true if there are no terms. The sums are then 0.
  bool empty() const { return bands() == 0 || rows() == 0 || columns() == 0; }

  double limit_one() const { return 1 / (4 * tol); }
  double limit_two() const { return gamma * gamma; }

  const char* why_not() const {
    if (frequencies() == 0) return "wx has no frequencies";
    if (!(gamma > 0 && gamma - gamma == 0)) return "gamma must be positive and finite";
    if (!(sexcut > 0)) return "sexcut must be positive";
    if (!(tol > 0 && tol - tol == 0)) return "tol must be positive and finite";
    return nullptr;
  }

  // Checks the values of the small operands, and counts the occupied bands, because the useful
  // FLOPs depend on their number.
  template <class EachValue>
  void check_values(EachValue&& each_value) {
    occupied_bands = -1;
    if (!each_value.known()) return;
    std::int64_t occupied = 0;
    each_value("occ", occ, "must be from 0 to 1", [&](double value) {
      occupied += value != 0;
      return value >= 0 && value <= 1;
    });
    occupied_bands = occupied;
    each_value("wx", wx, "must be finite", [](double value) { return value - value == 0; });
  }

  // Total FLOPs, from the FLOPs per (band, igp, ig, f) of occupied bands and of other bands, and
  // the FLOPs per (band, igp, ig).
  double flops_of(double occupied_band, double other_band, double pair) const {
    const auto pairs = static_cast<double>(rows()) * static_cast<double>(columns());
    const auto all = static_cast<double>(bands()), some = static_cast<double>(occupied());
    const auto terms = pairs * static_cast<double>(frequencies());
    return terms * (some * occupied_band + (all - some) * other_band) + pairs * all * pair;
  }

  // Useful FLOPs: the FLOPs of the first branch, with everything that does not depend on the band
  // or the energy hoisted out of the loops. A division counts as one. The FLOPs are x -+ Re w, the
  // squared moduli and their product, one quotient for both, its products with the numerators, and
  // two complex sums for each of the two terms.
  double flops() const { return flops_of(29, 13, 6); }
};

}  // namespace ado

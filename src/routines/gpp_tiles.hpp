// asx[t, f], ach[t, f]: the sums of routines/gpp.hpp for each tile of kTileRows rows (igp).
//
// adokernels.distributed adds these sums over all tiles of all processes. The sums of a tile have
// the same bits at every position of the tile among the rows of a call. The result therefore does
// not depend on the distribution of the tiles over calls.
#pragma once

#include "routines/gpp.hpp"

namespace ado {

struct GppTiles : Gpp {
  static constexpr const char* kName = "gpp_tiles";
  static constexpr const char* kSummary = "The sums of gpp for each tile of 8 rows of wtilde.";

  static constexpr std::int64_t kTileRows = 8;

  template <class Visitor>
  void operands(Visitor&& visit) {
    inputs_and_options(visit);
    visit.output(Operand{"asx", "tiles nfreqs", kComplex128Elements, "Screened exchange."}, asx);
    visit.output(Operand{"ach", "tiles nfreqs", kComplex128Elements, "Coulomb hole."}, ach);
  }

  std::int64_t tiles() const { return rows() / kTileRows + (rows() % kTileRows != 0); }
  std::int64_t result_length() const { return tiles(); }
};

}  // namespace ado

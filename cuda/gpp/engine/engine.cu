// The GPP self-energy, engine: variants for the speed of the default call, and the choice among all
// variants. The default is the last variant that can solve the problem and has no reason below.
//
// sorting.cuh sorts bands by kind and energy. single_launch.cuh is for small problems; tiling.cuh,
// moments.cuh and split_tiles.cuh are for large problems. timing.cuh predicts the times by which a
// call chooses among them.
#include "common/ladder.cuh"
#include "gpp/engine/single_launch.cuh"
#include "gpp/engine/split_tiles.cuh"

namespace ado::cuda {

Ladder<Gpp> gpp_steps();

namespace {

using namespace gpp;

// With few terms, sorting costs more time than it saves. moments computes the constants of each
// pair twice, which costs more time than it saves with few bands.
const char* why_two_rows_is_slower(const Gpp& p, const Hardware& gpu) {
  return seconds_of_two_rows(p, gpu) < seconds_of_single_launch(p, gpu)
             ? nullptr
             : "single_launch is faster: sorting and more launches cost more time than they save";
}
const char* why_moments_is_slower(const Gpp& p, const Hardware& gpu) {
  const double seconds = seconds_of_moments(p, gpu);
  if (seconds < std::min(seconds_of_two_rows(p, gpu), seconds_of_single_launch(p, gpu)))
    return nullptr;
  if (const char* reason = why_two_rows_is_slower(p, gpu)) return reason;
  return "two_rows is faster: there are too few bands for two launches";
}

constexpr Choice<Gpp> kChoices[] = {
    {"tiled", [](const Gpp&) { return "two_rows or single_launch is faster"; }},
    {"two_rows", why_two_rows_is_slower},
    {"moments", why_moments_is_slower},
};

constexpr Variant<Gpp> kEngine[] = {kSortedBands, kSortedByEnergy, kBlocks2d, kSingleLaunch,
                                    kTiled,       kTwoRows,        kMoments};

// The second ladder, gpp_tiles, is for adokernels.distributed.
constexpr Variant<GppTiles> kTilesVariants[] = {
    {.name = "moments",
     .changes = "The last variant of gpp, with one sum per tile of rows.",
     .blocks = kSplitTiles.blocks,
     .grid = grid_of_tile_sums,
     .scratch_bytes = scratch_of_tile_sums,
     .run = ADO_RUN(run_tile_sums)},
};

}  // namespace

Ladder<Gpp> gpp_ladder() {
  static const auto ladder = with_engine(gpp_steps(), kEngine, kChoices);
  return {ladder.data(), ladder.size()};
}
Ladder<GppTiles> gpp_tiles_ladder() { return ladder_of(kTilesVariants); }

}  // namespace ado::cuda

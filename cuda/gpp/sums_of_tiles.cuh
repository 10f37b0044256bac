// gpp_tiles: the kernels of `moments`, with one sum per tile of igp instead of one sum in total.
//
// The sums of a tile must have the same bits in every call that contains the tile. The tiles of a
// block do not depend on the number of rows, and all lanes of a warp that votes belong to one tile.
// The segments must not depend on the number of rows either, so the tiling has no minimum number of
// blocks.
#pragma once

#include "gpp/split_tiles.cuh"
#include "routines/gpp_tiles.hpp"

namespace ado::cuda::gpp {

static_assert(GppTiles::kTileRows == kTileRows<kSplitRows>);

inline Tiling tiling_of_tiles(const Gpp& p) { return tiling_with_blocks<kSplitRows>(p, 1); }

inline Extent grid_of_tile_sums(const GppTiles& p, Extent) {
  return grid_of_tiling(tiling_of_tiles(p));
}

inline std::size_t scratch_of_tile_sums(const GppTiles& p) {
  const Extent grid = grid_of_split_sums(grid_of_tile_sums(p, {}));
  return partial_bytes(volume_of(grid)) + sorted_tiles_bytes<kSplitRows>(p);
}

#ifdef __CUDACC__

inline constexpr int kTileAddingThreads = 128;

// The grid that stores partial sums. The partial sum of block (x, y) has index y * width + x.
struct PartialsOfGrid {
  std::int64_t width, volume;
};

// Each block adds the partial sums of both kernels for one tile of igp (block x) and one sum of the
// pass (block y).
template <int kF>
__global__ void __launch_bounds__(kTileAddingThreads)
    gpp_add_partials_of_tile(Pass<kF> pass, Tiling tiling, PartialsOfGrid grid,
                             std::int64_t frequencies, Complex* asx, Complex* ach) {
  const std::int64_t tile = block_x(), number = block_y();
  const double* const partials = pass.partials + number * pass.blocks;
  const std::int64_t count = tiling.down * tiling.segments;  // per kernel
  const double sum = sum_of_partials<kTileAddingThreads>(2 * count, [=](std::int64_t i) {
    const std::int64_t kernel = i / count, block = i % count;
    const std::int64_t x = block % tiling.segments * tiling.across + tile;
    return partials[kernel * grid.volume + block / tiling.segments * grid.width + x];
  });
  if (threadIdx.x == 0)
    store_result(pass, static_cast<int>(number), sum, asx + tile * frequencies,
                 ach + tile * frequencies);
}

inline void run_tile_sums(const GppTiles& p, const Launch& go) {
  const Launch both = launch_of_split_sums(go);
  const SortedBands sorted = gather_tiles<kSplitRows>(p, both);
  const Tiling tiling = tiling_of_tiles(p);
  Launch adding = go;
  adding.grid = {static_cast<unsigned>(p.tiles())};
  adding.block = {kTileAddingThreads};
  adding.shared_bytes = 0;
  for_passes<2>(p, both, [&]<int kF>(const Pass<kF>& pass) {
    if (!p.empty()) launch_split_tiles(p, go, pass, sorted, tiling);
    adding.grid.y = kSumsPerFrequency * kF;
    launch(adding, gpp_add_partials_of_tile<kF>, pass, tiling,
           PartialsOfGrid{go.grid.x, volume_of(go.grid)}, p.frequencies(), p.asx.as<Complex>(),
           p.ach.as<Complex>());
  });
}

#endif

}  // namespace ado::cuda::gpp

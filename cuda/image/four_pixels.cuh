// Accesses to words of four packed pixels, for filters that compute in registers.
#pragma once

#include "image/tiles.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

// ---- dot_product, vectorised --------------------------------------------------------------------
// The possible accesses to 32-bit words of four pixels, in the tile of a block and around it.
enum class Access {
  kAlignedInside,    // all words are aligned and inside the image
  kUnalignedInside,  // all pixels and the aligned words around them are inside the image
  kAlignedAtEdge,    // all words are aligned, each entirely inside or entirely outside the image
  kUnalignedAtEdge,  // no guarantee of alignment or position
};

// Four packed pixels and the four on either side of them in the same row.
//
//   column   -4 -3 -2 -1 | 0  1  2  3 | 4  5  6  7
//   word        before   |    here    |    after      leftmost pixel in the lowest byte
struct PackedNeighbours {
  unsigned before, here, after;
};

// Four pixels of a row and their neighbours. Without alignment, each word is extracted from the two
// aligned words that contain its bytes:
//
//   aligned words   | a0 a1 a2 a3 | b0 b1 b2 b3 |
//   wanted, if it begins 1 byte later:
//                        [a1 a2 a3   b0]          = __funnelshift_r(a, b, 8 * 1)
template <Access kAccess>
__device__ PackedNeighbours packed(const ImageView& view, int row) {
  const auto word = [](const std::uint8_t* at) { return *reinterpret_cast<const unsigned*>(at); };
  const std::uint8_t* from = view.in + row * view.pitch;
  const int offset = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % 4);
  if constexpr (kAccess == Access::kAlignedInside) {
    return {word(from - 4), word(from), word(from + 4)};
  } else if constexpr (kAccess == Access::kUnalignedInside) {
    from -= offset;
    const unsigned here = word(from), after = word(from + 4);
    return {__funnelshift_r(word(from - 4), here, 8 * offset),
            __funnelshift_r(here, after, 8 * offset),
            __funnelshift_r(after, word(from + 8), 8 * offset)};
  } else if constexpr (kAccess == Access::kAlignedAtEdge) {
    const auto at_edge = [&](int col) { return view.contains(row, col) ? word(from + col) : 0; };
    return {at_edge(-4), at_edge(0), at_edge(4)};
  } else {
    const auto at_edge = [&](int col) {
      if (row < view.top || row >= view.bottom || col >= view.right || col + 4 <= view.left)
        return 0U;
      unsigned pixels = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) pixels |= unsigned{view.pixel(row, col + i)} << (8 * i);
      return pixels;
    };
    return {at_edge(-4), at_edge(0), at_edge(4)};
  }
}

// Stores four packed pixels from column 0 on.
template <Access kAccess>
__device__ void store_packed(const ImageView& view, int row, unsigned value) {
  std::uint8_t* const to = view.out + row * view.pitch;
  if constexpr (kAccess == Access::kAlignedInside || kAccess == Access::kAlignedAtEdge) {
    if (kAccess == Access::kAlignedInside || view.contains(row, 0))
      *reinterpret_cast<unsigned*>(to) = value;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (kAccess == Access::kUnalignedInside || view.contains(row, i))
        to[i] = static_cast<std::uint8_t>(value >> (8 * i));
  }
}

// Calls `visit.operator()<Access>()` with the access that is possible for a tile, with `halo` rows
// above and below it.
template <class Visit>
__device__ void with_access(const ImageView& tile, int rows, int cols, int halo, Visit visit) {
  const auto contains_with = [&](int margin) {
    return tile.contains(-halo, -margin) && tile.contains(rows - 1 + halo, cols - 1 + margin);
  };
  if (tile.pitch % 4 == 0 && starts_at_vector(tile.in, 4) && starts_at_vector(tile.out, 4)) {
    if (contains_with(4))
      visit.template operator()<Access::kAlignedInside>();
    else
      visit.template operator()<Access::kAlignedAtEdge>();
  } else if (contains_with(8)) {
    visit.template operator()<Access::kUnalignedInside>();
  } else {
    visit.template operator()<Access::kUnalignedAtEdge>();
  }
}

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

#endif

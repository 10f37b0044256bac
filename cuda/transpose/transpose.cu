// Transpose on the GPU: out[col][row] = a[row][col]. The variants range from one strided store per
// element to the throughput of a copy.
//
// Nothing is computed, so only the memory access pattern matters. DRAM and L2 transfer sectors of
// 32 bytes, and accesses are fastest if the lanes of a warp access whole, neighbouring sectors. A
// direct transpose either loads or stores across the rows. The variants avoid that with a tile in
// shared memory, then use fewer and wider accesses, and then handle unaligned rows.
//
// Read the files in this order. This file has the list of variants. clang-format off
#include "transpose/copy.cuh"           // the ceiling
#include "transpose/element_steps.cuh"  // naive, tiled, padded, coarsened
#include "transpose/load_store.cuh"     // between global and shared memory
#include "transpose/matrix.cuh"         // the operands
#include "transpose/registers.cuh"      // micro-tiles, unaligned vectors
#include "transpose/tile_shape.cuh"     // the tiles of the later steps, and their grids
#include "transpose/vector_steps.cuh"   // wide, unaligned_rows, in_place
// clang-format on

namespace ado::cuda {
namespace {

constexpr const char* kNotInPlace =
    "out is a, so blocks would overwrite elements that other blocks have not read yet; use "
    "`in_place`";
constexpr const char* kThinReason =
    "a has at most 128 rows or columns, so the small tiles of `coarsened` are faster";
static_assert(kThin == 128);

const char* why_not_elements(const Transpose& p) { return p.in_place() ? kNotInPlace : nullptr; }

const char* why_not_wide(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (!rows_aligned(p.a, kVectorBytes) || !rows_aligned(p.out, kVectorBytes))
    return "rows are not aligned to 16 bytes";
  return nullptr;
}

const char* why_not_unaligned_rows(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (rows_aligned(p.a, kVectorBytes) && rows_aligned(p.out, kSectorBytes))
    return "rows of a are aligned to 16 bytes and those of out to 32, so `wide` already uses whole "
           "vectors and sectors";
  return nullptr;
}

const char* why_not_in_place(const Transpose& p) { return p.in_place() ? nullptr : "out is not a"; }

const char* why_not_copy(const Transpose& p) {
  if (!p.a.packed() || !p.out.packed()) return "rows are padded, so the bytes are not contiguous";
  if (!starts_at_vector(p.a.data) || !starts_at_vector(p.out.data))
    return "the arrays are not aligned to 16 bytes";
  return nullptr;
}

Extent grid_of_element_tiles(const Transpose& p, Extent) { return grid_over(p, kTile, kTile); }

constexpr Variant<Transpose> kVariants[] = {
    {.name = "copy",
     .changes = "Copies the same number of bytes in order, one 16-byte vector per thread.",
     .device = Device::kCuda,
     .ceiling = true,
     .why_not = why_not_copy,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const Transpose& p,
                Extent block) { return grid_of(ceil_div(p.a.bytes(), kVectorBytes * block.x), 1); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       launch(go, transpose_copy, p.a.data, p.out.data, p.a.bytes());
     })},
    {.name = "naive",
     .changes = "One thread per element: coalesced loads, strided stores.",
     .device = Device::kCuda,
     .why_not = why_not_elements,
     .blocks = {{{32, 8}, {32, 32}, {16, 16}, {8, 32}, {4, 64}, {1, 256}}},
     .grid = [](const Transpose& p, Extent block) { return grid_over(p, block.x, block.y); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_naive<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "tiled",
     .changes = "Transposes a tile in shared memory, so that stores are also coalesced.",
     .device = Device::kCuda,
     .why_not = why_not_elements,
     .blocks = {{{kTile, kTile}}},
     .grid = grid_of_element_tiles,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_tiled<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "padded",
     .changes = "Pads the tile by one column to avoid bank conflicts.",
     .device = Device::kCuda,
     .why_not = why_not_elements,
     .blocks = {{{kTile, kTile}}},
     .grid = grid_of_element_tiles,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_padded<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "coarsened",
     .changes = "Each thread moves several elements, so that several loads are in flight.",
     .device = Device::kCuda,
     .why_not = why_not_elements,
     .blocks = {{{kTile, 4}, {kTile, 2}, {kTile, 8}, {kTile, 16}}},
     .grid = grid_of_element_tiles,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         const auto kernel = go.block.y == 2   ? transpose_coarsened<2, T>
                             : go.block.y == 4 ? transpose_coarsened<4, T>
                             : go.block.y == 8 ? transpose_coarsened<8, T>
                                               : transpose_coarsened<16, T>;
         launch(go, kernel, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "wide",
     .changes = "Uses 16-byte accesses everywhere; transposes small elements in registers.",
     .device = Device::kCuda,
     .why_not = why_not_wide,
     .blocks = {{kBlock}},
     .grid =
         [](const Transpose& p, Extent) {
           return with_size(p, [&](auto size) { return grid_of_tiles(p, WideTile<size>{}); });
         },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_size(p, [](auto size) { return std::size_t{WideTile<size>::kBytes}; });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_wide<WideTile<size>>, input_bytes(p), output_bytes(p));
       });
     })},
    {.name = "unaligned_rows",
     .changes = "Keeps accesses aligned if rows are not.",
     .device = Device::kCuda,
     .why_not = why_not_unaligned_rows,
     .blocks = {{kBlock}},
     .grid =
         [](const Transpose& p, Extent) {
           return with_size(p, [&](auto size) { return grid_of_tiles(p, UnalignedTile<size>{}); });
         },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_size(p, [](auto size) { return std::size_t{UnalignedTile<size>::kBytes}; });
         },
     // Vectors that two tiles load are counted twice.
     .bytes =
         [](const Transpose& p) {
           return with_size(p, [&](auto size) {
             using Shape = UnalignedTile<size>;
             return static_cast<double>(p.a.bytes()) *
                    (1 + static_cast<double>(Shape::kLoaded) / Shape::kStored);
           });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_unaligned_rows<UnalignedTile<size>>, input_bytes(p), output_bytes(p));
       });
     })},
    {.name = "in_place",
     .changes = "Swaps pairs of tiles if out is a.",
     .device = Device::kCuda,
     .why_not = why_not_in_place,
     .blocks = {{kBlock}},
     .grid =
         [](const Transpose& p, Extent) {
           return with_in_place_tile(p, [&](auto shape) { return grid_of_triangle(p, shape); });
         },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_in_place_tile(
               p, [](auto shape) { return 2 * std::size_t{decltype(shape)::kBytes}; });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_in_place_tile(p, [&](auto shape) {
         launch(go, transpose_in_place<decltype(shape)>, output_bytes(p));
       });
     })},
};

}  // namespace

Ladder<Transpose> transpose_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

// Transpose on the GPU: out[col][row] = a[row][col]. The variants range from one strided store per
// element to the throughput of a copy.
//
// Nothing is computed, so only the memory access pattern matters. DRAM and L2 transfer sectors of
// 32 bytes, and accesses are fastest if the lanes of a warp access whole, neighbouring sectors. A
// direct transpose either loads or stores across the rows. The variants avoid that with a tile in
// shared memory, then use fewer and wider accesses, and then handle unaligned rows.
//
// The files in reading order: element_steps.cuh, vector_steps.cuh, thin_steps.cuh and copy.cuh.
// This file contains the list of variants.
#include "transpose/copy.cuh"           // the ceiling, and as_copy
#include "transpose/element_steps.cuh"  // naive, tiled, padded, coarsened
#include "transpose/thin_steps.cuh"     // few_columns, few_rows
#include "transpose/vector_steps.cuh"   // wide, unaligned_rows, in_place

namespace ado::cuda {
namespace {

constexpr const char* kNotInPlace =
    "out is a, so blocks would overwrite elements that other blocks have not read yet; use "
    "`in_place`";
const char* why_not_elements(const Transpose& p) { return p.in_place() ? kNotInPlace : nullptr; }

// The limits below are crossover points measured on an H200, L2 flushed.

// Tiles of `coarsened` per multiprocessor.
double element_tiles(const Transpose& p, const Hardware& gpu) {
  return static_cast<double>(grid_over(p, kTile, kTile).volume()) /
         std::max(gpu.multiprocessors, 1);
}

// Variants with a tile in shared memory need a barrier between load and store.
constexpr std::int64_t kTiny = 32768;  // elements
const char* why_slower_tile(const Transpose& p, const Hardware&) {
  return p.a.elements() <= kTiny ? "a is small and latency dominates, so `narrow_blocks`, which "
                                   "has no barrier, is faster"
                                 : nullptr;
}

bool aligned_for_wide(const Transpose& p) {
  return rows_aligned(p.a, kVectorBytes) && rows_aligned(p.out, kVectorBytes);
}

constexpr const char* kSmallReason =
    "a is small, so the small tiles of `coarsened` keep more multiprocessors busy";

constexpr const char* kThinReason =
    "a has so few rows or columns that large tiles are mostly outside the matrix";

const char* why_not_wide(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  return aligned_for_wide(p) ? nullptr : "rows are not aligned to 16 bytes";
}

const char* why_slower_wide(const Transpose& p, const Hardware& gpu) {
  if (element_tiles(p, gpu) < (p.a.type.size == 1 ? 24 : 12)) return kSmallReason;
  if (p.a.type.size == 8 && std::min(p.rows(), p.cols()) <= 96) return kThinReason;
  return p.a.type.size == 16 && p.cols() <= 48 ? kThinReason : nullptr;
}

const char* why_slower_unaligned_rows(const Transpose& p, const Hardware& gpu) {
  if (rows_aligned(p.a, kVectorBytes) && rows_aligned(p.out, kSectorBytes))
    return "rows of a are aligned to 16 bytes and rows of out to 32 bytes, so `wide` already uses "
           "whole vectors and sectors";
  const int size = p.a.type.size;
  const double crossover = size == 1 ? 24 : size == 2 ? 28 : size == 4 ? 20 : 10;
  if (element_tiles(p, gpu) < crossover) return kSmallReason;
  return size == 16 && p.cols() <= 48 ? kThinReason : nullptr;
}

// Returns why another variant is faster for a matrix with long rows (of a or out) of `length`
// elements and short rows of `bytes` bytes.
const char* why_slower_few(const Transpose& p, const Hardware& gpu, std::int64_t length,
                           std::int64_t bytes) {
  const int size = p.a.type.size;
  const double parts = static_cast<double>(length * size) / kPartBytes;
  if (element_tiles(p, gpu) < 8 || parts < 1.5 * gpu.multiprocessors) return kSmallReason;
  const bool wide = aligned_for_wide(p);
  const std::int64_t limit = size == 1   ? (wide ? 192 : 257)
                             : size == 2 ? (wide ? 192 : 352)
                             : size == 4 ? (wide ? 256 : 512)
                             : size == 8 ? 512
                                         : 256;
  return bytes < limit ? nullptr : "short rows are long enough for the tiles of other variants";
}

const char* why_not_few_columns(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (p.cols() > kFew) return "a has more than 256 columns";
  return p.a.packed() ? nullptr : "rows of a are padded, so whole rows are not contiguous";
}

const char* why_slower_few_columns(const Transpose& p, const Hardware& gpu) {
  return why_slower_few(p, gpu, p.rows(), p.cols() * p.a.type.size);
}

const char* why_not_few_rows(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (p.rows() > kFew) return "a has more than 256 rows";
  return p.out.packed() ? nullptr : "rows of out are padded, so whole rows are not contiguous";
}

const char* why_slower_few_rows(const Transpose& p, const Hardware& gpu) {
  return why_slower_few(p, gpu, p.cols(), p.rows() * p.a.type.size);
}

const char* why_not_as_copy(const Transpose& p) {
  if (p.in_place()) return kNotInPlace;
  if (p.rows() != 1 && p.cols() != 1) return "a has more than one row and more than one column";
  if (!p.a.packed() || !p.out.packed()) return "elements are not contiguous";
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
     .why_not = why_not_elements,
     .blocks = {{{32, 8}, {32, 32}, {16, 16}, {8, 32}, {4, 64}, {1, 256}}},
     .grid = [](const Transpose& p, Extent block) { return grid_over(p, block.x, block.y); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_naive<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "narrow_blocks",
     .changes = {"Uses narrow, tall blocks, so that loads and stores share the partial sectors.",
                 Step::kCoalescing},
     .why_not = why_not_elements,
     .blocks = {{{8, 32}, {4, 64}, {8, 16}, {16, 16}}},
     .grid = [](const Transpose& p, Extent block) { return grid_over(p, block.x, block.y); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_naive<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "tiled",
     .changes = {"Transposes a tile in shared memory, so that stores are also coalesced.",
                 Step::kCoalescing},
     .why_not = why_not_elements,
     .why_slower = why_slower_tile,
     .blocks = {{{kTile, kTile}}},
     .grid = grid_of_element_tiles,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_tiled<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "padded",
     .changes = {"Pads the tile by one column to avoid bank conflicts.", Step::kBankConflicts},
     .why_not = why_not_elements,
     .why_slower = why_slower_tile,
     .blocks = {{{kTile, kTile}}},
     .grid = grid_of_element_tiles,
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         launch(go, transpose_padded<T>, matrix<const T>(p.a), matrix<T>(p.out));
       });
     })},
    {.name = "coarsened",
     .changes = {"Each thread moves several elements, so that several loads are in flight.",
                 Step::kInFlight},
     .why_not = why_not_elements,
     .why_slower = why_slower_tile,
     .blocks = {{{kTile, 8}, {kTile, 2}, {kTile, 4}, {kTile, 16}}},
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
     .changes = {"Uses 16-byte accesses everywhere; transposes small elements in registers.",
                 Step::kWider},
     .why_not = why_not_wide,
     .why_slower = why_slower_wide,
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
     .changes = {"Keeps accesses aligned if rows are not.", Step::kCoalescing},
     .why_not = why_not_elements,
     .why_slower = why_slower_unaligned_rows,
     .blocks = {{kBlock}},
     .grid =
         [](const Transpose& p, Extent) {
           return with_unaligned_tile(p, [&](auto shape) { return grid_of_tiles(p, shape); });
         },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_unaligned_tile(
               p, [](auto shape) { return std::size_t{decltype(shape)::kBytes}; });
         },
     // Vectors that two tiles load are counted twice.
     .bytes =
         [](const Transpose& p) {
           return with_unaligned_tile(p, [&](auto shape) {
             using Shape = decltype(shape);
             return static_cast<double>(p.a.bytes()) *
                    (1 + static_cast<double>(Shape::kLoaded) / Shape::kStored);
           });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_unaligned_tile(p, [&](auto shape) {
         launch(go, transpose_unaligned_rows<decltype(shape)>, input_bytes(p), output_bytes(p));
       });
     })},
    {.name = "few_columns",
     .changes = {"If a has few columns, copies whole rows to shared memory asynchronously.",
                 Step::kCoalescing, Step::kInFlight},
     .why_not = why_not_few_columns,
     .why_slower = why_slower_few_columns,
     .blocks = {{kBlock}},
     .grid = [](const Transpose& p, Extent) { return grid_of_few_columns(p); },
     .shared_bytes = [](const Transpose& p, Extent) { return few_columns_shape(p).shared_bytes(); },
     // Rows that two blocks load are counted twice.
     .bytes =
         [](const Transpose& p) {
           const StagedShape shape = few_columns_shape(p);
           return static_cast<double>(p.a.bytes()) *
                  (2 + static_cast<double>(shape.slack) / shape.rows);
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_few_columns<size>, input_bytes(p), output_bytes(p),
                few_columns_shape(p));
       });
     })},
    {.name = "few_rows",
     .changes = {"If a has few rows, copies long parts of all rows and stores whole rows of out.",
                 Step::kCoalescing, Step::kInFlight},
     .why_not = why_not_few_rows,
     .why_slower = why_slower_few_rows,
     .blocks = {{kBlock}},
     .grid = [](const Transpose& p, Extent) { return grid_of_few_rows(p); },
     .shared_bytes = [](const Transpose& p, Extent) { return few_rows_shape(p).shared_bytes(); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_few_rows<size>, input_bytes(p), output_bytes(p), few_rows_shape(p));
       });
     })},
    {.name = "as_copy",
     .changes = {"Copies a single row or column, because its elements stay in order.",
                 Step::kWider},
     .why_not = why_not_as_copy,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const Transpose& p, Extent block) { return grid_of_copy(p, block); },
     // If a and out are aligned differently, each vector of out needs two vectors of a.
     .bytes =
         [](const Transpose& p) {
           return static_cast<double>(p.a.bytes()) * (same_alignment(p) ? 2 : 3);
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       launch(go, same_alignment(p) ? transpose_as_copy<false> : transpose_as_copy<true>, p.a.data,
              p.out.data, parts_of_copy(p));
     })},
    {.name = "in_place",
     .changes = {"Swaps pairs of tiles if out is a.", Step::kOther},
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

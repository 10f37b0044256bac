// Transpose on the GPU: out[col][row] = a[row][col]. The variants range from one strided store per
// element to the throughput of a copy.
//
// Nothing is computed, so only the memory access pattern matters. DRAM and L2 transfer sectors of
// 32 bytes, and accesses are fastest if the lanes of a warp access whole, neighbouring sectors. A
// direct transpose either loads or stores across the rows. The variants avoid that with a tile in
// shared memory, then use fewer and wider accesses, and then handle unaligned rows.
//
// Read the steps in this order, beside the slides "Matrix Transpose" and the post
// "An Efficient Matrix Transpose in CUDA C/C++" (M. Harris, NVIDIA, 2013):
//
//   1. element_steps.cuh   naive, narrow_blocks, tiled, padded, coarsened; and the ceiling, copy
//   2. wide_step.cuh       wide
//   3. tma_step.cuh        tma
//
// The engine of the default call contains no further steps: engine_tiles.cuh (unaligned_rows,
// in_place), engine_thin.cuh (few_columns, few_rows), engine_copy.cuh (as_copy) and
// engine_index.cuh (linear_index) are for matrices of other layouts, shapes and sizes, and
// engine_choice.cuh chooses among the variants.
#include "transpose/engine_choice.cuh"

namespace ado::cuda {
namespace {

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
     .changes =
         {"Runs naive's kernel in narrow, tall blocks, so that stores fill more of each sector.",
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
     .changes = {"Uses 16-byte accesses except at edges; transposes small elements in registers.",
                 Step::kWider},
     .why_not = why_not_wide,
     .why_slower = why_slower_wide,
     .blocks = {{kBlock}},
     .grid = [](const Transpose& p, Extent) { return grid_of_wide_tiles(p); },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_size(p, [](auto size) { return std::size_t{WideTile<size>::kBytes}; });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_wide<size>, input_bytes(p), output_bytes(p));
       });
     })},
    {.name = "tma",
     .changes = {"Loads tiles with the tensor memory accelerator, which swizzles them.",
                 Step::kInFlight},
     .min_compute = 90,
     .why_not = why_not_tma,
     .why_slower = why_slower_tma,
     .blocks = {{{kBoxThreads}}},
     .grid = [](const Transpose& p, Extent) { return grid_of_boxes(p); },
     .shared_bytes =
         [](const Transpose& p, Extent) {
           return with_size(p, [](auto size) { return std::size_t{BoxTile<size>::kBytes}; });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_tma<size>,
                tensor_map(go, p.a.data, p.rows(), p.cols() * size, p.a.stride[0],
                           BoxTile<size>::kRows),
                output_bytes(p));
       });
     })},
    {.name = "unaligned_rows",
     .changes = {"Keeps accesses aligned if rows are not.", Step::kCoalescing},
     .why_not = why_not_elements,
     .why_slower = why_slower_unaligned_rows,
     .blocks = {{kBlock}},
     .grid =
         [](const Transpose& p, Extent, const Hardware& gpu) {
           return with_unaligned_tile(
               p, gpu, [&](auto shape) { return grid_of_unaligned_tiles(p, shape); });
         },
     .shared_bytes =
         [](const Transpose& p, Extent, const Hardware& gpu) {
           return with_unaligned_tile(
               p, gpu, [](auto shape) { return std::size_t{decltype(shape)::kBytes}; });
         },
     // Vectors that two tiles load are counted twice.
     .bytes =
         [](const Transpose& p, const Hardware& gpu) {
           return with_unaligned_tile(p, gpu, [&](auto shape) {
             using Shape = decltype(shape);
             return static_cast<double>(p.a.bytes()) *
                    (1 + static_cast<double>(Shape::kLoaded) / Shape::kStored);
           });
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_unaligned_tile(p, go.hardware, [&](auto shape) {
         launch(go, transpose_unaligned_rows<decltype(shape)>, input_bytes(p), output_bytes(p));
       });
     })},
    {.name = "few_columns",
     .changes = {"If a has few columns, copies whole rows to shared memory asynchronously.",
                 Step::kCoalescing, Step::kInFlight},
     .why_not = why_not_few_columns,
     .why_slower = why_slower_few_columns,
     .blocks = {{kBlock}},
     .grid = grid_of_few_columns,
     .shared_bytes = [](const Transpose& p, Extent,
                        const Hardware& gpu) { return few_columns_shape(p, gpu).shared_bytes(); },
     // Rows that two blocks load are counted twice.
     .bytes =
         [](const Transpose& p, const Hardware& gpu) {
           const StagedShape shape = few_columns_shape(p, gpu);
           return static_cast<double>(p.a.bytes()) *
                  (2 + static_cast<double>(shape.slack) / shape.rows);
         },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_few_columns<size>, input_bytes(p), output_bytes(p),
                few_columns_shape(p, go.hardware));
       });
     })},
    {.name = "few_rows",
     .changes = {"If a has few rows, copies long parts of all rows and stores whole rows of out.",
                 Step::kCoalescing, Step::kInFlight},
     .why_not = why_not_few_rows,
     .why_slower = why_slower_few_rows,
     .blocks = {{kBlock}},
     .grid = grid_of_few_rows,
     .shared_bytes = [](const Transpose& p, Extent,
                        const Hardware& gpu) { return few_rows_shape(p, gpu).shared_bytes(); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         launch(go, transpose_few_rows<size>, input_bytes(p), output_bytes(p),
                few_rows_shape(p, go.hardware));
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
    {.name = "linear_index",
     .changes = {"If a is small, gives each thread one element, without a tile or a barrier.",
                 Step::kBarriers, Step::kOperations},
     .why_not = why_not_linear_index,
     .why_slower = why_slower_linear_index,
     .blocks = {{{256}, {128}, {64}, {512}}},
     .grid = [](const Transpose& p,
                Extent block) { return grid_of(ceil_div(p.a.elements(), block.x), 1); },
     .run = ADO_RUN([](const Transpose& p, const Launch& go) {
       with_size(p, [&](auto size) {
         using T = Element<size>;
         const bool of_out = follows_out(p);
         const auto strides = [&](const Array& m, bool followed) {
           const auto row = static_cast<unsigned>(m.stride[0] / size);
           return followed ? Strides{.minor = 1, .major = row} : Strides{.minor = row, .major = 1};
         };
         launch(go, transpose_linear_index<T>, p.a.as<const T>(), p.out.as<T>(),
                static_cast<unsigned>(p.a.elements()), divisor(of_out ? p.rows() : p.cols()),
                strides(p.a, !of_out), strides(p.out, of_out));
       });
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

// Shared by the image filters: the tile of a block, an image seen from one of its pixels, and the
// ceiling.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"

namespace ado::cuda {

// Grid for blocks whose threads compute kDown rows by kAcross columns each: one block per tile.
// Blocks along x cover the same rows of an image. Along y, the tiles of all images of a batch are
// consecutive.
template <int kAcross, int kDown, class Routine>
Extent grid_of_tiles(const Routine& p, Extent block) {
  if (p.out.elements() == 0) return {};
  return grid_of(ceil_div(p.cols(), std::int64_t{block.x} * kAcross),
                 p.images() * ceil_div(p.rows(), std::int64_t{block.y} * kDown));
}

// Bytes that a variant requests if it reads `read` bytes per tile of `tile` pixels.
template <class Routine>
double bytes_by_tiles(const Routine& p, double read, double tile) {
  return static_cast<double>(p.out.elements()) * (read / tile + 1);
}

// Pixels of all tiles, if threads compute kDown rows by kAcross columns each. Nearly all kernels
// also compute the pixels of a tile that are outside the image, but do not store them.
template <int kAcross, int kDown, class Routine>
double pixels_of_tiles(const Routine& p, Extent block) {
  const std::int64_t tile_cols = std::int64_t{block.x} * kAcross;
  const std::int64_t tile_rows = std::int64_t{block.y} * kDown;
  const std::int64_t cols = ceil_div(p.cols(), tile_cols) * tile_cols;
  const std::int64_t rows = ceil_div(p.rows(), tile_rows) * tile_rows;
  return static_cast<double>(p.images() * rows * cols);
}

#ifdef __CUDACC__

// The tiles of a batch. The host computes everything that a block needs to find its tile. With one
// or two pixels per thread, computing this on the device would take as long as the filter itself.
struct Tiles {
  // Distances in pixels between rows, rows of tiles, and images.
  std::int64_t row_pitch, tile_pitch, image_pitch;
  std::uint32_t images, down;  // down: tiles per image
  int rows, cols;              // of a tile
  int last_rows, last_cols;    // sizes of the last tiles down and across an image
};

// Launches a kernel with one block per tile.
template <auto* kKernel, int kAcross, int kDown, class Routine>
void run_tiles(const Routine& p, const Launch& go) {
  const std::int64_t tile_rows = std::int64_t{go.block.y} * kDown;
  const std::int64_t tile_cols = std::int64_t{go.block.x} * kAcross;
  const std::int64_t down = ceil_div(p.rows(), tile_rows), across = ceil_div(p.cols(), tile_cols);
  launch(go, kKernel, p.gray.template as<const std::uint8_t>(), p.out.template as<std::uint8_t>(),
         {.row_pitch = p.cols(),
          .tile_pitch = tile_rows * p.cols(),
          .image_pitch = p.rows() * p.cols(),
          .images = static_cast<std::uint32_t>(p.images()),  // a launch with more images fails
          .down = static_cast<std::uint32_t>(down),
          .rows = static_cast<int>(tile_rows),
          .cols = static_cast<int>(tile_cols),
          .last_rows = static_cast<int>(p.rows() - (down - 1) * tile_rows),
          .last_cols = static_cast<int>(p.cols() - (across - 1) * tile_cols)});
}

// An image relative to one of its pixels, which is row 0 and column 0. Relative rows and columns
// fit into 32 bits for images of any size, so only pointers take 64 bits.
struct ImageView {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t pitch;
  int top, left, bottom, right;  // rows [top, bottom) and columns [left, right) are the image

  // Relative to the pixel `rows` below and `cols` to the right.
  __device__ ImageView moved(int rows, int cols) const {
    const std::int64_t pixels = rows * pitch + cols;
    return {.in = in + pixels,
            .out = out + pixels,
            .pitch = pitch,
            .top = top - rows,
            .left = left - cols,
            .bottom = bottom - rows,
            .right = right - cols};
  }

  __device__ bool contains(int row, int col) const {
    return row >= top && row < bottom && col >= left && col < right;
  }

  // A pixel, or 0 outside the image. kReadOnly: loads through the read-only data path.
  template <bool kReadOnly = false>
  __device__ std::uint8_t pixel(int row, int col) const {
    if (!contains(row, col)) return 0;
    const std::uint8_t* from = in + row * pitch + col;
    return kReadOnly ? __ldg(from) : *from;
  }

  __device__ void store(int row, int col, std::uint8_t value) const {
    if (contains(row, col)) out[row * pitch + col] = value;
  }
};

// The image relative to the first pixel of the calling block's tile. Distances are limited to 64
// tiles, so that they fit into 32 bits. No filter accesses pixels that are as far away.
__device__ inline ImageView tile_of_block(const std::uint8_t* in, std::uint8_t* out,
                                          const Tiles& tiles) {
  const auto limited = [](std::uint32_t count) { return static_cast<int>(min(count, 64U)); };
  const std::uint32_t y = blockIdx.z * gridDim.y + blockIdx.y;
  std::uint32_t tile = y;
  std::int64_t first = 0;
  bool exists = true;
  if (y >= tiles.down) {  // most batches have one image and skip the division
    const std::uint32_t image = y / tiles.down;
    tile = y - image * tiles.down;
    first = image * tiles.image_pitch;
    exists = image < tiles.images;  // the grid is rounded up
  }
  first += tile * tiles.tile_pitch + static_cast<std::int64_t>(blockIdx.x) * tiles.cols;
  ImageView view{.in = in + first,
                 .out = out + first,
                 .pitch = tiles.row_pitch,
                 .top = -limited(tile) * tiles.rows,
                 .left = -limited(blockIdx.x) * tiles.cols,
                 .bottom = limited(tiles.down - 1 - tile) * tiles.rows + tiles.last_rows,
                 .right = limited(gridDim.x - 1 - blockIdx.x) * tiles.cols + tiles.last_cols};
  if (!exists) view.bottom = view.top;
  return view;
}

#endif

// ---- copy ---------------------------------------------------------------------------------------
template <class Routine>
constexpr Variant<Routine> copy_row() {
  return {.name = "copy",
          .changes = "Copies the same number of bytes with the driver's memcpy.",
          .ceiling = true,
          .run = ADO_RUN([](const Routine& p, const Launch& go) { copy(go, p.out.data, p.gray); })};
}

// ---- shared, read_only, separable, two_pixels, wide_shared, float_taps, float_fast --------------
// Loads a tile and its halo, kCols columns wide from `corner` on, into shared memory. The block has
// kBlockRows rows of 32 threads, and each thread loads kLoaded neighbouring pixels at a time, in
// one access if they are aligned. All loads are issued before the first value is stored, so that
// they are in flight together.
#ifdef __CUDACC__
template <int kCols, int kBlockRows, int kLoaded = 1, bool kReadOnly = false, class Number,
          int kRows, int kPitch>
__device__ void load_tile(const ImageView& corner, Number (&tile)[kRows][kPitch]) {
  constexpr int kBlockCols = 32 * kLoaded;  // in pixels
  constexpr int kDown = (kRows + kBlockRows - 1) / kBlockRows;
  constexpr int kAcross = (kCols + kBlockCols - 1) / kBlockCols;
  using Pixels = Vector<std::uint8_t, kLoaded>;
  const int row = threadIdx.y, col = threadIdx.x * kLoaded;
  const ImageView view = corner.moved(row, col);
  Pixels loaded[kDown][kAcross];
  const auto for_each = [&](auto visit) {
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        if (row + i * kBlockRows < kRows && col + j * kBlockCols < kCols)
          visit(i * kBlockRows, j * kBlockCols, loaded[i][j]);
  };
  for_each([&](int i, int j, Pixels& pixels) {
    if constexpr (kLoaded == 2) {
      const std::uint8_t* from = view.in + i * view.pitch + j;
      if (view.contains(i, j) && view.contains(i, j + 1) && starts_at_vector(from, 2))
        pixels = *reinterpret_cast<const Pixels*>(from);
      else
        pixels = {view.pixel(i, j), view.pixel(i, j + 1)};
    } else {
      pixels = {view.pixel<kReadOnly>(i, j)};
    }
  });
  for_each([&](int i, int j, const Pixels& pixels) {
    Vector<Number, kLoaded> numbers;
#pragma unroll
    for (int k = 0; k < kLoaded; ++k) numbers.at[k] = static_cast<Number>(pixels.at[k]);
    reinterpret_cast<Vector<Number, kLoaded>&>(tile[row + i][col + j]) = numbers;
  });
}
#endif

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

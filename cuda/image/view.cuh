// Shared by the image filters: batches of one-byte images, the tile that a block reads and writes,
// and the copy that is the filters' ceiling.
#pragma once

#include "common/grid.cuh"
#include "common/vector.cuh"

namespace ado::cuda {

// A routine that computes an image `out` from each image `gray` of the same size. Device arrays are
// packed, so the images of a batch are contiguous.
template <class Routine>
concept ImageFilter = requires(const Routine& p) {
  p.gray.data;
  p.out.data;
  p.images() + p.rows() + p.cols();
};

template <ImageFilter Routine>
std::int64_t pixels_of(const Routine& p) {
  return p.images() * p.rows() * p.cols();
}

// Grid for blocks whose threads compute kDown rows by kAcross columns each: one block per tile.
// Blocks along x cover the same rows of an image. Along y, the tiles of all images of a batch are
// consecutive.
template <int kAcross, int kDown, ImageFilter Routine>
Extent grid_of_tiles(const Routine& p, Extent block) {
  if (pixels_of(p) == 0) return {};
  return grid_of(ceil_div(p.cols(), std::int64_t{block.x} * kAcross),
                 p.images() * ceil_div(p.rows(), std::int64_t{block.y} * kDown));
}

// Bytes that a variant requests if it reads `read` bytes per tile of `tile` pixels.
template <ImageFilter Routine>
double bytes_by_tiles(const Routine& p, double read, double tile) {
  return static_cast<double>(pixels_of(p)) * (read / tile + 1);
}

// Pixels of all tiles, if threads compute kDown rows by kAcross columns each. Nearly all kernels
// also compute the pixels of a tile that are outside the image, but do not store them.
template <int kAcross, int kDown, ImageFilter Routine>
double pixels_of_tiles(const Routine& p, Extent block) {
  const std::int64_t tile_cols = std::int64_t{block.x} * kAcross;
  const std::int64_t tile_rows = std::int64_t{block.y} * kDown;
  const std::int64_t cols = ceil_div(p.cols(), tile_cols) * tile_cols;
  const std::int64_t rows = ceil_div(p.rows(), tile_rows) * tile_rows;
  return static_cast<double>(p.images() * rows * cols);
}

template <ImageFilter Routine>
constexpr Variant<Routine> copy_variant() {
  return {.name = "copy",
          .changes = "Copies the same number of bytes with the driver's memcpy.",
          .ceiling = true,
          .run = ADO_RUN([](const Routine& p, const Launch& go) { copy(go, p.out.data, p.gray); })};
}

#ifdef __CUDACC__

// A batch as a kernel parameter. The host computes everything that a block needs to find its tile.
// With one or two pixels per thread, computing this on the device would take as long as the filter
// itself.
struct Batch {
  const std::uint8_t* in;
  std::uint8_t* out;
  const std::uint8_t* end;  // of in
  // Distances in pixels between rows, rows of tiles, and images.
  std::int64_t row_pitch, tile_pitch, image_pitch;
  std::uint32_t images, tiles_down;
  int tile_rows, tile_cols;
  int last_rows, last_cols;  // sizes of the last tiles down and across an image
};

template <int kAcross, int kDown, ImageFilter Routine>
Batch batch_of(const Routine& p, Extent block) {
  const std::int64_t tile_rows = std::int64_t{block.y} * kDown;
  const std::int64_t tile_cols = std::int64_t{block.x} * kAcross;
  const std::int64_t down = ceil_div(p.rows(), tile_rows), across = ceil_div(p.cols(), tile_cols);
  const auto* in = p.gray.template as<const std::uint8_t>();
  return {.in = in,
          .out = p.out.template as<std::uint8_t>(),
          .end = in + pixels_of(p),
          .row_pitch = p.cols(),
          .tile_pitch = tile_rows * p.cols(),
          .image_pitch = p.rows() * p.cols(),
          .images = static_cast<std::uint32_t>(p.images()),  // a launch with more images fails
          .tiles_down = static_cast<std::uint32_t>(down),
          .tile_rows = static_cast<int>(tile_rows),
          .tile_cols = static_cast<int>(tile_cols),
          .last_rows = static_cast<int>(p.rows() - (down - 1) * tile_rows),
          .last_cols = static_cast<int>(p.cols() - (across - 1) * tile_cols)};
}

// Launches a kernel with one block per tile.
template <void (*kKernel)(Batch), int kAcross, int kDown, ImageFilter Routine>
void run_tiles(const Routine& p, const Launch& go) {
  launch(go, kKernel, batch_of<kAcross, kDown>(p, go.block));
}

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

// A view of an image relative to one of its pixels, which is row 0 and column 0. Relative rows and
// columns fit into 32 bits for images of any size, so only pointers take 64 bits.
class ImageView {
 public:
  // A view relative to the first pixel of the calling block's tile.
  explicit __device__ ImageView(const Batch& batch)
      : begin_(batch.in), end_(batch.end), pitch_(batch.row_pitch) {
    const std::uint32_t y = blockIdx.z * gridDim.y + blockIdx.y;
    std::uint32_t tile = y;
    std::int64_t first = 0;
    bool exists = true;
    if (y >= batch.tiles_down) {  // most batches have one image and skip the division
      const std::uint32_t image = y / batch.tiles_down;
      tile = y - image * batch.tiles_down;
      first = image * batch.image_pitch;
      exists = image < batch.images;  // the grid is rounded up
    }
    first += tile * batch.tile_pitch + static_cast<std::int64_t>(blockIdx.x) * batch.tile_cols;
    in_ = batch.in + first;
    out_ = batch.out + first;
    top_ = -limit_tiles(tile) * batch.tile_rows;
    left_ = -limit_tiles(blockIdx.x) * batch.tile_cols;
    bottom_ = limit_tiles(batch.tiles_down - 1 - tile) * batch.tile_rows + batch.last_rows;
    right_ = limit_tiles(gridDim.x - 1 - blockIdx.x) * batch.tile_cols + batch.last_cols;
    if (!exists) bottom_ = top_;
  }

  // A view relative to the pixel `rows` below and `cols` to the right.
  __device__ ImageView moved(int rows, int cols) const {
    ImageView view = *this;
    const std::int64_t pixels = rows * pitch_ + cols;
    view.in_ += pixels;
    view.out_ += pixels;
    view.top_ -= rows;
    view.bottom_ -= rows;
    view.left_ -= cols;
    view.right_ -= cols;
    return view;
  }

  __device__ bool contains_row(int row) const { return row >= top_ && row < bottom_; }
  __device__ bool contains(int row, int col) const {
    return contains_row(row) && col >= left_ && col < right_;
  }

  // A pixel, or 0 outside the image. kReadOnly: loads through the read-only data path.
  template <bool kReadOnly = false>
  __device__ std::uint8_t pixel(int row, int col) const {
    if (!contains(row, col)) return 0;
    const std::uint8_t* from = in_ + row * pitch_ + col;
    return kReadOnly ? __ldg(from) : *from;
  }

  // Two neighbouring pixels, loaded in one access if they are aligned.
  __device__ uchar2 pair(int row, int col) const {
    const std::uint8_t* from = in_ + row * pitch_ + col;
    if (contains(row, col) && contains(row, col + 1) && offset_of(from, 2) == 0)
      return *reinterpret_cast<const uchar2*>(from);
    return {pixel(row, col), pixel(row, col + 1)};
  }

  // Four pixels of a row and their neighbours. Without alignment, each word is extracted from the
  // two aligned words that contain its bytes:
  //
  //   aligned words   | a0 a1 a2 a3 | b0 b1 b2 b3 |
  //   wanted, if it begins 1 byte later:
  //                        [a1 a2 a3   b0]          = __funnelshift_r(a, b, 8 * 1)
  template <Access kAccess>
  __device__ PackedNeighbours packed(int row) const {
    const std::uint8_t* from = in_ + row * pitch_;
    if constexpr (kAccess == Access::kAlignedInside) {
      return {load_word(from - 4), load_word(from), load_word(from + 4)};
    } else if constexpr (kAccess == Access::kUnalignedInside) {
      const int offset = offset_of(from, 4), shift = 8 * offset;
      from -= offset;
      const unsigned here = load_word(from), after = load_word(from + 4);
      return {__funnelshift_r(load_word(from - 4), here, shift),
              __funnelshift_r(here, after, shift),
              __funnelshift_r(after, load_word(from + 8), shift)};
    } else if constexpr (kAccess == Access::kAlignedAtEdge) {
      const auto word = [&](int col) { return contains(row, col) ? load_word(from + col) : 0; };
      return {word(-4), word(0), word(4)};
    } else {
      return {packed_at_edge(row, -4), packed_at_edge(row, 0), packed_at_edge(row, 4)};
    }
  }

  __device__ void store(int row, int col, std::uint8_t value) const {
    if (contains(row, col)) out_[row * pitch_ + col] = value;
  }

  __device__ void store_pair(int row, int col, uchar2 value) const {
    std::uint8_t* to = out_ + row * pitch_ + col;
    if (contains(row, col) && contains(row, col + 1) && offset_of(to, 2) == 0) {
      *reinterpret_cast<uchar2*>(to) = value;
    } else {
      store(row, col, value.x);
      store(row, col + 1, value.y);
    }
  }

  // Stores four packed pixels from column 0 on.
  template <Access kAccess>
  __device__ void store_packed(int row, unsigned value) const {
    std::uint8_t* to = out_ + row * pitch_;
    if constexpr (kAccess == Access::kAlignedInside || kAccess == Access::kAlignedAtEdge) {
      if (kAccess == Access::kAlignedInside || contains(row, 0))
        *reinterpret_cast<unsigned*>(to) = value;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (kAccess == Access::kUnalignedInside || contains(row, i))
          to[i] = static_cast<std::uint8_t>(value >> (8 * i));
    }
  }

  // Calls `visit.operator()<Access>()` with the access that is possible for the tile that starts
  // here, with `halo` rows above and below it.
  template <class Visit>
  __device__ void with_access(int tile_rows, int tile_cols, int halo, Visit visit) const {
    const auto contains_with = [&](int margin) {
      return contains(-halo, -margin) && contains(tile_rows - 1 + halo, tile_cols - 1 + margin);
    };
    if (pitch_ % 4 == 0 && offset_of(in_, 4) == 0 && offset_of(out_, 4) == 0) {
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

 private:
  // Limits a number of tiles so that distances fit into 32 bits. No filter accesses pixels 64 tiles
  // away.
  static __device__ int limit_tiles(std::uint32_t tiles) {
    return static_cast<int>(min(tiles, 64U));
  }

  static __device__ int offset_of(const std::uint8_t* at, int bytes) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(at) % bytes);
  }
  static __device__ unsigned load_word(const std::uint8_t* at) {
    return *reinterpret_cast<const unsigned*>(at);
  }

  __device__ unsigned packed_at_edge(int row, int col) const {
    if (!contains_row(row) || col >= right_ || col + 4 <= left_) return 0;
    const std::uint8_t* from = in_ + row * pitch_ + col;
    const int offset = offset_of(from, 4);
    from -= offset;  // the aligned words around the four pixels
    if (col >= left_ && col + 4 <= right_ && from >= begin_ && from + 8 <= end_)
      return __funnelshift_r(load_word(from), load_word(from + 4), 8 * offset);
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= unsigned{pixel(row, col + i)} << (8 * i);
    return word;
  }

  const std::uint8_t *begin_, *end_;  // of the batch
  const std::uint8_t* in_;
  std::uint8_t* out_;
  std::int64_t pitch_;
  int top_, bottom_, left_, right_;  // rows [top, bottom) and columns [left, right) are the image
};

// The Vector of kCount elements that starts at `first`.
template <int kCount, class T>
__device__ Vector<T, kCount>& vector_at(T& first) {
  return reinterpret_cast<Vector<T, kCount>&>(first);
}

// Loads a tile and its halo, kCols columns wide from `corner` on, into shared memory. The block has
// kBlockRows rows of 32 threads, and each thread loads kLoaded neighbouring pixels at a time. All
// loads are issued before the first value is stored, so that they are in flight together.
template <int kCols, int kBlockRows, int kLoaded = 1, class Number, int kRows, int kPitch>
__device__ void load_tile(const ImageView& corner, Number (&tile)[kRows][kPitch]) {
  constexpr int kBlockCols = 32 * kLoaded;  // in pixels
  constexpr int kDown = (kRows + kBlockRows - 1) / kBlockRows;
  constexpr int kAcross = (kCols + kBlockCols - 1) / kBlockCols;
  const int row = threadIdx.y, col = threadIdx.x * kLoaded;
  const ImageView view = corner.moved(row, col);
  Vector<std::uint8_t, kLoaded> loaded[kDown][kAcross];
  const auto for_each = [&](auto visit) {
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        if (row + i * kBlockRows < kRows && col + j * kBlockCols < kCols) visit(i, j);
  };
  for_each([&](int i, int j) {
    if constexpr (kLoaded == 2) {
      const uchar2 pair = view.pair(i * kBlockRows, j * kBlockCols);
      loaded[i][j] = {pair.x, pair.y};
    } else {
      loaded[i][j] = {view.pixel(i * kBlockRows, j * kBlockCols)};
    }
  });
  for_each([&](int i, int j) {
    Vector<Number, kLoaded> numbers;
#pragma unroll
    for (int k = 0; k < kLoaded; ++k) numbers.at[k] = static_cast<Number>(loaded[i][j].at[k]);
    vector_at<kLoaded>(tile[row + i * kBlockRows][col + j * kBlockCols]) = numbers;
  });
}

#endif

}  // namespace ado::cuda

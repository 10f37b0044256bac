// What the image filters share: batches of one-byte images, the window that a block sees of them,
// and the copy that they are measured by.
#pragma once

#include "common/grid.cuh"

namespace ado::cuda {

// A routine that turns every image `gray` into an image `out` of the same size. Device arrays are
// packed: the images of a batch follow one another without gaps.
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

// A block whose threads have kAcross by kDown pixels each covers a tile. Neighbours in x continue
// the same rows of an image, and in y the images of a batch follow one another.
template <int kAcross, int kDown, ImageFilter Routine>
Extent grid_of_tiles(const Routine& p, Extent block) {
  if (pixels_of(p) == 0) return {};
  return grid_of(ceil_div(p.cols(), std::int64_t{block.x} * kAcross),
                 p.images() * ceil_div(p.rows(), std::int64_t{block.y} * kDown));
}

// What a rung asks of memory whose blocks read `read` bytes for each tile of `tile` pixels.
template <ImageFilter Routine>
double bytes_by_tiles(const Routine& p, double read, double tile) {
  return static_cast<double>(pixels_of(p)) * (read / tile + 1);
}

template <ImageFilter Routine>
constexpr Variant<Routine> copy_row() {
  return {.name = "copy",
          .changes = "The driver's copy of the same bytes.",
          .device = Device::kCuda,
          .ceiling = true,
          .run = ADO_RUN([](const Routine& p, const Launch& go) { copy(go, p.out.data, p.gray); })};
}

#ifdef __CUDACC__

// A batch as kernels take it. Whatever a block needs to find its tile is here, in pixels: with a
// pixel or two a thread, the search would take as long as the work.
struct Batch {
  const std::uint8_t* in;
  std::uint8_t* out;
  const std::uint8_t* end;                          // of in
  std::int64_t row_pitch, tile_pitch, image_pitch;  // from a row, a row of tiles, an image on
  std::uint32_t images, tiles_down;
  int tile_rows, tile_cols;
  int last_rows, last_cols;  // of the last tile down and across an image
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
          .images = static_cast<std::uint32_t>(p.images()),  // with more, the launch fails
          .tiles_down = static_cast<std::uint32_t>(down),
          .tile_rows = static_cast<int>(tile_rows),
          .tile_cols = static_cast<int>(tile_cols),
          .last_rows = static_cast<int>(p.rows() - (down - 1) * tile_rows),
          .last_cols = static_cast<int>(p.cols() - (across - 1) * tile_cols)};
}

// How the threads of a block may read groups of four pixels of their tile and around it.
enum class Reach {
  kWhole,    // all are inside the image and aligned
  kShifted,  // all are inside the image, and so are the aligned words around them
  kWords,    // they are aligned, and inside or outside the image as one
  kBytes,    // nothing is certain
};

// Four pixels and their neighbours in a row, the leftmost pixel of a word in its lowest byte.
struct WordsAround {
  unsigned before, here, after;  // columns -4 to -1, 0 to 3, 4 to 7
};

// An image as seen from one of its pixels: rows and columns count from there. They are small,
// whatever the size of the image; only pointers take 64 bits.
class View {
 public:
  // From the first pixel of the tile of this block.
  explicit __device__ View(const Batch& batch)
      : begin_(batch.in), end_(batch.end), pitch_(batch.row_pitch) {
    const std::uint32_t y = blockIdx.z * gridDim.y + blockIdx.y;
    std::uint32_t tile = y;
    std::int64_t first = 0;
    bool exists = true;
    if (y >= batch.tiles_down) {  // most batches are of one image and spared the division
      const std::uint32_t image = y / batch.tiles_down;
      tile = y - image * batch.tiles_down;
      first = image * batch.image_pitch;
      exists = image < batch.images;  // the grid is rounded up
    }
    first += tile * batch.tile_pitch + static_cast<std::int64_t>(blockIdx.x) * batch.tile_cols;
    in_ = batch.in + first;
    out_ = batch.out + first;
    top_ = -tiles_in_sight(tile) * batch.tile_rows;
    left_ = -tiles_in_sight(blockIdx.x) * batch.tile_cols;
    bottom_ = tiles_in_sight(batch.tiles_down - 1 - tile) * batch.tile_rows + batch.last_rows;
    right_ = tiles_in_sight(gridDim.x - 1 - blockIdx.x) * batch.tile_cols + batch.last_cols;
    if (!exists) bottom_ = top_;
  }

  __device__ View moved(int rows, int cols) const {
    View view = *this;
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

  // A pixel; 0 outside the image. Read-only: by the path that promises that nobody writes.
  template <bool kReadOnly = false>
  __device__ std::uint8_t pixel(int row, int col) const {
    if (!contains(row, col)) return 0;
    const std::uint8_t* from = in_ + row * pitch_ + col;
    return kReadOnly ? __ldg(from) : *from;
  }

  // Two pixels, in one access where they are aligned.
  __device__ uchar2 pair(int row, int col) const {
    const std::uint8_t* from = in_ + row * pitch_ + col;
    if (contains(row, col) && contains(row, col + 1) && offset_of(from, 2) == 0)
      return *reinterpret_cast<const uchar2*>(from);
    return {pixel(row, col), pixel(row, col + 1)};
  }

  template <Reach kReach>
  __device__ WordsAround words(int row) const {
    const std::uint8_t* from = in_ + row * pitch_;
    if constexpr (kReach == Reach::kWhole) {
      return {load_word(from - 4), load_word(from), load_word(from + 4)};
    } else if constexpr (kReach == Reach::kShifted) {
      const int offset = offset_of(from, 4), shift = 8 * offset;
      from -= offset;
      const unsigned here = load_word(from), after = load_word(from + 4);
      return {__funnelshift_r(load_word(from - 4), here, shift),
              __funnelshift_r(here, after, shift),
              __funnelshift_r(after, load_word(from + 8), shift)};
    } else if constexpr (kReach == Reach::kWords) {
      const auto word = [&](int col) { return contains(row, col) ? load_word(from + col) : 0; };
      return {word(-4), word(0), word(4)};
    } else {
      return {word_of_bytes(row, -4), word_of_bytes(row, 0), word_of_bytes(row, 4)};
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

  template <Reach kReach>
  __device__ void store_word(int row, unsigned value) const {
    std::uint8_t* to = out_ + row * pitch_;
    if constexpr (kReach == Reach::kWhole || kReach == Reach::kWords) {
      if (kReach == Reach::kWhole || contains(row, 0)) *reinterpret_cast<unsigned*>(to) = value;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (kReach == Reach::kShifted || contains(row, i))
          to[i] = static_cast<std::uint8_t>(value >> (8 * i));
    }
  }

  // Calls `visit`, a template, with the reach of the tile that begins here and of `halo` rows
  // around it.
  template <class Visit>
  __device__ void with_reach(int tile_rows, int tile_cols, int halo, Visit visit) const {
    const auto contains_with = [&](int margin) {
      return contains(-halo, -margin) && contains(tile_rows - 1 + halo, tile_cols - 1 + margin);
    };
    if (pitch_ % 4 == 0 && offset_of(in_, 4) == 0 && offset_of(out_, 4) == 0) {
      if (contains_with(4))
        visit.template operator()<Reach::kWhole>();
      else
        visit.template operator()<Reach::kWords>();
    } else if (contains_with(8)) {
      visit.template operator()<Reach::kShifted>();
    } else {
      visit.template operator()<Reach::kBytes>();
    }
  }

 private:
  // So many tiles or, if they are many, enough to be out of any filter's sight.
  static __device__ int tiles_in_sight(std::uint32_t tiles) {
    return static_cast<int>(min(tiles, 64U));
  }

  static __device__ int offset_of(const std::uint8_t* at, int bytes) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(at) % bytes);
  }
  static __device__ unsigned load_word(const std::uint8_t* at) {
    return *reinterpret_cast<const unsigned*>(at);
  }

  __device__ unsigned word_of_bytes(int row, int col) const {
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

// kSize neighbours, the first of which is `first`, as what one access moves.
template <class T, int kSize>
struct alignas(sizeof(T) * kSize) Pack {
  T at[kSize];
};
template <int kSize, class T>
__device__ Pack<T, kSize>& pack_at(T& first) {
  return reinterpret_cast<Pack<T, kSize>&>(first);
}

// Brings a tile and what lies around it, kCols columns from those of `corner` on, to shared memory.
// The block has kLines lines of 32 threads; each loads kLoaded neighbours at a time. All loads are
// under way before the first is waited for.
template <int kCols, int kLines, int kLoaded = 1, bool kReadOnly = false, class Number, int kRows,
          int kPitch>
__device__ void load_tile(const View& corner, Number (&tile)[kRows][kPitch]) {
  constexpr int kStep = 32 * kLoaded;
  constexpr int kDown = (kRows + kLines - 1) / kLines, kAcross = (kCols + kStep - 1) / kStep;
  const int row = threadIdx.y, col = threadIdx.x * kLoaded;
  const View view = corner.moved(row, col);
  Pack<std::uint8_t, kLoaded> loaded[kDown][kAcross];
  const auto for_each = [&](auto visit) {
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        if (row + i * kLines < kRows && col + j * kStep < kCols) visit(i, j);
  };
  for_each([&](int i, int j) {
    if constexpr (kLoaded == 2) {
      const uchar2 pair = view.pair(i * kLines, j * kStep);
      loaded[i][j] = {pair.x, pair.y};
    } else {
      loaded[i][j] = {view.pixel<kReadOnly>(i * kLines, j * kStep)};
    }
  });
  for_each([&](int i, int j) {
    Pack<Number, kLoaded> numbers;
#pragma unroll
    for (int k = 0; k < kLoaded; ++k) numbers.at[k] = static_cast<Number>(loaded[i][j].at[k]);
    pack_at<kLoaded>(tile[row + i * kLines][col + j * kStep]) = numbers;
  });
}

#endif

}  // namespace ado::cuda

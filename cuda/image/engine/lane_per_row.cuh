// Engine: narrow images, in which each lane processes a piece of several rows.
#pragma once

#include "image/sliding_window.cuh"

namespace ado::cuda {

// ---- lane_per_row -------------------------------------------------------------------------------
// In an image of a few dozen columns, most lanes of the sliding window have no pixels. Here, a
// block copies its rows to shared memory as contiguous bytes. Then each lane processes 16 columns
// of a strip of neighbouring rows, with the stages of the sliding window. Results are stored to
// shared memory, too, and are copied to the image as 16-byte vectors.
//
//   shared memory   | row 0 | row 1 | ... | row h-1 | row h | row h+1 | ...
//                   | strip of lanes 0, 1, ...      | strip of further lanes ...
//
// The last two pieces of a row overlap if the number of columns is not a multiple of 16.
inline constexpr Extent kStripBlock{128};
inline constexpr int kStripThreads = kStripBlock.x;

inline constexpr int kPieceWords = 4, kPieceCols = 4 * kPieceWords;
// A piece that does not begin at column 0 needs one word of pixels to its left.
inline constexpr int kMinLaneCols = kPieceCols + 4, kMaxLaneCols = 256;

// Strips of `height` rows in images of `cols` columns; variants decline images of more than
// kMaxLaneCols. `down`: strips per image. A block processes `per_block` strips and `pieces` pieces
// of each.
struct Strips {
  std::int64_t images, rows, down;
  int cols, height, pieces, per_block;

  ADO_HOST_DEVICE std::int64_t all() const { return images * down; }
};

// Strips, and thus lanes, that keep all multiprocessors busy.
inline constexpr MeasuredOnH200 kManyStrips{1 << 16};

// With high strips, fewer rows above and below strips are loaded. With low strips, more blocks fit
// in shared memory.
inline constexpr int kStripRows = 12;  // H100, 2026

// Small images have low strips, and therefore more strips. The strips of neighbouring lanes
// should begin in different banks: at a distance of an odd number of words.
template <class Routine>
Strips strips_of(const Routine& p, const Hardware& gpu) {
  constexpr int kMinRows = 4;
  Strips s{.images = p.images(),
           .rows = p.rows(),
           .down = 0,
           .cols = static_cast<int>(std::min<std::int64_t>(p.cols(), kMaxLaneCols)),
           .height = 0,
           .pieces = 1,
           .per_block = kStripThreads};
  if (s.images == 0 || s.rows == 0 || s.cols == 0) return s;
  const auto fits = [&](int h) { return h * s.cols % 8 == 4 || (s.cols % 8 == 0 && h % 2 == 1); };
  s.pieces = (s.cols + kPieceCols - 1) / kPieceCols;
  s.per_block = kStripThreads / s.pieces;
  s.height = static_cast<int>(std::clamp<std::int64_t>(
      s.images * s.rows * s.pieces / std::max<std::int64_t>(kManyStrips.on(gpu), 1), kMinRows,
      kStripRows));
  while (s.height > kMinRows && !fits(s.height)) --s.height;
  while (s.height < kStripRows && !fits(s.height)) ++s.height;
  if (s.height > s.rows) s.height = static_cast<int>(s.rows);
  s.down = ceil_div(s.rows, s.height);
  return s;
}

// Shared memory of a block: the rows of all strips, including the rows above and below them, and
// the results. Lanes also read bytes before the first and after the last row, but do not use them.
struct StripMemory {
  int before, rows_bytes, result_bytes;

  ADO_HOST_DEVICE StripMemory(const Strips& s, int radius)
      : before(whole_vectors(radius * s.cols)),
        rows_bytes(before + whole_vectors((s.per_block * s.height + 2 * radius + 4) * s.cols)),
        result_bytes(whole_vectors(s.per_block * s.height * s.cols)) {}

 private:
  // The first byte may have any position within a vector, and lanes read up to 12 bytes more.
  ADO_HOST_DEVICE static int whole_vectors(int bytes) {
    return (bytes + 3 * kVectorBytes) / kVectorBytes * kVectorBytes;
  }
};

template <class Routine>
const char* why_not_lanes(const Routine& p) {
  return p.cols() < kMinLaneCols || p.cols() > kMaxLaneCols
             ? "images have fewer than 20 or more than 256 columns"
             : nullptr;
}

template <class Routine>
Extent strip_grid(const Routine& p, Extent, const Hardware& gpu) {
  const Strips s = strips_of(p, gpu);
  return grid_of(ceil_div(s.all(), s.per_block), 1);
}

template <class Routine>
std::size_t strip_shared_bytes(const Routine& p, Extent, const Hardware& gpu) {
  const StripMemory memory(strips_of(p, gpu), Routine::kHalo);
  return static_cast<std::size_t>(memory.rows_bytes + memory.result_bytes);
}

template <class Routine>
const char* why_lanes_slower(const Routine& p) {
  constexpr std::int64_t kMaxColsOfWords = 64;  // H100, 2026
  const RowStart start = row_start_of(p);
  return start == RowStart::kVectors || (start == RowStart::kWords && p.cols() > kMaxColsOfWords)
             ? "rows are aligned and wide enough for several lanes"
             : nullptr;
}

#ifdef __CUDACC__

// The strip of a lane. Rows are relative to the first row of the strip.
struct Strip {
  int top, loaded;           // rows -top to loaded - 1 are inside the image
  int height;                // number of rows that are stored
  const std::uint8_t* from;  // the first byte of row 0, in shared memory
  std::uint8_t* to;          // the first result of row 0, in shared memory

  __device__ bool has(int row) const { return row >= -top && row < loaded; }
};

// Processes the strip of a lane that has 16 columns.
template <class Stage>
__device__ void process_piece(const Strip& strip, int cols, int col, int height, Stage stage) {
  constexpr int kRadius = Stage::kRadius;
  const std::uint8_t* from = strip.from + col - 4 - kRadius * cols;
  std::uint8_t* to = strip.to + col - 2 * kRadius * cols;
  const unsigned left = col == 0 ? 0 : 0xffffffff, right = first_pixels(cols - col - kPieceCols);
#pragma unroll 1
  for (int base = -kRadius; base < height + kRadius; base += 2) {
#pragma unroll
    for (int step = 0; step < 2; ++step, from += cols, to += cols) {
      const unsigned inside = strip.has(base + step) ? 0xffffffff : 0;
      const auto* const words = reinterpret_cast<const unsigned*>(from - low_bits(from) % 4);
      PixelsAround<kPieceWords> pixels;
#pragma unroll
      for (int w = 0; w < kPieceWords + 2; ++w)
        pixels.at[w] = __funnelshift_r(words[w], words[w + 1], 8 * low_bits(from)) & inside;
      pixels.at[0] &= left;
      pixels.at[kPieceWords + 1] &= right;
      const PackedPixels<kPieceWords> result = stage.push(step, pixels);
      const int row = base + step - kRadius;
      if (row < 0 || row >= strip.height) continue;
#pragma unroll
      for (int i = 0; i < kPieceCols; ++i)
        to[i] = static_cast<std::uint8_t>(result.at[i / 4] >> (8 * (i % 4)));
    }
  }
}

template <class Stage>
__global__ void __launch_bounds__(kStripThreads)
    lane_per_row(const std::uint8_t* in, std::uint8_t* out, Strips strips,
                 typename Stage::Options options) {
  constexpr int kRadius = Stage::kRadius;
  extern __shared__ uint4 shared[];
  const int cols = strips.cols;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t all_rows = strips.images * strips.rows;
  // Rows are counted across images. The block stores rows [first, last) and loads [begin, end).
  const auto first_row = [&](std::int64_t strip) {
    if (strip >= strips.all()) return all_rows;
    const std::int64_t image = divide(strip, strips.down);
    return image * strips.rows + (strip - image * strips.down) * strips.height;
  };
  const std::int64_t first_strip = block_x() * strips.per_block;
  const std::int64_t first = first_row(first_strip),
                     last = first_row(first_strip + strips.per_block);
  const std::int64_t begin = max(first - kRadius, std::int64_t{0}),
                     end = min(last + kRadius, all_rows);

  // The tile begins with an aligned vector. Bytes after the end of the array are not read.
  const StripMemory memory(strips, kRadius);
  auto* const tile = reinterpret_cast<std::uint8_t*>(shared) + memory.before;
  const std::uint8_t* const from = in + begin * cols;
  const int in_offset = static_cast<int>(low_bits(from) % kVectorBytes);
  const int in_bytes = static_cast<int>((end - begin) * cols) + in_offset;
#pragma unroll 4
  for (int i = thread * kVectorBytes; i + kVectorBytes <= in_bytes;
       i += kStripThreads * kVectorBytes)
    copy_vector_async(shared_address(tile + i), from - in_offset + i, kVectorBytes);
  const int tail = in_bytes / kVectorBytes * kVectorBytes + thread;
  if (tail >= in_offset && tail < in_bytes) tile[tail] = from[tail - in_offset];
  std::uint8_t* const results = reinterpret_cast<std::uint8_t*>(shared) + memory.rows_bytes;
  std::uint8_t* const to = out + first * cols;
  const int out_offset = static_cast<int>(low_bits(to) % kVectorBytes);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();

  // The strips of neighbouring lanes are neighbours.
  const int piece = thread / strips.per_block;
  const std::int64_t strip = first_strip + thread - piece * strips.per_block;
  if (strip < strips.all() && piece < strips.pieces) {
    const std::int64_t row = first_row(strip);
    const std::int64_t image = divide(strip, strips.down);
    const int below = clamp_distance((image + 1) * strips.rows - row);
    const Strip own{.top = clamp_distance(row - image * strips.rows),
                    .loaded = below,
                    .height = min(strips.height, below),
                    .from = tile + in_offset + static_cast<int>(row - begin) * cols,
                    .to = results + out_offset + static_cast<int>(row - first) * cols};
    const int col = min(piece * kPieceCols, cols - kPieceCols);
    process_piece(own, cols, col, strips.height, Stage(1, options));
  }
  __syncthreads();

  // Whole vectors, then the bytes before and after them.
  const int out_end = out_offset + static_cast<int>(last - first) * cols;
  const int whole_begin = (out_offset + kVectorBytes - 1) / kVectorBytes,
            whole_end = out_end / kVectorBytes;
  auto* const stored = reinterpret_cast<uint4*>(to - out_offset);
#pragma unroll 4
  for (int i = whole_begin + thread; i < whole_end; i += kStripThreads)
    stored[i] = reinterpret_cast<const uint4*>(results)[i];
  const int before = min(whole_begin * kVectorBytes, out_end);
  if (out_offset + thread < before) to[thread] = results[out_offset + thread];
  const int after = max(whole_end * kVectorBytes, before) + thread;
  if (after < out_end) to[after - out_offset] = results[after];
}

template <class Stage, class Routine>
void run_strips(const Routine& p, const Launch& go) {
  launch(go, lane_per_row<Stage>, p.gray.template as<const std::uint8_t>(),
         p.out.template as<std::uint8_t>(), strips_of(p, go.hardware), {});
}

#endif

template <class Routine>
constexpr Variant<Routine> lane_per_row_row(decltype(Variant<Routine>::why_not) why_not,
                                            decltype(Variant<Routine>::run) run) {
  return {
      .name = "lane_per_row",
      .changes = {"Assigns 16 columns of narrow images to each lane; blocks copy contiguous bytes.",
                  Step::kCoalescing, Step::kOperations},
      .why_not = why_not,
      .blocks = {{kStripBlock}},
      .grid = strip_grid<Routine>,
      .shared_bytes = strip_shared_bytes<Routine>,
      .run = run};
}

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

// Engine: narrow images, in which each lane processes whole rows or pieces of rows.
#pragma once

#include <bit>

#include "image/sliding_window.cuh"

namespace ado::cuda {

// ---- lane_per_row -------------------------------------------------------------------------------
// In an image of three columns, a lane of the sliding window copies 16 bytes per row, but only
// three of them belong to the row. Here, a block copies its rows to shared memory as contiguous
// bytes. Then each lane processes a strip of neighbouring rows, with the stages of the sliding
// window. Results are stored to shared memory, too, and are copied to the image as 16-byte vectors.
//
//   shared memory   | row 0 | row 1 | ... | row h-1 | row h | row h+1 | ...
//                   | strip of lane 0               | strip of lane 1 ...
//
// Up to kMaxRowCols columns, a lane has all columns of a row. The number of columns is a constant
// of the kernel, so the position of a row in its words is a constant, too: four rows of n bytes
// have n words, and a lane loads and stores these words, without the bytes of other strips.
//
//   four rows of 5 pixels   | a a a a | a b b b | b b c c | c c c d | d d d d |
//
// Wider rows are divided into pieces of 16 columns. The last two pieces overlap if the number of
// columns is not a multiple of 16.
inline constexpr Extent kStripBlock{128};
inline constexpr int kStripThreads = kStripBlock.x;

inline constexpr int kMaxRowCols = 24;    // columns in the registers of a lane
inline constexpr int kMaxLaneCols = 256;  // columns of images that are divided into pieces
inline constexpr int kPieceWords = 4, kPieceCols = 4 * kPieceWords;
inline constexpr int kLineWords = 8;  // per stage, for images of one column
inline constexpr int kGroupRows = 4;  // rows that a lane with whole rows processes at a time

// Words per lane. A power of two, for PackedPixels; the compiler removes words that are not used.
template <int kCols>
inline constexpr int kRowWords = kCols > 1    ? std::bit_ceil((kCols + 3U) / 4)
                                 : kCols == 1 ? kLineWords
                                              : kPieceWords;

// Calls `visit` with the number of columns as a constant, or with 0 above kMaxCols columns.
template <int kMaxCols, int kCols = 1, class Visit>
void with_row_cols(int cols, const Visit& visit) {
  if constexpr (kCols > kMaxCols)
    visit(std::integral_constant<int, 0>{});
  else if (cols <= kCols)
    visit(std::integral_constant<int, kCols>{});
  else
    with_row_cols<kMaxCols, kCols + 1>(cols, visit);
}

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

template <class Routine>
int channels_of(const Routine& p) {
  if constexpr (requires { p.channels(); })
    return p.channels();
  else
    return 1;
}

// With high strips, fewer rows above and below strips are loaded. With low strips, more blocks fit
// in shared memory. kStripBytes: size of a strip and its results. kStripRows: height of strips of
// wide rows.
inline constexpr int kStripBytes = 420, kStripRows = 12, kMaxStripRows = 50;  // H100, 2026

// Small images have low strips, and therefore more strips. The strips of neighbouring lanes
// should begin in different banks: at a distance of an odd number of words, if strips have one
// column or pieces. Lanes with whole rows process kGroupRows rows at a time. Heights that fill the
// last group are preferred, unless all strips then begin at multiples of 32 bytes. This holds for
// the lowest strips as well: at 300000 x 8 pixels of four channels, strips of 4 rows, which all
// begin in the same bank, take longer than strips of 7 rows at 700000 x 8 (42 and 32 us, H100,
// 2026).
template <class Routine>
Strips strips_of(const Routine& p, const Hardware& gpu) {
  constexpr int kHalo = 2 * Routine::kHalo, kMinRows = 4, kBadBytes = 32;
  Strips s{.images = p.images(),
           .rows = p.rows(),
           .down = 0,
           .cols = static_cast<int>(std::min<std::int64_t>(p.cols(), kMaxLaneCols)),
           .height = 0,
           .pieces = 1,
           .per_block = kStripThreads};
  if (s.images == 0 || s.rows == 0 || s.cols == 0) return s;
  if (s.rows == 1) {  // the same as one column
    s.rows = p.cols();
    s.cols = 1;
  }
  const int row_bytes = s.cols * channels_of(p);
  const int step = kHalo % kGroupRows == 0 ? kGroupRows : kGroupRows / 2;
  const bool odd = row_bytes * step % kBadBytes == 0;
  const auto fits = [&](int h) {
    if (s.cols == 1) return h % kPieceCols == kPieceCols - 4;
    if (s.cols > kMaxRowCols) return h * s.cols % 8 == 4 || (s.cols % 8 == 0 && h % 2 == 1);
    return odd ? (h + 1 + kHalo) % kGroupRows == 0
               : (h + kHalo) % kGroupRows == 0 && h * row_bytes % kBadBytes != 0;
  };
  if (s.cols > kMaxRowCols) {
    s.pieces = (s.cols + kPieceCols - 1) / kPieceCols;
    s.per_block = kStripThreads / s.pieces;
  }
  const int usual = std::clamp(kStripBytes / (row_bytes + s.cols), kStripRows,
                               s.cols > 1 ? kMaxStripRows : kStripBytes);
  s.height = static_cast<int>(std::clamp<std::int64_t>(
      s.images * s.rows * s.pieces / std::max<std::int64_t>(kManyStrips.on(gpu), 1), kMinRows,
      usual));
  while (s.height > kMinRows && !fits(s.height)) --s.height;
  while (s.cols > 1 && s.height < usual && !fits(s.height)) ++s.height;
  if (s.height > s.rows) s.height = static_cast<int>(s.rows);
  s.down = ceil_div(s.rows, s.height);
  return s;
}

// Shared memory of a block: the rows of all strips, including the rows above and below them, and
// the results. Lanes also read bytes before the first and after the last row, but do not use them.
struct StripMemory {
  int before, rows_bytes, result_bytes;

  ADO_HOST_DEVICE StripMemory(const Strips& s, int radius, int channels)
      : before(whole_vectors(radius * s.cols * channels)),
        rows_bytes(before + whole_vectors((s.per_block * s.height + 2 * radius +
                                           (s.cols == 1 ? kPieceCols + 4 : 4)) *
                                          s.cols * channels)),
        result_bytes(whole_vectors(s.per_block * s.height * s.cols)) {}

 private:
  // The first byte may have any position within a vector, and lanes read up to 12 bytes more.
  ADO_HOST_DEVICE static int whole_vectors(int bytes) {
    return (bytes + 3 * kVectorBytes) / kVectorBytes * kVectorBytes;
  }
};

template <class Routine>
const char* why_not_lanes(const Routine& p) {
  return p.cols() > kMaxLaneCols && p.rows() > 1 ? "images have more than 256 columns" : nullptr;
}

template <class Routine>
Extent strip_grid(const Routine& p, Extent, const Hardware& gpu) {
  const Strips s = strips_of(p, gpu);
  return grid_of(ceil_div(s.all(), s.per_block), 1);
}

template <class Routine>
std::size_t strip_shared_bytes(const Routine& p, Extent, const Hardware& gpu) {
  const StripMemory memory(strips_of(p, gpu), Routine::kHalo, channels_of(p));
  return static_cast<std::size_t>(memory.rows_bytes + memory.result_bytes);
}

template <class Routine>
const char* why_strips_do_not_fit(const Routine& p, const Hardware& gpu) {
  const auto shared = strip_shared_bytes(p, {}, gpu);
  return gpu.shared_bytes != 0 && static_cast<std::int64_t>(shared) > gpu.shared_bytes
             ? "the device has too little shared memory for the strips"
             : nullptr;
}

template <class Routine>
const char* why_lanes_slower(const Routine& p, const Hardware& gpu) {
  constexpr std::int64_t kMaxColsOfWords = 64;  // H100, 2026
  const RowStart start = row_start_of(p);
  if (p.rows() > 1 && p.cols() > (start == RowStart::kBytes   ? kMaxLaneCols
                                  : start == RowStart::kWords ? kMaxColsOfWords
                                                              : kMaxRowCols))
    return "rows are aligned and wide enough for several lanes";
  return why_strips_do_not_fit(p, gpu);
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

// Four bytes of consecutive words, from byte `first` on.
template <int kCount>
__device__ unsigned four_bytes(const unsigned (&words)[kCount], int first) {
  const int word = first / 4, next = word + 1 < kCount ? word + 1 : word;
  return first % 4 == 0 ? words[word] : __funnelshift_r(words[word], words[next], 8 * (first % 4));
}

// Four gray pixels, from pixel `first` of consecutive words on. Only `count` of them are needed.
template <int kChannels, int kCount>
__device__ unsigned four_gray(const unsigned (&words)[kCount], int first, int count = 4) {
  if constexpr (kChannels == 1) {
    return four_bytes(words, first);
  } else {
    unsigned of[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int byte = (first + i) * kChannels;
      of[i] = i >= count      ? 0
              : byte % 4 == 1 ? luminance<1>(words[byte / 4])
                              : luminance(four_bytes(words, byte));
    }
    return pack(of[0], of[1], of[2], of[3]);
  }
}

// Pushes a row of pixels. `mask(behind, word)`: the pixels of a word that are inside the image, in
// the row that is `behind` rows behind. Two filters need it between them.
template <int kChannels, class Stage, int kWords, class Mask>
__device__ PackedPixels<kWords> push_row(Stage& stage, int step, const PixelsAround<kWords>& row,
                                         const Mask& mask) {
  if constexpr (kChannels == 1)
    return stage.push(step, row);
  else
    return stage.push(step, row, [&](PackedPixels<kWords>& between, int behind) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) between.at[w] &= mask(behind, w);
    });
}

// Processes the strip of a lane that has whole rows, four at a time.
template <int kCols, int kChannels, class Stage>
class WholeRows {
  static constexpr int kRadius = Stage::kRadius;
  static constexpr int kWords = kRowWords<kCols>, kUsed = (kCols + 3) / 4;
  using Row = PackedPixels<kWords>;

 public:
  static __device__ void process(const Strip& strip, int height, Stage stage) {
    const std::uint8_t* const first = strip.from - kRadius * kCols * kChannels;
    std::uint8_t* to = strip.to - 2 * kRadius * kCols;
    const unsigned in = low_bits(first) % 4, out = low_bits(to) % 4;
    const auto* from = reinterpret_cast<const unsigned*>(first - in);
    unsigned next = *from, before = 0;
#pragma unroll 1
    for (int base = -kRadius; base < height + kRadius;
         base += kGroupRows, to += kGroupRows * kCols) {
      unsigned bytes[kCols * kChannels];
#pragma unroll
      for (int w = 0; w < kCols * kChannels; ++w) {
        const unsigned last = next;
        next = *++from;
        bytes[w] = __funnelshift_r(last, next, 8 * in);
      }
      Row results[kGroupRows];
#pragma unroll
      for (int i = 0; i < kGroupRows; ++i) {
        const auto mask = [&](int behind, int word) {
          return strip.has(base + i - behind) ? first_pixels(kCols - 4 * word) : 0;
        };
        PixelsAround<kWords> row = {};
#pragma unroll
        for (int w = 0; w < kUsed; ++w)
          row.at[w + 1] =
              four_gray<kChannels>(bytes, i * kCols + 4 * w, kCols - 4 * w) & mask(0, w);
        results[i] = push_row<kChannels>(stage, i, row, mask);
      }
      // Bytes are stored at the ends of the strip, and words in between.
      const int row = base - kRadius;
      const bool words = row >= 0 && row + kGroupRows <= strip.height &&
                         (out == 0 || (row > 0 && row + kGroupRows < strip.height));
      if (!words) store_bytes(strip, row, to, before, out, results);
#pragma unroll
      for (int w = 0; w < kCols; ++w) {
        const unsigned now = packed(results, 4 * w);
        if (words) reinterpret_cast<unsigned*>(to - out)[w] = __funnelshift_l(before, now, 8 * out);
        before = now;
      }
    }
  }

 private:
  // Stores the rows that are inside the strip. Also stores the last `out` bytes of the rows before
  // them, because no complete word has stored these bytes.
  static __device__ void store_bytes(const Strip& strip, int row, std::uint8_t* to, unsigned before,
                                     int out, const Row (&rows)[kGroupRows]) {
#pragma unroll
    for (int i = 1; i < 4; ++i)
      if (row > 0 && row < strip.height && i <= out)
        to[-i] = static_cast<std::uint8_t>(before >> (8 * (4 - i)));
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i)
      if (row + i >= 0 && row + i < strip.height)
#pragma unroll
        for (int col = 0; col < kCols; ++col)
          to[i * kCols + col] = static_cast<std::uint8_t>(rows[i].at[col / 4] >> (8 * (col % 4)));
  }

  // Four bytes of consecutive rows, from byte `first` on.
  static __device__ unsigned packed(const Row (&rows)[kGroupRows], int first) {
    constexpr unsigned kAppended[] = {0, 0x6540, 0x5410, 0x4210};  // to the first bytes of a word
    unsigned word = four_bytes(rows[first / kCols].at, first % kCols);
#pragma unroll
    for (int row = 1; row < kGroupRows; ++row) {
      const int filled = row * kCols - first % kCols;
      if (filled < 4) word = __byte_perm(word, rows[first / kCols + row].at[0], kAppended[filled]);
    }
    return word;
  }
};

// Processes a strip of pixels that are neighbours in memory, without pixels to their left or right:
// a part of an image of one column. The filters are symmetric, so this is also a part of an image
// of one row. Of the 32 pixels of a stage, the 16 in the middle are stored, and the words around
// them are the halo. The compiler removes the other words.
template <int kChannels, class Stage>
__device__ void process_line(const Strip& strip, int height, typename Stage::Options options) {
  constexpr int kWords = kLineWords, kHalo = 1, kLoaded = kPieceWords + 2 * kHalo;
  constexpr int kBefore = (kWords - kPieceWords) / 2;  // words before the middle
  const std::uint8_t* const first = strip.from - 4 * kHalo * kChannels;
  const auto* from = reinterpret_cast<const unsigned*>(first - low_bits(first) % 4);
  const bool aligned = low_bits(strip.to) % 4 == 0;
#pragma unroll 1
  for (int base = 0; base < height; base += kPieceCols, from += kPieceWords * kChannels) {
    unsigned bytes[kLoaded * kChannels];
#pragma unroll
    for (int w = 0; w < kLoaded * kChannels; ++w)
      bytes[w] = __funnelshift_r(from[w], from[w + 1], 8 * low_bits(first));
    const bool inside =
        base - 4 * kHalo >= -strip.top && base + 4 * (kLoaded - kHalo) <= strip.loaded;
    const auto inside_line = [&](int word) {
      const int pixel = base + 4 * (word - kBefore);
      return inside ? 0xffffffff
                    : first_pixels(strip.loaded - pixel) & ~first_pixels(-strip.top - pixel);
    };
    PixelsAround<kWords> row = {};
#pragma unroll
    for (int w = 0; w < kLoaded; ++w) {
      const int word = w + kBefore - kHalo;
      row.at[word + 1] = four_gray<kChannels>(bytes, 4 * w) & inside_line(word);
    }
    Stage stage(1, options);
    PackedPixels<kWords> result = {};
#pragma unroll
    for (int i = 0; i <= Stage::kRadius; ++i) {
      result = push_row<kChannels>(
          stage, i, row, [&](int behind, int word) { return behind == i ? inside_line(word) : 0; });
      row = {};
    }
    std::uint8_t* const to = strip.to + base;
#pragma unroll
    for (int w = 0; w < kPieceWords; ++w) {
      const unsigned pixels = result.at[kBefore + w];
      if (aligned && base + 4 * w + 4 <= strip.height) {
        reinterpret_cast<unsigned*>(to)[w] = pixels;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (base + 4 * w + i < strip.height)
            to[4 * w + i] = static_cast<std::uint8_t>(pixels >> (8 * i));
      }
    }
  }
}

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

// kCols: as in with_row_cols.
template <int kCols, int kChannels, class Stage>
__global__ void __launch_bounds__(kStripThreads)
    lane_per_row(const std::uint8_t* in, std::uint8_t* out, Strips strips,
                 typename Stage::Options options) {
  constexpr int kRadius = Stage::kRadius;
  extern __shared__ uint4 shared[];
  const int cols = kCols > 0 ? kCols : strips.cols, row_bytes = cols * kChannels;
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
  const StripMemory memory(strips, kRadius, kChannels);
  auto* const tile = reinterpret_cast<std::uint8_t*>(shared) + memory.before;
  const std::uint8_t* const from = in + begin * row_bytes;
  const int in_offset = static_cast<int>(low_bits(from) % kVectorBytes);
  const int in_bytes = static_cast<int>((end - begin) * row_bytes) + in_offset;
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
  const int piece = kCols > 0 ? 0 : thread / strips.per_block;
  const std::int64_t strip = first_strip + thread - piece * strips.per_block;
  if (strip < strips.all() && piece < strips.pieces) {
    const std::int64_t row = first_row(strip);
    const std::int64_t image = divide(strip, strips.down);
    const int below = clamp_distance((image + 1) * strips.rows - row);
    const Strip own{.top = clamp_distance(row - image * strips.rows),
                    .loaded = below,
                    .height = min(strips.height, below),
                    .from = tile + in_offset + static_cast<int>(row - begin) * row_bytes,
                    .to = results + out_offset + static_cast<int>(row - first) * cols};
    if constexpr (kCols == 1) {
      process_line<kChannels, Stage>(own, strips.height, options);
    } else if constexpr (kCols > 0) {
      WholeRows<kCols, kChannels, Stage>::process(own, strips.height, Stage(1, options));
    } else {
      const int col = min(piece * kPieceCols, cols - kPieceCols);
      process_piece(own, cols, col, strips.height, Stage(1, options));
    }
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

// Launches lane_per_row for images of kChannels channels. Lanes have up to kMaxCols columns.
template <int kChannels, int kMaxCols, template <int> class Stage, class Routine>
void run_strips(const Routine& p, const Array& in, const Launch& go) {
  const Strips strips = strips_of(p, go.hardware);
  with_row_cols<kMaxCols>(strips.cols, [&](auto cols) {
    if constexpr (cols > 0 || kChannels == 1)  // colour images are not divided into pieces
      launch(go, lane_per_row<cols, kChannels, Stage<kRowWords<cols>>>, in.as<const std::uint8_t>(),
             p.out.template as<std::uint8_t>(), strips, {});
  });
}

#endif

template <class Routine>
constexpr Variant<Routine> lane_per_row_row(decltype(Variant<Routine>::why_not) why_not,
                                            decltype(Variant<Routine>::run) run) {
  return {
      .name = "lane_per_row",
      .changes = {"Assigns whole rows of narrow images to each lane; blocks copy contiguous bytes.",
                  Step::kCoalescing, Step::kOperations},
      .why_not = why_not,
      .blocks = {{kStripBlock}},
      .grid = strip_grid<Routine>,
      .shared_bytes = strip_shared_bytes<Routine>,
      .run = run};
}

// -------------------------------------------------------------------------------------------------

}  // namespace ado::cuda

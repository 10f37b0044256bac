// Engine: narrow images of one channel, in which each lane processes whole rows.
//
// In an image of three columns, a lane of the sliding window copies 16 bytes per row, but only
// three of them belong to the row. Here, a block copies its rows to shared memory as contiguous
// bytes. Then each lane processes a strip of neighbouring rows, with the stages of the sliding
// window. A lane has all columns of a row, so it needs no pixels of other lanes. With strips of h
// rows:
//
//   shared memory   | row 0 | row 1 | ... | row h-1 | row h | row h+1 | ...
//                   | strip of lane 0               | strip of lane 1 ...
//
// Results are stored to shared memory, too, and are copied to the image as 16-byte vectors.
#pragma once

#include "image/sliding_window.cuh"

namespace ado::cuda {

inline constexpr Extent kStripBlock{128};
inline constexpr int kStripThreads = kStripBlock.x;

inline constexpr std::int64_t kMaxLaneCols = 32;  // columns in the registers of a lane

// Calls `visit` with the number of words of a row as a constant.
template <class Visit>
auto with_row_words(std::int64_t cols, Visit visit) {
  return cols <= 4    ? visit(std::integral_constant<int, 1>{})
         : cols <= 8  ? visit(std::integral_constant<int, 2>{})
         : cols <= 16 ? visit(std::integral_constant<int, 4>{})
                      : visit(std::integral_constant<int, 8>{});
}

// Strips of `height` rows in images of `cols` columns. `down`: strips per image.
struct Strips {
  std::int64_t images, rows, down;
  int cols, height;

  ADO_HOST_DEVICE std::int64_t all() const { return images * down; }
};

// Strips, and thus lanes, that keep all multiprocessors busy.
inline constexpr MeasuredOnH200 kManyStrips{1 << 16};

// With high strips, fewer rows above and below strips are loaded. With low strips, blocks need less
// shared memory, and small images have more strips. The bytes per strip were tuned on an H200.
template <class Routine>
int max_strip_rows(const Routine& p, const Hardware& gpu) {
  constexpr std::int64_t kMinRows = 4;
  const auto cols = static_cast<int>(p.cols());
  const int bytes = std::max(std::clamp(20 * cols, 90, 200), 12 * cols);
  return static_cast<int>(std::clamp<std::int64_t>(
      p.images() * p.rows() / std::max<std::int64_t>(kManyStrips.on(gpu), 1), kMinRows,
      std::max<std::int64_t>(bytes / cols, kMinRows)));
}

// The strips of neighbouring lanes begin in different banks if the distance between them is an odd
// number of words.
template <class Routine>
Strips strips_of(const Routine& p, const Hardware& gpu) {
  Strips s{.images = p.images(),
           .rows = p.rows(),
           .down = 0,
           .cols = static_cast<int>(p.cols()),
           .height = 0};
  if (s.images == 0 || s.rows == 0 || s.cols == 0) return s;
  const int most = max_strip_rows(p, gpu);
  s.height = most;
  for (int h = most; h > std::max(most - 8, 0); --h)
    if (h * s.cols % 8 == 4 || (s.cols % 8 == 0 && h % 2 == 1)) {
      s.height = h;
      break;
    }
  if (s.height > s.rows) s.height = static_cast<int>(s.rows);
  s.down = ceil_div(s.rows, s.height);
  return s;
}

// Shared memory of a block: the rows of all strips, including the rows above and below them, and
// the results. A lane reads whole words, which may end after the last row.
template <int kWords>
struct StripMemory {
  int rows_bytes, result_bytes;

  ADO_HOST_DEVICE StripMemory(const Strips& s, int radius)
      : rows_bytes(
            whole_vectors((kStripThreads * s.height + 2 * radius) * s.cols + 4 * kWords + 8)),
        result_bytes(whole_vectors(kStripThreads * s.height * s.cols)) {}

 private:
  // The first byte may have any position within a vector.
  ADO_HOST_DEVICE static int whole_vectors(int bytes) {
    return (bytes + 2 * kVectorBytes) / kVectorBytes * kVectorBytes;
  }
};

// ---- fields of the variants with one lane per row ----

template <class Routine>
const char* why_not_lanes(const Routine& p) {
  return p.cols() > kMaxLaneCols ? "images have more than 32 columns" : nullptr;
}

template <class Routine>
Extent strip_grid(const Routine& p, Extent, const Hardware& gpu) {
  const Strips s = strips_of(p, gpu);
  return grid_of(ceil_div(s.all(), kStripThreads), 1);
}

template <class Routine, int kRadius>
std::size_t strip_shared_bytes(const Routine& p, Extent, const Hardware& gpu) {
  return with_row_words(p.cols(), [&](auto words) {
    const StripMemory<words> memory(strips_of(p, gpu), kRadius);
    return static_cast<std::size_t>(memory.rows_bytes + memory.result_bytes);
  });
}

template <int kRadius, class Routine>
const char* why_lanes_slower(const Routine& p, const Hardware& gpu) {
  if (p.cols() > kNarrowCols) return "rows are wide enough for several lanes";
  const auto shared = static_cast<std::int64_t>(strip_shared_bytes<Routine, kRadius>(p, {}, gpu));
  return gpu.shared_bytes != 0 && shared > gpu.shared_bytes
             ? "the device has too little shared memory for the strips"
             : nullptr;
}

// Executed FLOPs of gradients, including the rows above and below the strips.
template <class Routine, int kRadius>
double strip_flops(const Routine& p, const Hardware& gpu) {
  return with_row_words(p.cols(), [&](auto words) {
    const Strips s = strips_of(p, gpu);
    const std::int64_t rows = ceil_div(s.height + 2 * kRadius, 2) * 2;
    return kFlopsOfLength * static_cast<double>(s.all() * rows * 4 * words);
  });
}

// Requested bytes. A block also loads the rows above its first and below its last strip.
template <class Routine, int kRadius>
double strip_bytes(const Routine& p, const Hardware& gpu) {
  const Strips s = strips_of(p, gpu);
  if (s.all() == 0) return 0;
  const std::int64_t rows = s.images * s.rows;
  return static_cast<double>((2 * rows + 2 * kRadius * (ceil_div(s.all(), kStripThreads) - 1)) *
                             s.cols);
}

#ifdef __CUDACC__

template <int kWords, class Stage>
__global__ void __launch_bounds__(kStripThreads)
    lane_per_row(const std::uint8_t* in, std::uint8_t* out, Strips strips,
                 typename Stage::Options options) {
  constexpr int kRadius = Stage::kRadius;
  extern __shared__ uint4 shared[];
  auto* const tile = reinterpret_cast<std::uint8_t*>(shared);
  const int cols = strips.cols, thread = static_cast<int>(threadIdx.x);
  const std::int64_t all_rows = strips.images * strips.rows;
  // Rows are counted across images. The block stores rows [first, last) and loads [begin, end).
  const auto first_row = [&](std::int64_t strip) {
    if (strip >= strips.all()) return all_rows;
    const std::int64_t image = divide(strip, strips.down);
    return image * strips.rows + (strip - image * strips.down) * strips.height;
  };
  const std::int64_t first_strip = block_x() * kStripThreads;
  const std::int64_t first = first_row(first_strip), last = first_row(first_strip + kStripThreads);
  const std::int64_t begin = max(first - kRadius, std::int64_t{0}),
                     end = min(last + kRadius, all_rows);

  // The tile begins with an aligned vector. Bytes after the end of the array are not read.
  const std::uint8_t* const from = in + begin * cols;
  const int in_offset = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) % kVectorBytes);
  const int in_bytes = static_cast<int>((end - begin) * cols) + in_offset;
  const auto* const vectors = reinterpret_cast<const uint4*>(from - in_offset);
#pragma unroll 4
  for (int i = thread; i < in_bytes / kVectorBytes; i += kStripThreads) shared[i] = vectors[i];
  const int tail = in_bytes / kVectorBytes * kVectorBytes + thread;
  if (tail >= in_offset && tail < in_bytes) tile[tail] = from[tail - in_offset];
  const StripMemory<kWords> memory(strips, kRadius);
  std::uint8_t* const results = tile + memory.rows_bytes;
  std::uint8_t* const to = out + first * cols;
  const int out_offset = static_cast<int>(reinterpret_cast<std::uintptr_t>(to) % kVectorBytes);
  const bool by_words = (cols | out_offset) % 4 == 0;
  __syncthreads();

  const std::int64_t strip = first_strip + thread;
  if (strip < strips.all()) {
    const std::int64_t row = first_row(strip);  // counted across images
    const std::int64_t image = divide(strip, strips.down);
    const int top = clamp_distance(row - image * strips.rows);  // rows of the image above the strip
    const int below = clamp_distance((image + 1) * strips.rows - row);
    const int height = min(strips.height, below);
    const int loaded = min(strips.height + kRadius, below);
    int at = in_offset + static_cast<int>(row - kRadius - begin) * cols;
    int result = out_offset + static_cast<int>(row - first) * cols;
    unsigned mask[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) mask[w] = first_pixels(cols - 4 * w);
    Stage stage(1, options);
#pragma unroll 1
    for (int base = -kRadius; base < strips.height + kRadius; base += 2) {
#pragma unroll
      for (int step = 0; step < 2; ++step, at += cols) {
        const int index = base + step;  // of the loaded row, relative to the first row of the strip
        PixelsAround<kWords> pixels = {};
        if (index >= -top && index < loaded) {
          const auto* const words = reinterpret_cast<const unsigned*>(tile + at / 4 * 4);
#pragma unroll
          for (int w = 0; w < kWords; ++w)
            pixels.at[w + 1] = __funnelshift_r(words[w], words[w + 1], 8 * (at % 4)) & mask[w];
        }
        const PackedPixels<kWords> pushed = stage.push(step, pixels);
        if (index < kRadius || index - kRadius >= height) continue;
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          if (by_words) {
            if (4 * w < cols) *reinterpret_cast<unsigned*>(results + result + 4 * w) = pushed.at[w];
          } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              if (4 * w + i < cols)
                results[result + 4 * w + i] = static_cast<std::uint8_t>(pushed.at[w] >> (8 * i));
          }
        }
        result += cols;
      }
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

#endif

}  // namespace ado::cuda

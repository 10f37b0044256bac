// Blurring on the GPU: out = the 7x7 weighted sum around each pixel, from 49 loads a pixel to a
// handful of instructions.
//
// Two bytes a pixel have to move and 49 products to be added. The rungs are those of the talk: the
// loads move to shared memory, the sum falls apart into two passes of seven taps, and threads move
// and compute several pixels at a time. They were written for a Kepler GPU, where each answered a
// limit of its own. Here nearly all are bound by the instructions that they issue (82 to 88 % of
// the slots), so a step helps by as much as it saves instructions, and some of the old ones do not.
//
// Times in the comments are for 16384 x 16384 pixels on an H200, L2 flushed.
#include "routines/gaussian_blur.hpp"

#include <type_traits>

#include "image/sliding_window.cuh"
#include "image/view.cuh"

namespace ado::cuda {
namespace {

constexpr int kTaps = GaussianBlur::kTaps;
constexpr int kRadius = GaussianBlur::kRadius;
constexpr int kTileWidth = 32;    // of all blocks, in threads: a warp is a row
constexpr int kSharedHeight = 4;  // of blocks that sum 49 taps in shared memory, in threads
constexpr int kTileHeight = 8;    // of blocks that sum in two passes, in threads

// What is loaded beside a tile of threads that load kLoaded pixels at a time, from a column on that
// is a multiple of kLoaded.
template <int kLoaded>
constexpr int kMargin = kRadius + kRadius % kLoaded;

// Pixels of a thread that sums words. Rows at the seams are summed twice: 4 rows take 254 us, 8
// take 202 and 16 take 178 in blocks of 8 lines of threads; 16 in blocks of 4 take 165.
constexpr int kDotAcross = 4, kDotDown = 16;
constexpr int kDotHeight = 4;  // of its blocks, in threads

constexpr int kBoundedThreads = 128;
constexpr int kBoundedBlocks = 10;

// The products of the default taps add up to 256.
constexpr int kShift = 8;

#ifdef __CUDACC__

struct Weights {
  int product[kTaps][kTaps];
  int tap[kTaps];
  float real_tap[kTaps];
};

constexpr Weights default_weights() {
  Weights w{};
  for (int i = 0; i < kTaps; ++i) {
    w.tap[i] = GaussianBlur::kDefaultTaps[i];
    w.real_tap[i] = static_cast<float>(w.tap[i]);
    for (int j = 0; j < kTaps; ++j)
      w.product[i][j] = GaussianBlur::kDefaultTaps[i] * GaussianBlur::kDefaultTaps[j];
  }
  return w;
}

__constant__ Weights weights = default_weights();

template <class Number>
__device__ Number tap(int i) {
  if constexpr (std::is_same_v<Number, float>)
    return weights.real_tap[i];
  else
    return weights.tap[i];
}

// The weighted sum of the 49 pixels that `pixel` gives for offsets from -3 to 3.
template <class Pixel>
__device__ std::uint8_t weighted_sum(Pixel pixel) {
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) sum += weights.product[i][j] * pixel(i - kRadius, j - kRadius);
  return static_cast<std::uint8_t>(sum >> kShift);
}

// ---------------------------------------------------------------------------------------------
// One thread a pixel. In blocks of 8 by 8 pixels, the bytes that a warp loads lie in four rows, and
// L1 takes several turns to find them: it is busy 99 % of the 6.7 ms. In blocks of 32 columns, they
// lie in one (3.3 ms). Larger blocks change nothing more: a multiprocessor holds 32 blocks, and 32
// blocks of 64 threads are all the threads that it can hold.
__device__ void blur_pixel(const Batch& batch) {
  const View view = View(batch).moved(threadIdx.y, threadIdx.x);
  if (!view.contains(0, 0)) return;
  view.store(0, 0, weighted_sum([&](int i, int j) { return view.pixel(i, j); }));
}

__global__ void gaussian_blur_naive(Batch batch) { blur_pixel(batch); }

// On Kepler the bound cut registers from 51. Here the compiler makes do with 30 without a bound;
// told that ten blocks are enough, it takes 45 for the same instructions, and 55 % instead of 93 of
// the warps that a multiprocessor can hold are there to issue them (1.7 % slower).
__global__ void __launch_bounds__(kBoundedThreads, blocks_held(kBoundedBlocks, kBoundedThreads))
    gaussian_blur_launch_bounds(Batch batch) {
  blur_pixel(batch);
}

// ---------------------------------------------------------------------------------------------
// A block loads its tile and 3 pixels around it once, and each of its threads reads 49 of them in
// shared memory (2.50 ms). L1 is the same memory here, so it is not the loads that get faster:
// their addresses and the checks for the border are gone. The read-only path is L1, too; that loads
// take it (2.59 ms) only changes how the compiler arranges them.
constexpr int kSharedPitch = 64;

template <bool kReadOnly>
__global__ void __launch_bounds__(kTileWidth* kSharedHeight) gaussian_blur_shared(Batch batch) {
  constexpr int kRows = kSharedHeight + 2 * kRadius;
  __shared__ std::uint8_t tile[kRows][kSharedPitch];
  const int lane = threadIdx.x, line = threadIdx.y;
  const View view(batch);
  load_tile<kTileWidth + 2 * kRadius, kSharedHeight, 1, kReadOnly>(view.moved(-kRadius, -kRadius),
                                                                   tile);
  __syncthreads();
  view.store(line, lane, weighted_sum([&](int i, int j) {
               return tile[line + kRadius + i][lane + kRadius + j];
             }));
}

// ---------------------------------------------------------------------------------------------
// The weights are a product, so seven taps along the rows and then seven down the columns do for
// 49 (1.70 ms). A thread has kAcross by kDown neighbouring pixels; it moves kLoaded of them at a
// time to shared memory and kAcross from there: 1.28 ms with 1 by 2, 1.07 ms with 2 by 2, which
// halves the shared accesses. Floats (1.09 ms) were faster where integers multiply at a sixth of
// their rate; here multiplications are not the limit, and conversions cost more than is saved.
template <class Number, int kAcross, int kDown, int kLoaded>
__global__ void __launch_bounds__(kTileWidth* kTileHeight) gaussian_blur_two_passes(Batch batch) {
  constexpr int kCols = kTileWidth * kAcross, kRows = kTileHeight * kDown;
  constexpr int kHaloRows = kRows + 2 * kRadius, kHaloCols = kCols + 2 * kMargin<kLoaded>;
  __shared__ __align__(8) Number tile[kHaloRows][kHaloCols];
  __shared__ __align__(8) Number across[kHaloRows][kCols];
  const int lane = threadIdx.x, line = threadIdx.y, col = lane * kAcross;
  const View tile_view(batch);

  load_tile<kHaloCols, kTileHeight, kLoaded>(tile_view.moved(-kRadius, -kMargin<kLoaded>), tile);
  __syncthreads();

#pragma unroll
  for (int turn = 0; turn < kHaloRows; turn += kTileHeight) {
    const int row = line + turn;
    if (row >= kHaloRows) break;
    constexpr int kFirst = kMargin<kLoaded> - kRadius;  // of the pixels that the taps meet
    constexpr int kEnd = (kFirst + kTaps + 2 * (kAcross - 1)) / kAcross * kAcross;
    Number pixel[kEnd];
#pragma unroll
    for (int i = kFirst / kAcross * kAcross; i < kEnd; i += kAcross)
      pack_at<kAcross>(pixel[i]) = pack_at<kAcross>(tile[row][col + i]);
    Pack<Number, kAcross> sums = {};
#pragma unroll
    for (int i = 0; i < kTaps; ++i)
#pragma unroll
      for (int k = 0; k < kAcross; ++k) sums.at[k] += tap<Number>(i) * pixel[kFirst + k + i];
    pack_at<kAcross>(across[row][col]) = sums;
  }
  __syncthreads();

  Pack<Number, kAcross> sums[kDown] = {};
#pragma unroll
  for (int i = 0; i < kDown - 1 + kTaps; ++i) {
    const auto along = pack_at<kAcross>(across[line * kDown + i][col]);
#pragma unroll
    for (int down = 0; down < kDown; ++down)
#pragma unroll
      for (int k = 0; k < kAcross; ++k)
        if (i >= down && i < down + kTaps) sums[down].at[k] += tap<Number>(i - down) * along.at[k];
  }
  const View view = tile_view.moved(line * kDown, col);
#pragma unroll
  for (int down = 0; down < kDown; ++down) {
    const auto result = [&](int k) {
      return static_cast<std::uint8_t>(static_cast<int>(sums[down].at[k]) >> kShift);
    };
    if constexpr (kAcross == 2)
      view.store_pair(down, 0, {result(0), result(1)});
    else
      view.store(down, 0, result(0));
  }
}

// ---------------------------------------------------------------------------------------------
// A thread sums 4 by kDotDown pixels in registers. Three words hold what the four sums along a row
// need; instead of shifting the pixels, each sum has its taps in another place. A sum along a row
// is at most 255 * 16 and a whole sum at most 255 * 256, so both fit 16 bits, and two columns share
// a register. Down the columns, 1 2 3 4 3 2 1 is a run of four ones convolved with itself:
// additions take the pipe that dot products and multiplications leave free.

// The taps of pixel `k` of four that meet bytes 0 to 3 of word `word` of three; the first word lies
// before the four pixels, the second on them.
constexpr unsigned packed_taps(int k, int word) {
  unsigned packed = 0;
  for (int byte = 0; byte < kDotAcross; ++byte) {
    const int i = (word - 1) * kDotAcross + byte - k + kRadius;
    if (i >= 0 && i < kTaps)
      packed |= static_cast<unsigned>(GaussianBlur::kDefaultTaps[i]) << (8 * byte);
  }
  return packed;
}

template <int k, int kWord>
constexpr unsigned kPackedTaps = packed_taps(k, kWord);

template <int k>
__device__ unsigned sum_along(const WordsAround& words, unsigned sum) {
  if constexpr (kPackedTaps<k, 0> != 0) sum = __dp4a(words.before, kPackedTaps<k, 0>, sum);
  sum = __dp4a(words.here, kPackedTaps<k, 1>, sum);
  if constexpr (kPackedTaps<k, 2> != 0) sum = __dp4a(words.after, kPackedTaps<k, 2>, sum);
  return sum;
}

__global__ void __launch_bounds__(kTileWidth* kDotHeight) gaussian_blur_dot_product(Batch batch) {
  constexpr int kHaloRows = kDotDown + 2 * kRadius;
  const View tile(batch);
  const View view = tile.moved(threadIdx.y * kDotDown, threadIdx.x * kDotAcross);
  tile.with_reach(kDotHeight * kDotDown, kTileWidth * kDotAcross, kRadius, [&]<Reach kReach>() {
    unsigned sums[kHaloRows][2];
#pragma unroll
    for (int i = 0; i < kHaloRows; ++i) {
      const WordsAround words = view.words<kReach>(i - kRadius);
      sums[i][0] = sum_along<0>(words, sum_along<1>(words, 0) << 16);
      sums[i][1] = sum_along<2>(words, sum_along<3>(words, 0) << 16);
    }
#pragma unroll
    for (int rows = kHaloRows - kRadius; rows >= kDotDown; rows -= kRadius)
#pragma unroll
      for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          sums[i][half] += sums[i + 1][half] + sums[i + 2][half] + sums[i + 3][half];
#pragma unroll
    for (int i = 0; i < kDotDown; ++i)  // the upper byte of each half is the sum >> 8
      view.store_word<kReach>(i, __byte_perm(sums[i][0], sums[i][1], 0x7531));
  });
}

#endif

const char* why_not_options(const GaussianBlur& p) {
  return p.border == Border::kConstant && p.default_taps()
             ? nullptr
             : "only border=\"constant\" and the default taps";
}

double bytes_of_naive(const GaussianBlur& p) { return bytes_by_tiles(p, kTaps * kTaps, 1); }

// Of blocks that load their tile of threads with kAcross by kDown pixels, and what lies around it.
template <int kAcross, int kDown, int kLoaded, int kHeight = kTileHeight>
double bytes_of_tile(const GaussianBlur& p) {
  constexpr int kCols = kTileWidth * kAcross, kRows = kHeight * kDown;
  return bytes_by_tiles(p, (kCols + 2 * kMargin<kLoaded>)*(kRows + 2 * kRadius), kCols * kRows);
}

// ---------------------------------------------------------------------------------------------
// The rows march, as march.cuh has it. Sixteen pixels a lane load least beside a strip (144 us, 147
// with eight) but need an image that is large enough for them: 2560 x 1600 pixels take 8.7 us with
// sixteen and 8.2 with eight. A border that continues the image takes 157 us, other taps 204.
//
// More blocks a multiprocessor are more warps that have work while others wait, but leave fewer
// registers to each; more slots keep more rows on their way, but take shared memory from the other
// blocks. The numbers are the fastest of those tried on an H200.
constexpr Marching blur_marching(int words, bool aligned, bool extends, bool any_taps) {
  const bool wide = words == 4;
  return {.words = words,
          .reach = kRadius,
          .aligned = aligned,
          .extends = extends,
          .ahead = any_taps || (wide && extends) ? 4 : 8,
          .blocks = any_taps || (wide && extends) ? 4
                    : wide                        ? 5
                    : extends && !aligned         ? 6
                                                  : 8,
          .highest = aligned && !any_taps ? 50 : 66};
}

template <int kWords, bool kAligned, bool kExtends, bool kAnyTaps_ = false>
struct BlurShape : MarchShape<blur_marching(kWords, kAligned, kExtends, kAnyTaps_)> {
  static constexpr bool kAnyTaps = kAnyTaps_;
};

template <bool kAligned, bool kExtends, class Visit>
auto with_shape_inside(const GaussianBlur& p, Visit visit) {
  if (!p.default_taps()) return visit(BlurShape<2, kAligned, kExtends, true>{});
  if constexpr (kAligned)
    if (pixels_of(p) >= kManyPixels) return visit(BlurShape<4, kAligned, kExtends>{});
  return visit(BlurShape<2, kAligned, kExtends>{});
}

constexpr auto with_shape = [](const GaussianBlur& p, auto visit) {
  const bool extends = p.border != Border::kConstant;
  if (lanes_aligned(p.gray, p.out, kChunk))
    return extends ? with_shape_inside<true, true>(p, visit)
                   : with_shape_inside<true, false>(p, visit);
  return extends ? with_shape_inside<false, true>(p, visit)
                 : with_shape_inside<false, false>(p, visit);
};

#ifdef __CUDACC__

template <class Shape>
void launch_march(const GaussianBlur& p, const Launch& go) {
  const auto start = [&](auto kernel, auto options) {
    launch(go, kernel, p.gray.as<const std::uint8_t>(), p.border, p.out.as<std::uint8_t>(),
           strips_of<Shape>(p), options);
  };
  if constexpr (Shape::kAnyTaps) {
    start(march<Shape, BlurTaps<Shape::kWords>>, tap_options(p.taps));
  } else {
    using Stage = Blur<Shape::kWords>;
    start(march<Shape, Stage>, typename Stage::Options{});
  }
}

#endif

constexpr Variant<GaussianBlur> kVariants[] = {
    copy_row<GaussianBlur>(),
    {.name = "naive",
     .changes = "One thread a pixel, which loads the 49 pixels around it byte by byte.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{8, 8}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_naive,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_naive, batch_of<1, 1>(p, go.block));
     })},
    {.name = "coalesced",
     .changes = "The same kernel in blocks that are a warp wide: a warp's loads lie side by side.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, 2}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_naive,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_naive, batch_of<1, 1>(p, go.block));
     })},
    {.name = "occupancy",
     .changes = "The same kernel in larger blocks, so that a multiprocessor holds more warps.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, 4}, {kTileWidth, 8}, {8, 16}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_naive,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_naive, batch_of<1, 1>(p, go.block));
     })},
    {.name = "launch_bounds",
     .changes = "Has the compiler keep to the registers of ten blocks a multiprocessor.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kBoundedThreads / kTileWidth}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_naive,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_launch_bounds, batch_of<1, 1>(p, go.block));
     })},
    {.name = "shared",
     .changes = "Loads the pixels that a block needs once, into shared memory.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kSharedHeight}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_tile<1, 1, 1, kSharedHeight>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_shared<false>, batch_of<1, 1>(p, go.block));
     })},
    {.name = "read_only",
     .changes = "Promises that nobody writes to the image, so loads may take the read-only path.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kSharedHeight}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_tile<1, 1, 1, kSharedHeight>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_shared<true>, batch_of<1, 1>(p, go.block));
     })},
    {.name = "separable",
     .changes = "Sums seven taps along the rows and then seven down the columns, not all 49.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kTileHeight}}},
     .grid = grid_of_tiles<1, 1, GaussianBlur>,
     .bytes = bytes_of_tile<1, 1, 1>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_two_passes<int, 1, 1, 1>, batch_of<1, 1>(p, go.block));
     })},
    {.name = "two_pixels",
     .changes = "Two pixels of a column a thread, and pixels loaded in pairs.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kTileHeight}}},
     .grid = grid_of_tiles<1, 2, GaussianBlur>,
     .bytes = bytes_of_tile<1, 2, 2>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_two_passes<int, 1, 2, 2>, batch_of<1, 2>(p, go.block));
     })},
    {.name = "wide_shared",
     .changes = "Two by two pixels a thread, so that shared memory is asked for 8 bytes at a time.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kTileHeight}}},
     .grid = grid_of_tiles<2, 2, GaussianBlur>,
     .bytes = bytes_of_tile<2, 2, 2>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_two_passes<int, 2, 2, 2>, batch_of<2, 2>(p, go.block));
     })},
    {.name = "float_taps",
     .changes = "Computes in float32, which is exact below 2**24 and has fused multiply-add.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kTileHeight}}},
     .grid = grid_of_tiles<2, 2, GaussianBlur>,
     .bytes = bytes_of_tile<2, 2, 2>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_two_passes<float, 2, 2, 2>, batch_of<2, 2>(p, go.block));
     })},
    {.name = "dot_product",
     .changes = "Loads words of four pixels and sums them with dot products, all in registers.",
     .device = Device::kCuda,
     .why_not = why_not_options,
     .blocks = {{{kTileWidth, kDotHeight}}},
     .grid = grid_of_tiles<kDotAcross, kDotDown, GaussianBlur>,
     .bytes =
         [](const GaussianBlur& p) {
           return bytes_by_tiles(p, 3 * kDotAcross * (kDotDown + 2 * kRadius),
                                 kDotAcross * kDotDown);
         },
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       launch(go, gaussian_blur_dot_product, batch_of<kDotAcross, kDotDown>(p, go.block));
     })},
    {.name = "marching",
     .changes = "Marches down the rows, keeping sums of those that passed; any border and taps.",
     .device = Device::kCuda,
     .blocks = {{kMarchBlock}},
     .grid = march_grid<GaussianBlur, with_shape>,
     .shared_bytes = march_shared_bytes<GaussianBlur, with_shape>,
     .bytes = march_bytes<GaussianBlur, with_shape>,
     .run = ADO_RUN([](const GaussianBlur& p, const Launch& go) {
       with_shape(p, [&]<class Shape>(Shape) { launch_march<Shape>(p, go); });
     })},
};

}  // namespace

Ladder<GaussianBlur> gaussian_blur_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

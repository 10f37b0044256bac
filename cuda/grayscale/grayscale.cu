// Grayscale on the GPU: out = the luminance of each pixel, from one byte a load to 16.
//
// Four or three bytes in and one out: nothing but memory counts. The arrays are packed, so the
// pixels of all images of a batch are one long line.
//
// Shares in the comments are of cudaMemcpy's speed for as many bytes, on an H200 with L2 flushed
// and 16384 x 16384 pixels.
#include "routines/grayscale.hpp"

#include <type_traits>

#include "common/grid.cuh"
#include "image/luminance.cuh"

namespace ado::cuda {
namespace {

constexpr int kVector = 16;  // bytes that a thread moves at most
constexpr int kThreads = 256;

// In the last rung a thread has four pixels at a time, so many times.
constexpr int kWideTurns = 4;
constexpr int kWidePixels = kThreads * 4 * kWideTurns;  // of a block

// Calls `visit` with the number of channels as a constant.
template <class Visit>
auto with_channels(const Grayscale& p, Visit visit) {
  return p.channels() == 4 ? visit(std::integral_constant<int, 4>{})
                           : visit(std::integral_constant<int, 3>{});
}

Extent grid_of_pixels(const Grayscale& p, int pixels_a_block) {
  return grid_of(ceil_div(p.out.elements(), pixels_a_block), 1);
}

#ifdef __CUDACC__

// The pixels of a batch, in one line.
template <int kChannels>
struct Line {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t pixels;

  // Luminance of one pixel, byte by byte.
  __device__ void convert(std::int64_t pixel) const {
    const std::uint8_t* from = in + pixel * kChannels;
    out[pixel] = static_cast<std::uint8_t>(
        (from[0] * Grayscale::kRed + from[1] * Grayscale::kGreen + from[2] * Grayscale::kBlue) >>
        Grayscale::kShift);
  }
};

template <int kChannels>
Line<kChannels> line_of(const Grayscale& p) {
  return {p.rgba.as<const std::uint8_t>(), p.out.as<std::uint8_t>(), p.out.elements()};
}

__device__ bool aligned(const void* at, int bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

// ---------------------------------------------------------------------------------------------
// One thread a pixel. That is so little work that the GPU cannot start blocks as fast as they end:
// blocks of 128 threads take 1.8 times as long as blocks of 256 (25 and 45 %).
template <int kChannels>
__global__ void grayscale_naive(Line<kChannels> line) {
  const std::int64_t pixel = block_x() * blockDim.x + threadIdx.x;
  if (pixel < line.pixels) line.convert(pixel);
}

// ---------------------------------------------------------------------------------------------
// Two pixels a thread: 8 bytes at once, or three times 2.
__device__ unsigned luminances(const uint2& rgba) {
  return pack(luminance(rgba.x), luminance(rgba.y));
}
__device__ unsigned luminances(const ushort3& rgb) {
  const unsigned middle = rgb.y;
  return pack(luminance(middle << 16 | rgb.x), luminance<1>(unsigned{rgb.z} << 16 | middle));
}

template <int kChannels>
__global__ void grayscale_two_pixels(Line<kChannels> line) {
  using Pair = std::conditional_t<kChannels == 4, uint2, ushort3>;
  const std::int64_t pixel = 2 * (block_x() * blockDim.x + threadIdx.x);
  const std::uint8_t* from = line.in + pixel * kChannels;
  std::uint8_t* to = line.out + pixel;
  if (pixel + 2 <= line.pixels && aligned(from, alignof(Pair)) && aligned(to, 2)) {
    *reinterpret_cast<std::uint16_t*>(to) =
        static_cast<std::uint16_t>(luminances(*reinterpret_cast<const Pair*>(from)));
  } else {
    for (std::int64_t i = pixel; i < min(pixel + 2, line.pixels); ++i) line.convert(i);
  }
}

// ---------------------------------------------------------------------------------------------
// Four pixels are one vector, or three words, and one word of the result. One such group a thread
// is too little in flight (98 % of the speed of cudaMemcpy, 92 with three channels); from two
// groups on, a block apart so that a warp's accesses stay side by side, it is as fast as a copy and
// more (101 to 105 %, since less is written than read). Neither stores of 16 bytes, after an
// exchange through shared memory, nor RGB staged there as whole vectors were any faster.
template <int kChannels>
struct alignas(kChannels == 4 ? kVector : 4) FourPixels {
  unsigned word[kChannels];
};

__device__ unsigned luminances(const FourPixels<4>& rgba) {
  return pack(luminance(rgba.word[0]), luminance(rgba.word[1]), luminance(rgba.word[2]),
              luminance(rgba.word[3]));
}
__device__ unsigned luminances(const FourPixels<3>& rgb) {
  const auto& word = rgb.word;
  return pack(luminance(word[0]), luminance(__funnelshift_r(word[0], word[1], 24)),
              luminance(__funnelshift_r(word[1], word[2], 16)), luminance<1>(word[2]));
}

template <int kChannels>
__global__ void __launch_bounds__(kThreads) grayscale_wide(Line<kChannels> line) {
  using Four = FourPixels<kChannels>;
  const std::int64_t first = block_x() * kWidePixels;
  const std::uint8_t* from = line.in + first * kChannels;
  std::uint8_t* to = line.out + first;
  if (first + kWidePixels <= line.pixels && aligned(from, alignof(Four)) && aligned(to, 4)) {
    Four four[kWideTurns];
#pragma unroll
    for (int i = 0; i < kWideTurns; ++i)
      four[i] = reinterpret_cast<const Four*>(from)[threadIdx.x + i * kThreads];
#pragma unroll
    for (int i = 0; i < kWideTurns; ++i)
      reinterpret_cast<unsigned*>(to)[threadIdx.x + i * kThreads] = luminances(four[i]);
  } else {
    const std::int64_t end = min(first + kWidePixels, line.pixels);
    for (std::int64_t i = first + threadIdx.x; i < end; i += kThreads) line.convert(i);
  }
}

#endif

constexpr Blocks kBlocks = {{{kThreads}, {128}, {512}}};

constexpr Variant<Grayscale> kVariants[] = {
    {.name = "naive",
     .changes = "One thread a pixel, which loads and multiplies its bytes one by one.",
     .device = Device::kCuda,
     .blocks = kBlocks,
     .grid = [](const Grayscale& p,
                Extent block) { return grid_of_pixels(p, static_cast<int>(block.x)); },
     .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
       with_channels(
           p, [&](auto channels) { launch(go, grayscale_naive<channels>, line_of<channels>(p)); });
     })},
    {.name = "two_pixels",
     .changes = "Two pixels a thread and load, and dot products of whole words.",
     .device = Device::kCuda,
     .blocks = kBlocks,
     .grid = [](const Grayscale& p,
                Extent block) { return grid_of_pixels(p, 2 * static_cast<int>(block.x)); },
     .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
       with_channels(p, [&](auto channels) {
         launch(go, grayscale_two_pixels<channels>, line_of<channels>(p));
       });
     })},
    {.name = "wide",
     .changes = "Four loads of four pixels in flight a thread, and stores of whole words.",
     .device = Device::kCuda,
     .blocks = {{{kThreads}}},
     .grid = [](const Grayscale& p, Extent) { return grid_of_pixels(p, kWidePixels); },
     .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
       with_channels(
           p, [&](auto channels) { launch(go, grayscale_wide<channels>, line_of<channels>(p)); });
     })},
};

}  // namespace

Ladder<Grayscale> grayscale_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

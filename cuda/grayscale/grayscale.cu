// Grayscale on the GPU: out = the luminance of each pixel. The steps naive, two_pixels and wide
// range from 1-byte loads to 16-byte loads. There is no engine: the default is wide.
//
// The kernels read three or four bytes and write one byte per pixel, so they are memory-bound.
// Arrays are packed, so the pixels of all images of a batch form one contiguous row.
#include "routines/grayscale.hpp"

#include "image/packed_pixels.cuh"

namespace ado::cuda {
namespace {

constexpr int kThreads = 256;

template <int kGroups>
constexpr int kWidePixels = kThreads * 4 * kGroups;  // per block of `wide`

// In `wide`, each thread has four groups of four pixels in flight. If that results in at most
// kFewBlocks whole blocks per multiprocessor, it has one group, so that there are more blocks.
constexpr int kManyGroups = 4, kFewGroups = 1;
constexpr Tuned<double> kFewBlocks{.value = 7.75, .device = "H200"};

// Calls `visit` with the number of groups per thread as a constant.
template <class Visit>
auto with_groups(std::int64_t pixels, const Hardware& gpu, Visit visit) {
  const auto blocks = static_cast<double>(pixels / kWidePixels<kManyGroups>);
  return blocks <= kFewBlocks.on(gpu) * gpu.multiprocessors
             ? visit(std::integral_constant<int, kFewGroups>{})
             : visit(std::integral_constant<int, kManyGroups>{});
}

// Calls `visit` with the number of channels as a constant.
template <class Visit>
auto with_channels(const Grayscale& p, Visit visit) {
  return p.channels() == 4 ? visit(std::integral_constant<int, 4>{})
                           : visit(std::integral_constant<int, 3>{});
}

Extent grid_of_pixels(const Grayscale& p, int pixels_per_block) {
  return grid_of(ceil_div(p.out.elements(), pixels_per_block), 1);
}

#ifdef __CUDACC__

// The pixels of a batch as one contiguous row.
template <int kChannels>
struct Line {
  const std::uint8_t* in;
  std::uint8_t* out;
  std::int64_t pixels;

  // Computes the luminance of one pixel, byte by byte.
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

// One thread per pixel. The work per block is so small that the GPU cannot launch blocks as fast as
// they finish. Blocks of 128 threads take 1.8 times as long as blocks of 256 (H200, 2026).
template <int kChannels>
__global__ void grayscale_naive(Line<kChannels> line) {
  const std::int64_t pixel = block_x() * blockDim.x + threadIdx.x;
  if (pixel < line.pixels) line.convert(pixel);
}

// Two pixels per thread: one load of 8 bytes or, with three channels, three loads of 2 bytes.
__device__ unsigned luminances(const uint2& rgba) {
  return pack(luminance(rgba.x), luminance(rgba.y));
}

//   16-bit loads   |   x   |   y   |   z   |
//   bytes          | R0 G0 | B0 R1 | G1 B1 |
//   y << 16 | x  =  [R0 G0   B0 R1]             pixel 0 in bytes 0 to 2
//   z << 16 | y  =          [B0 R1   G1 B1]     pixel 1 in bytes 1 to 3
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

// Four pixels per load of 16 bytes; their luminances are stored as one 32-bit word. With three
// channels, three loads of 4 bytes. One group of four pixels per thread has too few loads in flight
// (98 % of cudaMemcpy's throughput, 92 % with three channels; H200, 2026). The groups of a thread
// are one block apart, so that the accesses of a warp are coalesced:
//
//   group of four pixels   |  0    1   ...  255 | 256  257  ...  511 | 512 ...
//   thread                 |  0    1   ...  255 |  0    1   ...  255 |  0  ...
//   its i-th load          |        i = 0       |        i = 1       | i = 2
//
// Two alternatives were not faster: 16-byte stores after an exchange through shared memory, and
// staging whole vectors of RGB pixels in shared memory.
__device__ unsigned luminances(const uint4& rgba) {
  return pack(luminance(rgba.x), luminance(rgba.y), luminance(rgba.z), luminance(rgba.w));
}

//   32-bit loads   |      x      |      y      |      z      |
//   bytes          | R0 G0 B0 R1 | G1 B1 R2 G2 | B2 R3 G3 B3 |
//   pixel 1                  [R1   G1 B1 R2]                      = __funnelshift_r(x, y, 24)
__device__ unsigned luminances(const uint3& rgb) {
  return pack(luminance(rgb.x), luminance(__funnelshift_r(rgb.x, rgb.y, 24)),
              luminance(__funnelshift_r(rgb.y, rgb.z, 16)), luminance<1>(rgb.z));
}

template <int kChannels, int kGroups>
__global__ void __launch_bounds__(kThreads) grayscale_wide(Line<kChannels> line) {
  using Group = std::conditional_t<kChannels == 4, uint4, uint3>;
  constexpr int kAll = kThreads * kGroups;
  const std::int64_t first = block_x() * kWidePixels<kGroups>;
  const int pixels = static_cast<int>(min(line.pixels - first, std::int64_t{4 * kAll}));
  const auto* from = reinterpret_cast<const Group*>(line.in + first * kChannels) + threadIdx.x;
  auto* to = reinterpret_cast<unsigned*>(line.out + first) + threadIdx.x;
  const int groups = aligned(from, alignof(Group)) && aligned(to, 4) ? pixels / 4 : 0;
  Group group[kGroups];
  if (groups == kAll) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) group[i] = from[i * kThreads];
#pragma unroll
    for (int i = 0; i < kGroups; ++i) to[i * kThreads] = luminances(group[i]);
  } else {  // the last block, or unaligned arrays
    const auto has_group = [&](int i) {
      return static_cast<int>(threadIdx.x) + i * kThreads < groups;
    };
#pragma unroll
    for (int i = 0; i < kGroups; ++i)
      if (has_group(i)) group[i] = from[i * kThreads];
#pragma unroll
    for (int i = 0; i < kGroups; ++i)
      if (has_group(i)) to[i * kThreads] = luminances(group[i]);
    for (int i = 4 * groups + threadIdx.x; i < pixels; i += kThreads) line.convert(first + i);
  }
}

#endif

constexpr Blocks kBlocks = {{{kThreads}, {128}, {512}}};

constexpr Variant<Grayscale> kVariants[] = {
    {.name = "naive",
     .changes = "One thread per pixel loads and multiplies its bytes one by one.",
     .blocks = kBlocks,
     .grid = [](const Grayscale& p,
                Extent block) { return grid_of_pixels(p, static_cast<int>(block.x)); },
     .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
       with_channels(
           p, [&](auto channels) { launch(go, grayscale_naive<channels>, line_of<channels>(p)); });
     })},
    {.name = "two_pixels",
     .changes =
         {"Each thread loads and processes two pixels at a time, with dot products of bytes.",
          Step::kWider, Step::kOperations},
     .blocks = kBlocks,
     .grid = [](const Grayscale& p,
                Extent block) { return grid_of_pixels(p, 2 * static_cast<int>(block.x)); },
     .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
       with_channels(p, [&](auto channels) {
         launch(go, grayscale_two_pixels<channels>, line_of<channels>(p));
       });
     })},
    {.name = "wide",
     .changes =
         {"Each thread keeps four loads of four pixels in flight and stores four pixels at a time.",
          Step::kInFlight, Step::kWider},
     .blocks = {{{kThreads}}},
     .grid =
         [](const Grayscale& p, Extent, const Hardware& gpu) {
           return with_groups(p.out.elements(), gpu,
                              [&](auto groups) { return grid_of_pixels(p, kWidePixels<groups>); });
         },
     .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
       with_channels(p, [&](auto channels) {
         with_groups(p.out.elements(), go.hardware, [&](auto groups) {
           launch(go, grayscale_wide<channels, groups>, line_of<channels>(p));
         });
       });
     })},
};

}  // namespace

Ladder<Grayscale> grayscale_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

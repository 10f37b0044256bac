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
constexpr Blocks kBlocks = {{{kThreads}, {128}, {512}}};

Extent grid_of_pixels(const Grayscale& p, std::int64_t pixels_per_block) {
  return grid_of(ceil_div(p.out.elements(), pixels_per_block), 1);
}

#ifdef __CUDACC__

// Launches the kernel for the number of channels.
using Kernel = void(const std::uint8_t* rgba, std::uint8_t* out, std::int64_t pixels);
template <Kernel* kOfRgba, Kernel* kOfRgb>
void run(const Grayscale& p, const Launch& go) {
  launch(go, p.channels() == 4 ? kOfRgba : kOfRgb, p.rgba.as<const std::uint8_t>(),
         p.out.as<std::uint8_t>(), p.out.elements());
}

// Computes the luminance of one pixel, byte by byte.
template <int kChannels>
__device__ void convert(const std::uint8_t* rgba, std::uint8_t* out, std::int64_t pixel) {
  const std::uint8_t* from = rgba + pixel * kChannels;
  out[pixel] = static_cast<std::uint8_t>(
      (from[0] * Grayscale::kRed + from[1] * Grayscale::kGreen + from[2] * Grayscale::kBlue) >>
      Grayscale::kShift);
}

#endif

// ---- naive --------------------------------------------------------------------------------------
// One thread per pixel. The work per block is so small that the GPU cannot launch blocks as fast as
// they finish. Blocks of 128 threads take 1.8 times as long as blocks of 256 (H200, 2026).
#ifdef __CUDACC__
template <int kChannels>
__global__ void grayscale_naive(const std::uint8_t* rgba, std::uint8_t* out, std::int64_t pixels) {
  const std::int64_t pixel = thread_x();
  if (pixel < pixels) convert<kChannels>(rgba, out, pixel);
}
#endif

constexpr Variant<Grayscale> kNaive = {
    .name = "naive",
    .changes = "One thread per pixel loads and multiplies its bytes one by one.",
    .blocks = kBlocks,
    .grid = [](const Grayscale& p, Extent block) { return grid_of_pixels(p, block.x); },
    .run = ADO_RUN(run<grayscale_naive<4>, grayscale_naive<3>>)};

// ---- two_pixels ---------------------------------------------------------------------------------
// Two pixels per thread: one load of 8 bytes or, with three channels, three loads of 2 bytes.
#ifdef __CUDACC__
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
__global__ void grayscale_two_pixels(const std::uint8_t* rgba, std::uint8_t* out,
                                     std::int64_t pixels) {
  using Pair = std::conditional_t<kChannels == 4, uint2, ushort3>;
  const std::int64_t pixel = 2 * (block_x() * blockDim.x + threadIdx.x);
  const std::uint8_t* from = rgba + pixel * kChannels;
  std::uint8_t* to = out + pixel;
  if (pixel + 2 <= pixels && starts_at_vector(from, alignof(Pair)) && starts_at_vector(to, 2)) {
    *reinterpret_cast<std::uint16_t*>(to) =
        static_cast<std::uint16_t>(luminances(*reinterpret_cast<const Pair*>(from)));
  } else {
    for (std::int64_t i = pixel; i < min(pixel + 2, pixels); ++i) convert<kChannels>(rgba, out, i);
  }
}
#endif

constexpr Variant<Grayscale> kTwoPixels = {
    .name = "two_pixels",
    .changes = {"Each thread loads and processes two pixels at a time, with dot products of bytes.",
                Step::kWider, Step::kOperations},
    .blocks = kBlocks,
    .grid = [](const Grayscale& p, Extent block) { return grid_of_pixels(p, 2 * block.x); },
    .run = ADO_RUN(run<grayscale_two_pixels<4>, grayscale_two_pixels<3>>)};

// ---- wide ---------------------------------------------------------------------------------------
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
template <int kGroups>
constexpr int kWidePixels = kThreads * 4 * kGroups;  // per block

#ifdef __CUDACC__
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
__global__ void __launch_bounds__(kThreads)
    grayscale_wide(const std::uint8_t* rgba, std::uint8_t* out, std::int64_t pixels) {
  using Group = std::conditional_t<kChannels == 4, uint4, uint3>;
  constexpr int kAll = kThreads * kGroups;
  const std::int64_t first = block_x() * kWidePixels<kGroups>;
  const int left = static_cast<int>(min(pixels - first, std::int64_t{4 * kAll}));
  const auto* from = reinterpret_cast<const Group*>(rgba + first * kChannels) + threadIdx.x;
  auto* to = reinterpret_cast<unsigned*>(out + first) + threadIdx.x;
  const int groups =
      starts_at_vector(from, alignof(Group)) && starts_at_vector(to, 4) ? left / 4 : 0;
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
    for (int i = 4 * groups + threadIdx.x; i < left; i += kThreads)
      convert<kChannels>(rgba, out, first + i);
  }
}
#endif

// Each thread has four groups of four pixels in flight. It has only one group if there would be few
// whole blocks per multiprocessor (H200, 2026), so that there are more blocks.
bool has_many_groups(const Grayscale& p, const Hardware& gpu) {
  constexpr double kFewBlocks = 7.75;
  const auto blocks = static_cast<double>(p.out.elements() / kWidePixels<4>);
  return blocks > kFewBlocks * gpu.multiprocessors;
}

constexpr Variant<Grayscale> kWide = {
    .name = "wide",
    .changes =
        {"Each thread keeps four loads of four pixels in flight and stores four pixels at a time.",
         Step::kInFlight, Step::kWider},
    .blocks = {{{kThreads}}},
    .grid =
        [](const Grayscale& p, Extent, const Hardware& gpu) {
          return grid_of_pixels(p, has_many_groups(p, gpu) ? kWidePixels<4> : kWidePixels<1>);
        },
    .run = ADO_RUN([](const Grayscale& p, const Launch& go) {
      if (has_many_groups(p, go.hardware))
        run<grayscale_wide<4, 4>, grayscale_wide<3, 4>>(p, go);
      else
        run<grayscale_wide<4, 1>, grayscale_wide<3, 1>>(p, go);
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Grayscale> kSteps[] = {kNaive, kTwoPixels, kWide};

}  // namespace

Ladder<Grayscale> grayscale_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  Grayscale p;
  p.rgba = cuda::random_array(kUint8, {4096, 4096, 4});
  p.out = cuda::random_array(kUint8, {4096, 4096});
  return cuda::run_ladder(cuda::grayscale_ladder(), p, [](const Grayscale& p) {
    for (std::int64_t i = 0; i < p.out.elements(); ++i) {
      const auto* const pixel = p.rgba.as<const std::uint8_t>() + 4 * i;
      p.out.as<std::uint8_t>()[i] =
          static_cast<std::uint8_t>((pixel[0] * Grayscale::kRed + pixel[1] * Grayscale::kGreen +
                                     pixel[2] * Grayscale::kBlue) >>
                                    Grayscale::kShift);
    }
  });
}
#endif

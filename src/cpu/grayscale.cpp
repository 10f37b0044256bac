// Grayscale on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/grayscale.hpp"

#include "cpu/image/row_kernels.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops --------------------------------------------------------------------------------
void naive_loops(const Grayscale& p, const Launch&) {
  Checkpoints checkpoints;
  for (int64_t i = 0; i < p.images(); ++i) {
    const Image rgba = colour_image_of(p.rgba, i), out = image_of(p.out, i);
    for (int64_t row = 0; row < p.rows(); ++row) {
      checkpoints.in_pieces(0, p.cols(), [&](int64_t begin, int64_t end) {
        for (int64_t col = begin; col < end; ++col) {
          const std::byte* pixel = rgba.at(row, col);
          const int red = static_cast<int>(pixel[0]);
          const int green = static_cast<int>(pixel[rgba.to_channel]);
          const int blue = static_cast<int>(pixel[2 * rgba.to_channel]);
          out.pixel(row, col) = static_cast<Pixel>(
              (red * Grayscale::kRed + green * Grayscale::kGreen + blue * Grayscale::kBlue) >>
              Grayscale::kShift);
        }
      });
    }
  }
}

constexpr Variant<Grayscale> kNaiveLoops = {
    .name = "naive_loops", .changes = "Converts one pixel at a time.", .run = naive_loops};

// ---- simd, prefetch, streaming, threaded --------------------------------------------------------
// Reshapes packed images to one row of one image. Other images are unchanged.
Grayscale in_one_row(const Grayscale& p) {
  if (!p.rgba.packed() || !p.out.packed()) return p;
  const auto row = [](const Array& a, int64_t cols, int64_t channels) {
    Array b{.data = a.data, .type = a.type, .rank = 3, .shape = {1, cols, channels}};
    return packed_like(b, a.data);
  };
  Grayscale q{row(p.rgba, p.out.elements(), p.channels()), row(p.out, p.out.elements(), 1)};
  q.out.rank = 2;
  return q;
}

// Prefetch distance in bytes, long enough to cover the memory latency. If the input exceeds the
// cache, prefetching makes one thread 1.3 to 1.8 times as fast and two threads up to 1.6 times.
// Half the distance gains half as much; twice the distance gains nothing more. Input in the cache
// does not get slower (Zen 5, 3840x2160).
constexpr int kAhead = 8192;

// If the pixels of an output row are contiguous, the row is stored directly. Bands of packed images
// are parts of one long row.
template <int kPrefetch, Stores kStores>
ADO_INLINE void gray_share(const Grayscale& p, int thread, int threads) {
  constexpr int64_t kWidest = 64 << 10;
  Checkpoints checkpoints;
  for_each_band<kWidest>(p.images(), p.rows(), p.cols(), thread, threads, [&](const Band& band) {
    const Image rgba = colour_image_of(p.rgba, band.image), out = image_of(p.out, band.image);
    for (int64_t row = band.top; row < band.bottom; ++row) {
      checkpoints.add(band.width());
      if (out.to_col == 1) {
        gray_row<kStores>(rgba, row, band.left, band.width(), kPrefetch,
                          &out.pixel(row, band.left));
        continue;
      }
      Pixel line[kBandWidth];
      for (int64_t left = band.left; left < band.right; left += kBandWidth) {
        const int64_t width = min(kBandWidth, band.right - left);
        gray_row<Stores::kExact>(rgba, row, left, width, kPrefetch, line);
        scatter(line, width, out.at(row, left), out.to_col, false);
      }
    }
  });
  if (kStores == Stores::kStreaming) finish_streaming();
}

template <int kPrefetch, Stores kStores>
void on_one_thread(const Grayscale& p, const Launch&) {
  if (p.out.elements() != 0) gray_share<kPrefetch, kStores>(in_one_row(p), 0, 1);
}

// ---- simd ---------------------------------------------------------------------------------------
constexpr Variant<Grayscale> kSimd = {
    .name = "simd",
    .changes = {"Computes one vector register of pixels at a time.", Step::kWider},
    .run = on_one_thread<0, Stores::kExact>};

// ---- prefetch -----------------------------------------------------------------------------------
constexpr Variant<Grayscale> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches the input 8 KiB ahead.", Step::kInFlight},
    .run = on_one_thread<kAhead, Stores::kExact>};

// ---- streaming ----------------------------------------------------------------------------------
constexpr Variant<Grayscale> kStreaming = {
    .name = "streaming",
    .changes = {"Stores the output with non-temporal stores, which do not read cache lines first.",
                Step::kDramReuse},
    .run = on_one_thread<kAhead, Stores::kStreaming>};

// ---- threaded -----------------------------------------------------------------------------------
void threaded(const Grayscale& p, const Launch&) {
  if (p.out.elements() == 0) return;
  const Grayscale q = in_one_row(p);
  const int64_t bytes = p.rgba.bytes() + p.out.bytes();
  in_parallel(threads_for(bytes), [&](int thread, int threads) {
    if (worth_streaming(bytes))
      gray_share<kAhead, Stores::kStreaming>(q, thread, threads);
    else
      gray_share<kAhead, Stores::kExact>(q, thread, threads);
  });
}

constexpr Variant<Grayscale> kThreaded = {
    .name = "threaded",
    .changes = {"Splits the pixels among threads; small images are stored with ordinary stores.",
                Step::kParallelism},
    .run = threaded};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Grayscale> kSteps[] = {kNaiveLoops, kSimd, kPrefetch, kStreaming, kThreaded};

}  // namespace

Ladder<Grayscale> grayscale_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA

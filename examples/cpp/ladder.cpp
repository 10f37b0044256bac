// Example of the C++ interface: runs transpose and gaussian_blur on its own buffers, then lists a
// ladder and times its CPU variants. Exits with 1 if a result is wrong.
#include <adokernels.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

using ado::array_of;

bool transpose_own_buffers() {
  constexpr std::int64_t kRows = 300, kCols = 200;
  std::vector<float> a(kRows * kCols), out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  ado::run(ado::routine("transpose"), {array_of(a.data(), {kRows, kCols})},
           {array_of(out.data(), {kCols, kRows})});
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t col = 0; col < kCols; ++col)
      if (out[col * kRows + row] != a[row * kCols + col]) return false;
  return true;
}

// Blurs a single bright pixel. The result is the outer product of the taps: 255 * 16 / 256 in the
// middle.
bool blur_own_buffers() {
  constexpr std::int64_t kSide = 15, kMiddle = kSide / 2;
  std::vector<std::uint8_t> image(kSide * kSide), out(image.size());
  image[kMiddle * kSide + kMiddle] = 255;
  ado::run(ado::routine("gaussian_blur"), {array_of(image.data(), {kSide, kSide})},
           {array_of(out.data(), {kSide, kSide})}, {.options = {{"border", "replicate"}}});
  return out[kMiddle * kSide + kMiddle] == 255 * 16 / 256 && out[0] == 0;
}

void time_a_ladder() {
  constexpr std::int64_t kSide = 1024;
  std::vector<float> a(kSide * kSide, 1.0F), out(a.size());
  const ado::Routine& transpose = ado::routine("transpose");
  const auto problem = ado::bind(transpose, {array_of(a.data(), {kSide, kSide})},
                                 {array_of(out.data(), {kSide, kSide})});
  for (const ado::AnyVariant* variant : transpose.variants()) {
    std::printf("%-14s %-5s %s\n", variant->name, ado::name_of(variant->device), variant->changes);
    if (variant->device != ado::Device::kCpu || variant->why_not(*problem) != nullptr) continue;
    ado::Call call(*problem, *variant, {});
    double best = ado::sample(call, /*cold=*/true, 1).seconds;
    for (int i = 0; i < 9; ++i) best = std::min(best, ado::sample(call, true, 1).seconds);
    std::printf("%20s %.1f us, %.1f GB/s\n", "", 1e6 * best, 1e-9 * call.cost().bytes / best);
  }
}

}  // namespace

int main() {
  const bool transposed = transpose_own_buffers(), blurred = blur_own_buffers();
  std::printf("transpose: %s\ngaussian_blur: %s\n\n", transposed ? "right" : "WRONG",
              blurred ? "right" : "WRONG");
  time_a_ladder();
  return transposed && blurred ? 0 : 1;
}

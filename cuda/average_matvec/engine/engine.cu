// average_matvec, engine: variants for large problems, few sets and small problems, and the choice
// among all variants. The default is the last variant that can solve the problem and has no reason
// below. Read row_averages.cuh, product_tile.cuh and overlapped.cuh first: they continue the steps
// for large problems.
#include "average_matvec/engine/cluster.cuh"
#include "average_matvec/engine/overlapped.cuh"
#include "common/ladder.cuh"

namespace ado::cuda {

Ladder<AverageMatvec> average_matvec_steps();

namespace {

// With the project's own product tiles instead of cuBLAS as the alternative, `overlapped` is faster
// for more shapes. If the read does not hide the product, wide_average is 1.07 to 1.35 times as
// fast (L = 1024, M = 64; L = M = 64; L = 4096, M = 16; L = 256, M = 1; H200).
const char* why_overlapped_slower(const AverageMatvec& p) {
  constexpr std::int64_t kMinSamples = 256, kMaxElementsPerSample = 8;
  if (p.length() > kMaxElementsPerSample * p.samples())
    return "the product takes longer than the read, so the read cannot hide it";
  if (p.samples() < kMinSamples)
    return "with M below 256, the read is too short to hide the product";
  return nullptr;
}

// Returns true if `overlapped` is faster than separate averages and cuBLAS: by up to 8 % for N = L
// = 1024 and M = 512 in float32 (H200). In float64, cuBLAS uses tensor cores, and the product
// accounts for at most 2 % of the time.
bool read_hides_product(const AverageMatvec& p) {
  constexpr std::int64_t kMinSets = 32, kMinSamples = 500, kMaxElementsPerSample = 2,
                         kMinBytes = 64 << 20;
  return p.vectors.type == kFloat32 && p.length() % kVectorLength<float> == 0 &&
         p.sets() >= kMinSets && p.samples() >= kMinSamples &&
         p.length() <= kMaxElementsPerSample * p.samples() && p.vectors.bytes() >= kMinBytes;
}

const char* why_library_slower(const AverageMatvec& p) {
  return read_hides_product(p) ? "reading the vectors can hide the product" : nullptr;
}

// The largest L for which `row_product` is faster than cuBLAS, for up to sets[i] sets (H200). The
// limits do not decrease evenly, because cuBLAS selects its kernels by shape and alignment.
// With few sets, the product is memory-bound, so the limit is larger. With many sets, `row_product`
// is faster only up to the L at which cuBLAS uses most multiprocessors.
struct Crossovers {
  std::array<std::int64_t, 8> sets, aligned, unaligned;  // rows of the matrix start at a vector
};
constexpr std::int64_t kAny = INT64_MAX;
constexpr Crossovers kFloat32Crossovers{.sets = {1, 4, 8, 16, 48, 64, 128, 256},
                                        .aligned = {kAny, kAny, kAny, 2400, 900, 600, 600, 300},
                                        .unaligned = {1100, kAny, 4500, 2400, 900, 600, 600, 300}};
constexpr Crossovers kFloat64Crossovers{.sets = {1, 3, 8, 16, 24, 32, 64, 256},
                                        .aligned = {1500, kAny, 5000, 500, 400, 250, 120, 64},
                                        .unaligned = {1500, kAny, kAny, 500, 400, 250, 120, 64}};

std::int64_t longest_row_product(const AverageMatvec& p) {
  const Crossovers& found = p.matrix.type == kFloat32 ? kFloat32Crossovers : kFloat64Crossovers;
  const bool aligned = p.length() * p.matrix.type.size % kVectorBytes == 0;
  std::size_t i = 0;
  while (i < found.sets.size() && p.sets() > found.sets[i]) ++i;
  return i == found.sets.size() ? 0 : aligned ? found.aligned[i] : found.unaligned[i];
}

const char* why_row_product_slower(const AverageMatvec& p) {
  constexpr std::int64_t kShortRow = 400, kFewSets = 16;  // H100
  constexpr std::int64_t kTinyMatrix = 16;                // H200
  if (p.sets() == 1 && p.samples() == 1 && p.length() <= kShortRow)
    return "cuBLAS is faster for one short vector";
  if (p.sets() > kFewSets && p.length() <= kTinyMatrix)
    return "the matrix is too small to be divided among blocks";
  if (p.length() > longest_row_product(p)) return "cuBLAS is faster for this L and number of sets";
  return nullptr;
}

const char* why_cluster_slower(const AverageMatvec& p, const Hardware& gpu) {
  constexpr std::int64_t kMaxSets = 4, kMaxSamples = 24 << 10;  // per cluster (H100)
  constexpr std::int64_t kMaxMatrixBytes = 3 << 20;             // H100
  constexpr double kMaxWaves = 1.5;                             // H100
  const bool aligned = p.length() * p.matrix.type.size % kVectorBytes == 0;
  if (p.samples() == 1 && (aligned || p.sets() > kMaxSets))
    return "without averages, other variants need only one launch as well";
  const ClusterPlan plan = cluster_plan(p, gpu);
  const auto blocks = static_cast<double>(plan.slices * plan.cluster * plan.tiles);
  if (plan.sets > kMaxSets || p.matrix.bytes() > kMaxMatrixBytes ||
      blocks > kMaxWaves * static_cast<double>(one_wave(gpu)))
    return "the product takes longer than a second launch";
  if (plan.sets * p.length() * p.samples() > kMaxSamples)
    return "reading the vectors once per cluster takes longer than a second launch";
  return nullptr;
}

constexpr Choice<AverageMatvec> kChoices[] = {{"overlapped", why_overlapped_slower},
                                              {"split_average_then_gemm", why_library_slower},
                                              {"row_product", why_row_product_slower},
                                              {"cluster", why_cluster_slower}};

constexpr Variant<AverageMatvec> kEngine[] = {kWideAverage, kOverlapped, kSplitAverageThenGemm,
                                              kRowProduct, kCluster};

}  // namespace

Ladder<AverageMatvec> average_matvec_ladder() {
  static const auto ladder = with_engine(average_matvec_steps(), kEngine, kChoices);
  return {ladder.data(), ladder.size()};
}

}  // namespace ado::cuda

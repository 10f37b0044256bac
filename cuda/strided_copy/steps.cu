// Strided copy on the GPU: out[i] = x[offset + i * stride]. The variants range from one element per
// thread to whole sectors.
#include "routines/strided_copy.hpp"

#include "strided/selection.cuh"

namespace ado::cuda {
namespace {

struct Elements {
  using Routine = StridedCopy;
  // Kernels receive x packed. Costs are also computed for host arrays with other layouts.
  static Array selected(const StridedCopy& p) {
    StridedCopy packed = p;
    packed.x = packed_like(p.x, p.x.data);
    return packed.selected();
  }
  static const Array& source(const StridedCopy& p) { return p.x; }

  static constexpr const char
      *kUnaligned = "x is not aligned to a sector",
      *kTooFewToBatch =
          "the result is small, so one element per thread keeps more multiprocessors busy",
      *kTooFarApart = "elements are so far apart that a tile holds fewer than 32 of them",
      *kUnusedSectors =
          "elements are more than a sector apart, so staging would load unused sectors",
      *kTooFewToStage = "the result is small, so barriers cost more than the saved requests";
};

// ---- sectors ------------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kSectors = sectors_row<Elements>(
    "sectors",
    "Reads all sectors that contain selected elements and writes out, without selecting.");

// ---- naive --------------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kNaive =
    naive_row<Elements>("naive", "One thread per element: strided loads, coalesced stores.");

// ---- batched ------------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kBatched = batched_row<Elements>("batched");

// ---- staged -------------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kStaged = staged_row<Elements>(
    "staged", {"Loads whole sectors with 16-byte accesses and selects elements in shared memory.",
               Step::kCoalescing, Step::kWider});

// -------------------------------------------------------------------------------------------------

constexpr Variant<StridedCopy> kSteps[] = {kSectors, kNaive, kBatched, kStaged};

}  // namespace

Ladder<StridedCopy> strided_copy_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  StridedCopy p;
  p.stride = 4;
  p.x = cuda::random_array(kFloat32, {128 << 20});
  p.out = cuda::random_array(kFloat32, {32 << 20});
  return cuda::run_ladder(cuda::strided_copy_ladder(), p, [](const StridedCopy& p) {
    for (std::int64_t i = 0; i < p.out.elements(); ++i)
      p.out.as<float>()[i] = p.x.as<const float>()[p.offset + i * p.stride];
  });
}
#endif

// Component on the GPU: out[i] = points[i, c]. The layout of the points determines how many bytes
// are transferred.
//
//   array of structures    x0 y0 z0 x1 y1 z1 x2 y2 z2 ...     every sector contains x, y and z
//   structure of arrays    x0 x1 x2 ... y0 y1 y2 ... z0 ...   sectors of x contain no y and no z
//
// An (N, C) array is an array of structures. The transpose of a (C, N) array has the same shape,
// and is a structure of arrays.
#include "routines/component.hpp"

#include "strided/selection.cuh"

namespace ado::cuda {

namespace {

struct Points {
  using Routine = Component;
  // Costs are also computed for host arrays with other layouts, which are packed before a launch.
  static Array selected(const Component& p) {
    Component packed = p;
    if (!p.takes_layout(p.points)) packed.points = packed_like(p.points, p.points.data);
    return packed.selected();
  }
  static const Array& source(const Component& p) { return p.points; }

  static constexpr const char
      *kUnaligned = "points is not aligned to a sector",
      *kTooFewToBatch =
          "there are few points, so one point per thread keeps more multiprocessors busy",
      *kTooFarApart = "points are so large that a tile holds fewer than 32 of them",
      *kUnusedSectors = "points are larger than a sector, so staging would load unused sectors",
      *kTooFewToStage = "there are few points, so barriers cost more than the saved requests";
};

// ---- sectors ------------------------------------------------------------------------------------
constexpr Variant<Component> kSectors = sectors_row<Points>(
    "sectors", "Reads all sectors that contain the component and writes out, without selecting.");

// ---- array_of_structures ------------------------------------------------------------------------
constexpr Variant<Component> kArrayOfStructures = naive_row<Points>(
    "array_of_structures", "One thread per point: strided loads, coalesced stores.");

// ---- batched ------------------------------------------------------------------------------------
constexpr Variant<Component> kBatched = batched_row<Points>("batched");

// ---- staged -------------------------------------------------------------------------------------
constexpr Variant<Component> kStaged = staged_row<Points>(
    "staged",
    {"Loads whole points with 16-byte accesses and selects the component in shared memory.",
     Step::kCoalescing, Step::kWider});

// ---- structure_of_arrays ------------------------------------------------------------------------
// One 16-byte vector of the result per thread. If the component or the result is not aligned, the
// thread loads or stores single elements.
#ifdef __CUDACC__
template <class T>
__global__ void component_contiguous(const T* x, std::int64_t, T* out, std::int64_t points) {
  using Wide = WideVector<T>;
  constexpr int kLength = kVectorLength<T>;
  const std::int64_t first = thread_x() * kLength;
  const T* const from = x + first;
  T* const to = out + first;
  const auto count = static_cast<int>(min(points - first, std::int64_t{kLength}));
  if (count == kLength && reinterpret_cast<std::uintptr_t>(from) % kVectorBytes == 0 &&
      reinterpret_cast<std::uintptr_t>(to) % kVectorBytes == 0) {
    *reinterpret_cast<Wide*>(to) = *reinterpret_cast<const Wide*>(from);
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}
#endif

constexpr Variant<Component> kStructureOfArrays = {
    .name = "structure_of_arrays",
    .changes = {"Copies a contiguous component with 16-byte accesses.", Step::kCoalescing,
                Step::kWider},
    .why_not =
        [](const Component& p) {
          return step_bytes<Points>(p) == p.points.type.size ? nullptr
                                                             : "points is an array of structures";
        },
    .blocks = kSelectionBlocks,
    .grid =
        [](const Component& p, Extent block) {
          const std::int64_t per_block = std::int64_t{block.x} * kVectorBytes / p.points.type.size;
          return grid_of(ceil_div(p.out.elements(), per_block), 1);
        },
    .bytes = bytes_of_sectors<Points>,
    .run = ADO_RUN([](const Component& p, const Launch& go) {
      with_size(p.points.type.size, [&](auto size) {
        using T = Element<size>;
        launch_selection<T>(go, component_contiguous<T>, Points::selected(p), p.out);
      });
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Component> kSteps[] = {kSectors, kArrayOfStructures, kBatched, kStaged,
                                         kStructureOfArrays};

}  // namespace

Ladder<Component> component_ladder() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  Component p;
  p.points = cuda::random_array(kFloat32, {32 << 20, 3});
  p.out = cuda::random_array(kFloat32, {32 << 20});
  return cuda::run_ladder(cuda::component_ladder(), p, [](const Component& p) {
    for (std::int64_t i = 0; i < p.out.elements(); ++i)
      p.out.as<float>()[i] = p.points.as<const float>()[3 * i + p.c];
  });
}
#endif

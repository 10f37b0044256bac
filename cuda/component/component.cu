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

#ifdef __CUDACC__

// One 16-byte vector of the result per thread. If the component or the result is not aligned, the
// thread loads or stores single elements.
template <class T>
__global__ void component_contiguous(Selection<T> s) {
  using Wide = WideVector<T>;
  constexpr int kLength = kVectorLength<T>;
  const std::int64_t first = thread_x() * kLength;
  const T* const from = s.from + first;
  T* const to = s.out + first;
  const auto count = static_cast<int>(min(s.count - first, std::int64_t{kLength}));
  if (count == kLength && reinterpret_cast<std::uintptr_t>(from) % kVectorBytes == 0 &&
      reinterpret_cast<std::uintptr_t>(to) % kVectorBytes == 0) {
    *reinterpret_cast<Wide*>(to) = *reinterpret_cast<const Wide*>(from);
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}

#endif

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

const char* why_not_contiguous(const Component& p) {
  return step_bytes<Points>(p) == p.points.type.size ? nullptr : "points is an array of structures";
}

constexpr Variant<Component> kVariants[] = {
    sectors_row<Points>(
        "sectors",
        "Reads all sectors that contain the component and writes out, without selecting."),
    naive_row<Points>("array_of_structures",
                      "One thread per point: strided loads, coalesced stores."),
    batched_row<Points>("batched"),
    staged_row<Points>(
        "staged",
        {"Loads whole points with 16-byte accesses and selects the component in shared memory.",
         Step::kCoalescing, Step::kWider}),
    {.name = "structure_of_arrays",
     .changes = {"Copies a contiguous component with 16-byte accesses.", Step::kCoalescing,
                 Step::kWider},
     .why_not = why_not_contiguous,
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
         launch(go, component_contiguous<T>, selection_of<T>(Points::selected(p), p.out));
       });
     })},
};

}  // namespace

Ladder<Component> component_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

// Component on the GPU: out[i] = points[i, c]. The layout of the points determines how many bytes
// are transferred.
//
//   array of structures    x0 y0 z0 x1 y1 z1 x2 y2 z2 ...     every sector contains x, y and z
//   structure of arrays    x0 x1 x2 ... y0 y1 y2 ... z0 ...   sectors of x contain no y and no z
//
// An (N, C) array is an array of structures. The transpose of a (C, N) array has the same shape,
// and is a structure of arrays.
//
// Read the files in this order. This file has the list of variants. clang-format off
#include "component/contiguous.cuh"   // structure_of_arrays
#include "strided/element_steps.cuh"  // array_of_structures, batched
#include "strided/sectors.cuh"        // the ceiling
#include "strided/selection.cuh"      // the operands
#include "strided/staged.cuh"         // staged
// clang-format on

#include "routines/component.hpp"

namespace ado::cuda {
namespace {

// The selected component, in the layout in which kernels receive the points. Costs are also
// computed for host arrays with other layouts, which are packed before a launch.
Array selected(const Component& p) {
  Component packed = p;
  if (!p.takes_layout(p.points)) packed.points = packed_like(p.points, p.points.data);
  return packed.selected();
}

// Bytes from the component of one point to the component of the next point.
std::int64_t step_bytes(const Component& p) { return selected(p).stride[0]; }

Extent grid_of_points(const Component& p, std::int64_t per_block) {
  return grid_of(ceil_div(p.out.elements(), per_block), 1);
}

// The bytes of all touched sectors and of the result.
double bytes_of_sectors(const Component& p) {
  return sector_bytes(selected(p), p.points.data) + static_cast<double>(p.out.bytes());
}

const char* why_slower_batched(const Component& p, const Hardware& gpu) {
  return grid_of_points(p, 256 * kBatch).x < static_cast<unsigned>(gpu.multiprocessors)
             ? "there are few points, so one point per thread keeps more multiprocessors busy"
             : nullptr;
}

const char* why_not_staged(const Component& p) {
  return staged_elements(step_bytes(p)) > 0
             ? nullptr
             : "points are so large that a tile holds fewer than 32 of them";
}

const char* why_slower_staged(const Component& p, const Hardware&) {
  if (step_bytes(p) > kSectorBytes)
    return "points are larger than a sector, so staging would load unused sectors";
  return p.out.elements() < kFewestStagedResults
             ? "there are few points, so barriers cost more than the saved requests"
             : nullptr;
}

const char* why_not_contiguous(const Component& p) {
  return step_bytes(p) == p.points.type.size ? nullptr : "points is an array of structures";
}

const char* why_not_sectors(const Component& p) {
  if (!starts_at_vector(p.points.data, kSectorBytes)) return "points is not aligned to a sector";
  return starts_at_vector(p.out.data) ? nullptr : "out is not aligned to 16 bytes";
}

constexpr Variant<Component> kVariants[] = {
    {.name = "sectors",
     .changes = "Reads all sectors that contain the component and writes out, without selecting.",
     .device = Device::kCuda,
     .ceiling = true,
     .why_not = why_not_sectors,
     .blocks = {{{kSectorThreads}}},
     .grid = [](const Component& p, Extent) { return grid_of_sectors(p.out); },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const Component& p, const Launch& go) {
       const Array from = selected(p);
       launch(go, copy_sectors, from.data, from.stride[0], p.out.as<uint4>(), whole_vectors(p.out),
              p.points.data + p.points.bytes(), vectors_per_result(from));
     })},
    {.name = "array_of_structures",
     .changes = "One thread per point: strided loads, coalesced stores.",
     .device = Device::kCuda,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const Component& p, Extent block) { return grid_of_points(p, block.x); },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const Component& p, const Launch& go) {
       with_size(p.points.type.size, [&](auto size) {
         using T = Element<size>;
         launch(go, select_naive<T>, selection_of<T>(selected(p), p.out));
       });
     })},
    {.name = "batched",
     .changes = "Each thread issues four loads before its first store.",
     .device = Device::kCuda,
     .why_slower = why_slower_batched,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const Component& p,
                Extent block) { return grid_of_points(p, std::int64_t{block.x} * kBatch); },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const Component& p, const Launch& go) {
       with_size(p.points.type.size, [&](auto size) {
         using T = Element<size>;
         launch(go, select_batched<T>, selection_of<T>(selected(p), p.out));
       });
     })},
    {.name = "staged",
     .changes =
         "Loads whole points with 16-byte accesses and selects the component in shared memory.",
     .device = Device::kCuda,
     .why_not = why_not_staged,
     .why_slower = why_slower_staged,
     .blocks = {{{kStagedThreads}}},
     .grid = [](const Component& p,
                Extent) { return grid_of_points(p, staged_elements(step_bytes(p))); },
     .bytes =
         [](const Component& p) {
           return static_cast<double>(p.out.elements() * step_bytes(p) + p.out.bytes());
         },
     .run = ADO_RUN([](const Component& p, const Launch& go) {
       with_size(p.points.type.size, [&](auto size) {
         using T = Element<size>;
         launch(go, select_staged<T>, selection_of<T>(selected(p), p.out), p.points.as<const T>(),
                p.points.as<const T>() + p.points.elements(), staged_elements(step_bytes(p)));
       });
     })},
    {.name = "structure_of_arrays",
     .changes = "Copies a contiguous component with 16-byte accesses.",
     .device = Device::kCuda,
     .why_not = why_not_contiguous,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid =
         [](const Component& p, Extent block) {
           return grid_of_points(p, std::int64_t{block.x} * kVectorBytes / p.points.type.size);
         },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const Component& p, const Launch& go) {
       with_size(p.points.type.size, [&](auto size) {
         using T = Element<size>;
         launch(go, component_contiguous<T>, selection_of<T>(selected(p), p.out));
       });
     })},
};

}  // namespace

Ladder<Component> component_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

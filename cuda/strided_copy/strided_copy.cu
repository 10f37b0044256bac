// Strided copy on the GPU: out[i] = x[offset + i * stride]. The variants range from one element per
// thread to whole sectors.
//
// Read the files in this order. This file has the list of variants. clang-format off
#include "strided/element_steps.cuh"  // naive, batched
#include "strided/sectors.cuh"        // the ceiling
#include "strided/selection.cuh"      // the operands
#include "strided/staged.cuh"         // staged
// clang-format on

#include "routines/strided_copy.hpp"

namespace ado::cuda {
namespace {

// The selected elements of packed x. Kernels receive x packed. Costs are also computed for host
// arrays with other layouts.
Array selected(const StridedCopy& p) {
  StridedCopy packed = p;
  packed.x = packed_like(p.x, p.x.data);
  return packed.selected();
}

// Bytes from one selected element to the next.
std::int64_t step_bytes(const StridedCopy& p) { return selected(p).stride[0]; }

Extent grid_of_elements(const StridedCopy& p, std::int64_t per_block) {
  return grid_of(ceil_div(p.out.elements(), per_block), 1);
}

// The bytes of all touched sectors and of the result.
double bytes_of_sectors(const StridedCopy& p) {
  return sector_bytes(selected(p), p.x.data) + static_cast<double>(p.out.bytes());
}

const char* why_slower_batched(const StridedCopy& p, const Hardware& gpu) {
  return grid_of_elements(p, 256 * kBatch).x < static_cast<unsigned>(gpu.multiprocessors)
             ? "the result is small, so one element per thread keeps more multiprocessors busy"
             : nullptr;
}

const char* why_not_staged(const StridedCopy& p) {
  return staged_elements(step_bytes(p)) > 0
             ? nullptr
             : "elements are so far apart that a tile holds fewer than 32 of them";
}

const char* why_slower_staged(const StridedCopy& p, const Hardware&) {
  if (step_bytes(p) > kSectorBytes)
    return "elements are more than a sector apart, so staging would load unused sectors";
  return p.out.elements() < kFewestStagedResults
             ? "the result is small, so barriers cost more than the saved requests"
             : nullptr;
}

const char* why_not_sectors(const StridedCopy& p) {
  if (!starts_at_vector(p.x.data, kSectorBytes)) return "x is not aligned to a sector";
  return starts_at_vector(p.out.data) ? nullptr : "out is not aligned to 16 bytes";
}

constexpr Variant<StridedCopy> kVariants[] = {
    {.name = "sectors",
     .changes =
         "Reads all sectors that contain selected elements and writes out, without selecting.",
     .device = Device::kCuda,
     .ceiling = true,
     .why_not = why_not_sectors,
     .blocks = {{{kSectorThreads}}},
     .grid = [](const StridedCopy& p, Extent) { return grid_of_sectors(p.out); },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const StridedCopy& p, const Launch& go) {
       const Array from = selected(p);
       launch(go, copy_sectors, from.data, from.stride[0], p.out.as<uint4>(), whole_vectors(p.out),
              p.x.data + p.x.bytes(), vectors_per_result(from));
     })},
    {.name = "naive",
     .changes = "One thread per element: strided loads, coalesced stores.",
     .device = Device::kCuda,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const StridedCopy& p, Extent block) { return grid_of_elements(p, block.x); },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const StridedCopy& p, const Launch& go) {
       with_size(p.x.type.size, [&](auto size) {
         launch(go, select_naive<Element<size>>, selection_of<Element<size>>(selected(p), p.out));
       });
     })},
    {.name = "batched",
     .changes = "Each thread issues four loads before its first store.",
     .device = Device::kCuda,
     .why_slower = why_slower_batched,
     .blocks = {{{256}, {128}, {512}, {1024}}},
     .grid = [](const StridedCopy& p,
                Extent block) { return grid_of_elements(p, std::int64_t{block.x} * kBatch); },
     .bytes = bytes_of_sectors,
     .run = ADO_RUN([](const StridedCopy& p, const Launch& go) {
       with_size(p.x.type.size, [&](auto size) {
         launch(go, select_batched<Element<size>>, selection_of<Element<size>>(selected(p), p.out));
       });
     })},
    {.name = "staged",
     .changes = "Loads whole sectors with 16-byte accesses and selects elements in shared memory.",
     .device = Device::kCuda,
     .why_not = why_not_staged,
     .why_slower = why_slower_staged,
     .blocks = {{{kStagedThreads}}},
     .grid = [](const StridedCopy& p,
                Extent) { return grid_of_elements(p, staged_elements(step_bytes(p))); },
     .bytes =
         [](const StridedCopy& p) {
           return static_cast<double>(p.out.elements() * step_bytes(p) + p.out.bytes());
         },
     .run = ADO_RUN([](const StridedCopy& p, const Launch& go) {
       with_size(p.x.type.size, [&](auto size) {
         using T = Element<size>;
         launch(go, select_staged<T>, selection_of<T>(selected(p), p.out), p.x.as<const T>(),
                p.x.as<const T>() + p.x.elements(), staged_elements(step_bytes(p)));
       });
     })},
};

}  // namespace

Ladder<StridedCopy> strided_copy_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

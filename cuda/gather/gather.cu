// Gather on the GPU: out[i] = x[index[i]]. The variants range from one index per thread to vectors
// of indices.
//
// The indices determine how many sectors the loads of x touch: as many as in a copy if the index is
// sorted, one per element if it is random. `ado.sectors` counts them. The requested bytes below are
// those that the threads request, because the costs of a problem do not depend on its values.
//
// Read the files in this order. This file has the list of variants. clang-format off
#include "gather/element_steps.cuh"  // naive, batched
#include "gather/operands.cuh"       // the operands
#include "gather/vector_steps.cuh"   // vector_index, evict_first, the ceiling
// clang-format on

namespace ado::cuda {
namespace {

Extent grid_of_elements(const Gather& p, std::int64_t per_block) {
  return grid_of(ceil_div(p.count(), per_block), 1);
}

double bytes_of_elements(const Gather& p) {
  return static_cast<double>(p.index.bytes() + 2 * p.out.bytes());
}

const char* why_slower_batched(const Gather& p, const Hardware& gpu) {
  return grid_of_elements(p, 256 * kGatherBatch).x < static_cast<unsigned>(gpu.multiprocessors)
             ? "the result is small, so one element per thread keeps more multiprocessors busy"
             : nullptr;
}

// On an H200, with random and with sorted indices of 1.5 Ki to 64 Mi elements, vector_index and
// evict_first take 0.99 to 1.08 times the time of batched: the loads of x are the limiter.
const char* why_slower_vectors(const Gather&, const Hardware&) {
  return "the loads of x are the limiter, so batched is at least as fast";
}

const char* why_not_vectors(const Gather& p) {
  if (!starts_at_vector(p.index.data)) return "index is not aligned to 16 bytes";
  return starts_at_vector(p.out.data) ? nullptr : "out is not aligned to 16 bytes";
}

const char* why_not_in_order(const Gather& p) {
  if (!starts_at_vector(p.x.data)) return "x is not aligned to 16 bytes";
  if (p.length() < kGathered) return "x has fewer than 4 elements";
  return why_not_vectors(p);
}

constexpr Blocks kBlocks = {{{256}, {128}, {512}, {1024}}};

Extent grid_of_vectors(const Gather& p, Extent block) {
  return grid_of_elements(p, std::int64_t{block.x} * kGathered);
}

constexpr Variant<Gather> kVariants[] = {
    {.name = "in_order",
     .changes = "Reads the index, and reads x in order instead of the selected elements.",
     .device = Device::kCuda,
     .ceiling = true,
     .why_not = why_not_in_order,
     .blocks = kBlocks,
     .grid = grid_of_vectors,
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_in_order<T, Index>, operands_of<T, Index>(p), p.length() / kGathered);
       });
     })},
    {.name = "naive",
     .changes = "One thread per element loads its index and then the element.",
     .device = Device::kCuda,
     .blocks = kBlocks,
     .grid = [](const Gather& p, Extent block) { return grid_of_elements(p, block.x); },
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_naive<T, Index>, operands_of<T, Index>(p));
       });
     })},
    {.name = "batched",
     .changes = "Each thread issues four loads of indices, then four loads of elements.",
     .device = Device::kCuda,
     .why_slower = why_slower_batched,
     .blocks = kBlocks,
     .grid = [](const Gather& p,
                Extent block) { return grid_of_elements(p, std::int64_t{block.x} * kGatherBatch); },
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_batched<T, Index>, operands_of<T, Index>(p));
       });
     })},
    {.name = "vector_index",
     .changes = "Loads indices with 16-byte accesses and stores neighbouring elements as vectors.",
     .device = Device::kCuda,
     .why_not = why_not_vectors,
     .why_slower = why_slower_vectors,
     .blocks = kBlocks,
     .grid = grid_of_vectors,
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_vectors<false, T, Index>, operands_of<T, Index>(p));
       });
     })},
    {.name = "evict_first",
     .changes =
         "Accesses indices and results with an evict-first hint, so that L2 keeps more of x.",
     .device = Device::kCuda,
     .why_not = why_not_vectors,
     .why_slower = why_slower_vectors,
     .blocks = kBlocks,
     .grid = grid_of_vectors,
     .bytes = bytes_of_elements,
     .run = ADO_RUN([](const Gather& p, const Launch& go) {
       with_types(p, [&]<class Index>(auto size, Index) {
         using T = Element<size>;
         launch(go, gather_vectors<true, T, Index>, operands_of<T, Index>(p));
       });
     })},
};

}  // namespace

Ladder<Gather> gather_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda

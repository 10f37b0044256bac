// Strided copy on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/strided_copy.hpp"

#include "cpu/strided/selection.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops --------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kNaiveLoops = {.name = "naive_loops",
                                              .changes = "Copies one element at a time.",
                                              .run = pack<StridedCopy, NaiveLoops>};

// ---- simd ---------------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kSimd = {
    .name = "simd",
    .changes = {"Loads whole vectors and selects elements in registers if the stride is at most 4.",
                Step::kWider},
    .run = pack<StridedCopy, Simd>};

// ---- prefetch -----------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches 64 selected elements ahead if cache lines contain few of them.",
                Step::kInFlight},
    .run = pack<StridedCopy, Prefetched>};

// ---- streaming ----------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kStreaming = {
    .name = "streaming",
    .changes = {"Stores a result larger than the cache with non-temporal stores.",
                Step::kDramReuse},
    .run = pack<StridedCopy, Streaming>};

// ---- threaded -----------------------------------------------------------------------------------
constexpr Variant<StridedCopy> kThreaded = {
    .name = "threaded",
    .changes = {"Distributes the elements over the threads.", Step::kParallelism},
    .run = pack<StridedCopy, Threaded>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<StridedCopy> kSteps[] = {kNaiveLoops, kSimd, kPrefetch, kStreaming, kThreaded};

}  // namespace

// Copies with non-temporal stores, for results that are larger than the caches.
void stream_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  stream(to, from, bytes);
}

Ladder<StridedCopy> strided_copy_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA

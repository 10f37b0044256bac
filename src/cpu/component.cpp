// Component on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/component.hpp"

#include "cpu/strided/selection.hpp"

namespace ado::ADO_ISA {
namespace {

// ---- naive_loops --------------------------------------------------------------------------------
constexpr Variant<Component> kNaiveLoops = {.name = "naive_loops",
                                            .changes = "Copies one element at a time.",
                                            .run = pack<Component, NaiveLoops>};

// ---- simd ---------------------------------------------------------------------------------------
constexpr Variant<Component> kSimd = {
    .name = "simd",
    .changes = {"Loads whole vectors and selects elements in registers for up to 4 components.",
                Step::kWider},
    .run = pack<Component, Simd>};

// ---- prefetch -----------------------------------------------------------------------------------
constexpr Variant<Component> kPrefetch = {
    .name = "prefetch",
    .changes = {"Prefetches 64 selected elements ahead if cache lines contain few of them.",
                Step::kInFlight},
    .run = pack<Component, Prefetched>};

// ---- streaming ----------------------------------------------------------------------------------
constexpr Variant<Component> kStreaming = {
    .name = "streaming",
    .changes = {"Stores a result larger than the cache with non-temporal stores.",
                Step::kDramReuse},
    .run = pack<Component, Streaming>};

// ---- threaded -----------------------------------------------------------------------------------
constexpr Variant<Component> kThreaded = {
    .name = "threaded",
    .changes = {"Distributes the points over the threads.", Step::kParallelism},
    .run = pack<Component, Threaded>};

// -------------------------------------------------------------------------------------------------

constexpr Variant<Component> kSteps[] = {kNaiveLoops, kSimd, kPrefetch, kStreaming, kThreaded};

}  // namespace

Ladder<Component> component_ladder() { return ladder_of(kSteps); }

}  // namespace ado::ADO_ISA

// Components of points on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/component.hpp"

#include "core/isa.hpp"
#include "core/variant.hpp"
#include "cpu/strided/pack.hpp"

namespace ado::ADO_ISA {
namespace {

constexpr Variant<Component> kVariants[] = {
    {.name = "naive_loops",
     .changes = "Copies one element at a time.",
     .run = pack<Component, NaiveLoops>},
    {.name = "simd",
     .changes = "Loads whole vectors and selects elements in registers for up to 4 components.",
     .run = pack<Component, Simd>},
    {.name = "prefetch",
     .changes = "Prefetches 64 selected elements ahead if cache lines contain few of them.",
     .run = pack<Component, Prefetched>},
    {.name = "streaming",
     .changes = "Stores a result larger than the cache with non-temporal stores.",
     .run = pack<Component, Streaming>},
    {.name = "threaded",
     .changes = "Distributes the points over the threads.",
     .run = pack<Component, Threaded>},
};

}  // namespace

Ladder<Component> component_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA

// Strided copy on the CPU. One source, compiled once per instruction set (core/isa.hpp).
#include "routines/strided_copy.hpp"

#include "core/isa.hpp"
#include "core/variant.hpp"
#include "cpu/strided/pack.hpp"

namespace ado::ADO_ISA {
namespace {

constexpr Variant<StridedCopy> kVariants[] = {
    {.name = "naive_loops",
     .changes = "Copies one element at a time.",
     .run = pack<StridedCopy, NaiveLoops>},
    {.name = "simd",
     .changes = "Loads whole vectors and selects elements in registers if the stride is at most 4.",
     .run = pack<StridedCopy, Simd>},
    {.name = "prefetch",
     .changes = "Prefetches 64 selected elements ahead if cache lines contain few of them.",
     .run = pack<StridedCopy, Prefetched>},
    {.name = "streaming",
     .changes = "Stores a result larger than the cache with non-temporal stores.",
     .run = pack<StridedCopy, Streaming>},
    {.name = "threaded",
     .changes = "Distributes the elements over the threads.",
     .run = pack<StridedCopy, Threaded>},
};

}  // namespace

Ladder<StridedCopy> strided_copy_ladder() { return ladder_of(kVariants); }

}  // namespace ado::ADO_ISA

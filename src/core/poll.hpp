// The check for interruptions in the loops of CPU variants. It is separate from interrupt.hpp,
// because the files in src/cpu must not include inline functions (isa.hpp).
#pragma once

namespace ado {

// Throws Interrupted if the call must end. The check costs a few nanoseconds. On the calling
// thread, it also reads the clock, which costs 20 ns to some 100 ns.
void poll();

}  // namespace ado

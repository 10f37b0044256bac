// The check that the loops of CPU variants make. Apart from interrupt.hpp, because the files of
// src/cpu must not include inline functions (isa.hpp).
#pragma once

namespace ado {

// Throws Interrupted if the call is to end. Takes a few nanoseconds, or a clock reading (20 ns to
// some 100 ns) on the thread that made the call.
void poll();

}  // namespace ado

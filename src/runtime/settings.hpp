// Process-wide settings: the default device and the instruction set of the CPU ladders.
#pragma once

#include <string>

#include "core/isa.hpp"
#include "core/variant.hpp"

namespace ado {

const char* name_of(Device device);
Device device_named(const std::string& name);  // throws ValueError

// The GPU if there is one, else the CPU. The first call starts the CUDA driver, after which a
// forked child has no CUDA, not even from other libraries; so call this only when it matters.
Device default_device();
void set_default_device(Device device);  // throws Unavailable

// The instruction set whose CPU ladders run; at first the highest that is supported.
Isa isa();
void set_isa(Isa isa);

}  // namespace ado

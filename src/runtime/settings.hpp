// Process-wide settings: the default device and the instruction set of the CPU ladders.
#pragma once

#include <string>

#include "core/isa.hpp"
#include "core/variant.hpp"

namespace ado {

const char* name_of(Device device);
Device device_named(const std::string& name);  // throws ValueError

// The GPU if there is one, otherwise the CPU. The first call starts the CUDA driver. Child
// processes that are forked afterwards cannot use CUDA, not even from other libraries. So call this
// function only if the result is needed.
Device default_device();
void set_default_device(Device device);  // throws Unavailable

// The instruction set of the CPU ladders that run. Initially it is the highest supported one.
Isa isa();
void set_isa(Isa isa);

}  // namespace ado

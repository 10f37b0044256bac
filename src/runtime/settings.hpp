// Process-wide settings: the default device and the instruction set of the CPU ladders.
#pragma once

#include "core/isa.hpp"
#include "runtime/device_id.hpp"

namespace ado {

// The GPU if there is one, otherwise the CPU. The first call starts the CUDA driver. Child
// processes that are forked afterwards cannot use CUDA, not even from other libraries. So call this
// function only if the result is needed.
//
// If set_default_device has set no ordinal, the ordinal is kAnyGpu: calls use the current GPU of
// the calling thread.
DeviceId default_device();
void set_default_device(const DeviceId& device);  // throws Unavailable

// The instruction set of the CPU ladders that run. Initially it is the highest supported one.
Isa isa();
void set_isa(Isa isa);

}  // namespace ado

// The C++ interface of adokernels: list routines and variants, run them on your own buffers, time
// them. See examples/cpp.
#pragma once

#include "core/array.hpp"
#include "core/error.hpp"
#include "runtime/call.hpp"
#include "runtime/host.hpp"
#include "runtime/routine.hpp"
#include "runtime/settings.hpp"

// The C++ interface of adokernels: lists routines and variants, runs them on the caller's buffers,
// and times them. See examples/cpp.
#pragma once

#include "core/array.hpp"
#include "core/error.hpp"
#include "runtime/buffers.hpp"
#include "runtime/call.hpp"
#include "runtime/host.hpp"
#include "runtime/routine.hpp"

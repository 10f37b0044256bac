// The Python class DirectCall: a base class whose instances are called without a Python frame.
#pragma once

#include <pybind11/pybind11.h>

namespace ado::bindings {

void bind_direct_call(pybind11::module_& m);

}  // namespace ado::bindings

// The parts of the extension module. module.cpp calls them in order.
#pragma once

#include <pybind11/pybind11.h>

namespace ado::bindings {

void bind_arrays(pybind11::module_& m);
void bind_block_copies(pybind11::module_& m);
void bind_variants(pybind11::module_& m);
void bind_routines(pybind11::module_& m);
void bind_calls(pybind11::module_& m);
void bind_machine(pybind11::module_& m);
void bind_source_kernels(pybind11::module_& m);
void bind_emulator(pybind11::module_& m);
void bind_profiler(pybind11::module_& m);

}  // namespace ado::bindings

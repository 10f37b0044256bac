// The extension module, and the mapping of C++ errors to Python exceptions.
#include <exception>

#include "bindings/bind.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const TypeError& e) {
    py::set_error(PyExc_TypeError, e.what());
  } catch (const NameError& e) {
    py::set_error(PyExc_KeyError, e.what());
  } catch (const OutOfDeviceMemory& e) {
    py::set_error(PyExc_MemoryError, e.what());
  }
}

void bind_errors(py::module_& m) {
  py::register_exception<Unavailable>(m, "Unavailable", PyExc_RuntimeError).doc() =
      "The variant is not in this build, there is no device, or the device is too old.";
  py::register_exception<CudaError>(m, "CudaError", PyExc_RuntimeError).doc() =
      "A CUDA call failed. The message contains the call, its source location and the error.";
  py::register_exception_translator(translate);
}

}  // namespace
}  // namespace ado::bindings

PYBIND11_MODULE(_core, m) {
  using namespace ado::bindings;
  m.doc() = "The C++ core of adokernels.";
  bind_errors(m);
  bind_arrays(m);
  bind_block_copies(m);
  bind_variants(m);
  bind_routines(m);
  bind_calls(m);
  bind_machine(m);
  bind_source_kernels(m);
  bind_emulator(m);
  bind_profiler(m);
}

// C++ errors as Python exceptions.
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

}  // namespace

void bind_errors(py::module_& m) {
  py::register_exception<Unavailable>(m, "Unavailable", PyExc_RuntimeError).doc() =
      "Not in this build, no device, or a device that is too old.";
  py::register_exception<CudaError>(m, "CudaError", PyExc_RuntimeError).doc() =
      "A CUDA call failed; the message names the call, the place and the error.";
  py::register_exception_translator(translate);
}

}  // namespace ado::bindings

// The extension module, and the mapping of C++ errors to Python exceptions.
#include <exception>

#include "bindings/bind.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;

PyObject* kernel_error;  // the class

void raise(const KernelError& e) {
  const auto object = py::reinterpret_borrow<py::object>(kernel_error)(e.what());
  object.attr("kernel") = e.where.kernel;
  object.attr("kind") = e.where.kind;
  object.attr("file") = e.where.file;
  object.attr("line") = e.where.line;
  object.attr("thread") = py::make_tuple(e.where.thread[0], e.where.thread[1], e.where.thread[2]);
  object.attr("block") = py::make_tuple(e.where.block[0], e.where.block[1], e.where.block[2]);
  object.attr("array") = e.where.array;
  object.attr("byte") = e.where.byte;
  PyErr_SetObject(kernel_error, object.ptr());
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const TypeError& e) {
    py::set_error(PyExc_TypeError, e.what());
  } catch (const NameError& e) {
    py::set_error(PyExc_KeyError, e.what());
  } catch (const OutOfDeviceMemory& e) {
    py::set_error(PyExc_MemoryError, e.what());
  } catch (const KernelError& e) {
    raise(e);
  }
}

void bind_errors(py::module_& m) {
  py::register_exception<Unavailable>(m, "Unavailable", PyExc_RuntimeError).doc() =
      "The variant is not in this build, there is no device, or the device is too old.";
  auto& cuda_error = py::register_exception<CudaError>(m, "CudaError", PyExc_RuntimeError);
  cuda_error.doc() =
      "A CUDA call failed. The message contains the call, its source location and the error.";
  kernel_error = PyErr_NewExceptionWithDoc(
      "adokernels._core.KernelError",
      "The emulator found an error in a kernel.\n\n"
      "Attributes\n----------\n"
      "kernel, kind : str\n    The kernel, and the kind of error, such as ``\"race\"``.\n"
      "file, line : str, int\n    The source line.\n"
      "thread, block : tuple of int\n    Indices of the thread and of its block.\n"
      "array, byte : str, int\n    The operand and the byte in it; empty and 0 if not known.\n",
      cuda_error.ptr(), nullptr);
  m.add_object("KernelError", kernel_error);
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

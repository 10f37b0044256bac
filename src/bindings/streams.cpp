#include "bindings/streams.hpp"

#include <string>

#include "bindings/arrays.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

std::uintptr_t handle_from(const py::handle& number) {
  const auto value = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!value) throw py::error_already_set();
  const std::size_t handle = PyLong_AsSize_t(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ValueError("stream must be a stream handle, got " + std::string(py::str(value)));
  }
  return handle;
}

// Reads an attribute whose value is a handle: an integer, or a ctypes pointer as in Numba.
std::optional<std::uintptr_t> handle_attribute(const py::object& stream, const char* name) {
  py::object value = py::getattr(stream, name, py::none());
  if (py::hasattr(value, "value")) {
    value = value.attr("value");
    if (value.is_none()) return 0;
  }
  if (value.is_none() || PyIndex_Check(value.ptr()) == 0) return std::nullopt;
  return handle_from(value);
}

}  // namespace

std::optional<StreamHandle> stream_from_python(const py::object& stream) {
  if (stream.is_none()) return std::nullopt;
  if (py::isinstance<py::bool_>(stream))
    throw TypeError("stream must be a handle or a stream object, got bool");
  if (PyLong_Check(stream.ptr())) return StreamHandle{handle_from(stream)};
  if (py::hasattr(stream, "__cuda_stream__")) {
    py::object protocol = stream.attr("__cuda_stream__");
    if (PyCallable_Check(protocol.ptr()) != 0) protocol = protocol();
    const auto version_and_handle = protocol.cast<py::tuple>();
    if (version_and_handle.size() < 2)
      throw TypeError("stream.__cuda_stream__ must return a version and a handle, got " +
                      std::string(py::repr(version_and_handle)));
    return StreamHandle{handle_from(version_and_handle[1]), share(stream)};
  }
  for (const char* name : {"cuda_stream", "ptr", "handle"})  // torch; CuPy; Numba
    if (const auto handle = handle_attribute(stream, name))
      return StreamHandle{*handle, share(stream)};
  throw TypeError("stream must be a handle or a stream object, got " + type_name(stream));
}

}  // namespace ado::bindings

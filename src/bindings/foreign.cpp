#include "bindings/foreign.hpp"

#include <pybind11/gil_safe_call_once.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "bindings/arrays.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

Library library_of(PyTypeObject* type) {
  const py::object module =
      py::getattr(reinterpret_cast<PyObject*>(type), "__module__", py::none());
  if (!py::isinstance<py::str>(module)) return Library::kOther;
  const auto name = module.cast<std::string>();
  const std::string_view root = std::string_view(name).substr(0, name.find('.'));
  if (root == "torch") return Library::kTorch;
  if (root == "cupy") return Library::kCupy;
  if (root == "jax" || root == "jaxlib") return Library::kJax;
  return Library::kOther;
}

// Base classes are examined too, because torch.Tensor has subclasses in other packages.
Library library_of_bases(PyTypeObject* type) {
  if (type->tp_mro != nullptr)
    for (const py::handle base : py::reinterpret_borrow<py::tuple>(type->tp_mro))
      if (const Library library = library_of(reinterpret_cast<PyTypeObject*>(base.ptr()));
          library != Library::kOther)
        return library;
  return Library::kOther;
}

const DLPackExchangeAPI* exchange_table_of(PyTypeObject* type) {
  const py::object capsule =
      py::getattr(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__", py::none());
  constexpr const char* kName = "dlpack_exchange_api";
  if (PyCapsule_IsValid(capsule.ptr(), kName) == 0) return nullptr;
  const auto* header =
      static_cast<const DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION)
    header = header->prev_api;
  return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

ForeignType read_type(const py::object& object) {
  PyTypeObject* const type = Py_TYPE(object.ptr());
  ForeignType found{.library = library_of_bases(type), .table = exchange_table_of(type)};
  if (found.table != nullptr)
    found.protocol = Protocol::kExchangeTable;
  else if (py::hasattr(object, "__dlpack__") && py::hasattr(object, "__dlpack_device__"))
    found.protocol = Protocol::kDlpack;
  else if (py::hasattr(object, "__cuda_array_interface__"))
    found.protocol = Protocol::kCudaInterface;
  return found;
}

// Returns a function of a module that has been imported. `path` may contain dots.
py::object function_of(const char* module, const char* path) {
  py::object found = py::module_::import(module);
  for (const char* rest = path; *rest != '\0';) {
    const std::string_view name =
        std::string_view(rest).substr(0, std::string_view(rest).find('.'));
    found = found.attr(std::string(name).c_str());
    rest += name.size() + (rest[name.size()] == '.' ? 1 : 0);
  }
  return found;
}

// An import executes Python code, which can let other threads run. A thread that then waits for the
// guard of a static variable must not hold the GIL, or it never returns. This class releases the
// GIL.
using Once = py::gil_safe_call_once_and_store<py::object>;
const py::object& once(Once& function, const char* module, const char* path) {
  return function.call_once_and_store_result([&] { return function_of(module, path); })
      .get_stored();
}

std::optional<StreamHandle> stream_of_torch(int device) {
  PYBIND11_CONSTINIT static Once function;
  return StreamHandle{
      once(function, "torch", "_C._cuda_getCurrentRawStream")(device).cast<std::uintptr_t>()};
}

std::optional<StreamHandle> stream_of_cupy(int device) {
  PYBIND11_CONSTINIT static Once function;
  return stream_from_python(once(function, "cupy", "cuda.get_current_stream")(device));
}

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
    const auto [version, handle] = cast_or<std::pair<int, py::object>>(protocol, [] {
      return std::string("stream.__cuda_stream__ must return a version and a handle");
    });
    return StreamHandle{handle_from(handle), share(stream)};
  }
  for (const char* name : {"cuda_stream", "ptr", "handle"})  // torch; CuPy; Numba
    if (const auto handle = handle_attribute(stream, name))
      return StreamHandle{*handle, share(stream)};
  throw TypeError("stream must be a handle or a stream object, got " + type_name(stream));
}

ForeignType foreign_type_of(const py::object& object) {
  // The types of known libraries are cached, because all their objects offer the same protocol. The
  // types are never freed.
  static auto* const known = new std::unordered_map<PyTypeObject*, ForeignType>;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (const auto found = known->find(type); found != known->end()) return found->second;
  const ForeignType read = read_type(object);
  if (read.library != Library::kOther && read.protocol != Protocol::kNone) {
    Py_INCREF(type);
    known->emplace(type, read);
  }
  return read;
}

std::optional<StreamHandle> current_stream(const ForeignType& type, int device) {
  if (type.table != nullptr) {
    void* stream = nullptr;
    if (type.table->current_work_stream(kDLCUDA, device, &stream) != 0)
      throw py::error_already_set();
    return StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
  }
  if (type.library == Library::kTorch) return stream_of_torch(device);
  if (type.library == Library::kCupy) return stream_of_cupy(device);
  return std::nullopt;
}

bool is_lazy_view(const ForeignType& type, const py::object& object) {
  if (type.library != Library::kTorch || type.protocol == Protocol::kNone) return false;
  static const auto* const requires_grad = new py::str("requires_grad");
  static const auto* const is_conj = new py::str("is_conj");
  static const auto* const is_neg = new py::str("is_neg");
  const auto true_of = [&](const py::str& name, bool is_method) {
    auto value = py::reinterpret_steal<py::object>(
        is_method ? PyObject_CallMethodNoArgs(object.ptr(), name.ptr())
                  : PyObject_GetAttr(object.ptr(), name.ptr()));
    if (!value) throw py::error_already_set();
    return value.ptr() == Py_True;
  };
  return true_of(*requires_grad, false) || true_of(*is_conj, true) || true_of(*is_neg, true);
}

}  // namespace ado::bindings

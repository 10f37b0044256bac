#include "bindings/options.hpp"

#include <pybind11/stl.h>

#include "bindings/arrays.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

std::string got(const py::handle& object) { return ", got " + std::string(py::repr(object)); }

// Converts a str to UTF-8. A str with a lone surrogate has no UTF-8 form.
std::string text_from_python(const std::string& who, const py::handle& text) {
  try {
    return text.cast<std::string>();
  } catch (const py::cast_error&) {
    throw ValueError(who + " is not valid UTF-8" + got(text));
  }
}

Scalar scalar_from_python(const std::string& who, ScalarKind kind, const py::handle& object) {
  if (kind == ScalarKind::kWord) {
    if (!py::isinstance<py::str>(object)) throw TypeError(who + " must be a str" + got(object));
    return text_from_python(who, object);
  }
  if (kind == ScalarKind::kBool) {
    py::detail::make_caster<bool> truth;  // also accepts NumPy's bool
    if (!truth.load(object, false)) throw TypeError(who + " must be bool" + got(object));
    return py::detail::cast_op<bool>(truth);
  }
  py::object number = py::reinterpret_borrow<py::object>(object);
  if (kind != ScalarKind::kFloat) {  // an int, or an object with __index__
    number = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  } else if (!PyFloat_Check(object.ptr()) && PyIndex_Check(object.ptr()) == 0) {
    number = py::object();
  }
  if (!number) {
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) == 0)
      throw py::error_already_set();
    PyErr_Clear();
    throw TypeError(who + " must be " + name_of(kind) + got(object));
  }
  try {
    if (kind == ScalarKind::kFloat) return number.cast<double>();
    return number.cast<std::int64_t>();
  } catch (const py::cast_error&) {
    throw ValueError(who + " is out of range" + got(object));
  }
}

std::string name_from_python(const py::handle& value, const char* keyword) {
  if (!py::isinstance<py::str>(value))
    throw TypeError(std::string(keyword) + " must be a str, got " + type_name(value));
  return text_from_python(keyword, value);
}

}  // namespace

std::string escaped_text(const py::handle& text) {
  return py::bytes(text.attr("encode")("utf-8", "backslashreplace"));
}

py::object to_python(const OptionValue& value) {
  const auto one = [](const Scalar& scalar) {
    return std::visit([](const auto& v) -> py::object { return py::cast(v); }, scalar);
  };
  if (!value.is_tuple) return one(value.items[0]);
  py::tuple all(value.items.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = one(value.items[i]);
  return all;
}

OptionValue option_from_python(const std::string& who, const OptionType& type,
                               const py::handle& object) {
  OptionValue value;
  if (type.length == 0) {
    value.items.push_back(scalar_from_python(who, type.kind, object));
    return value;
  }
  const auto fail = [&] {
    throw TypeError(who + " must be a tuple of " + name_of(type.kind) + got(object));
  };
  if (!py::isinstance<py::sequence>(object) || py::isinstance<py::str>(object)) fail();
  const py::ssize_t length = PySequence_Size(object.ptr());
  if (length < 0) {  // a zero-dimensional array
    PyErr_Clear();
    fail();
  }
  if (static_cast<std::size_t>(length) != type.length)
    throw ValueError(who + " must have " + std::to_string(type.length) + " elements" + got(object));
  value.is_tuple = true;
  const auto items = py::reinterpret_borrow<py::sequence>(object);
  for (py::ssize_t i = 0; i < length; ++i)
    value.items.push_back(scalar_from_python(who + "[" + std::to_string(i) + "]", type.kind,
                                             py::object(items[static_cast<std::size_t>(i)])));
  return value;
}

const AnyVariant* variant_from_python(const Routine& routine, const py::handle& value) {
  return value.is_none() ? nullptr : &routine.find(name_from_python(value, "variant"));
}

std::optional<DeviceId> device_from_python(const py::handle& value) {
  if (value.is_none()) return std::nullopt;
  return device_named(name_from_python(value, "device"));
}

Block block_from_python(const py::handle& value) {
  if (value.is_none()) return std::nullopt;
  try {
    if (py::isinstance<py::int_>(value)) return std::vector{value.cast<std::int64_t>()};
    return value.cast<std::vector<std::int64_t>>();
  } catch (const py::cast_error&) {
    throw TypeError("block must be a tuple of int" + got(value));
  }
}

}  // namespace ado::bindings

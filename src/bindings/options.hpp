// The keywords of a call that are no arrays: numbers, tuples of them, and words for enumerations.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "core/operand.hpp"

namespace ado::py_binding {

namespace py = pybind11;

// What documentation and stubs say of an option's type.
struct OptionType {
  std::string name;                       // "int", "float", "bool" or "str"
  std::size_t length = 0;                 // of a tuple of these; 0: a single one
  std::vector<std::string> choices = {};  // the words, if only some are allowed
};

template <class Value>
OptionType option_type() {
  if constexpr (std::is_array_v<Value>) {
    OptionType type = option_type<std::remove_extent_t<Value>>();
    type.length = std::extent_v<Value>;
    return type;
  } else if constexpr (std::is_enum_v<Value>) {
    const auto& words = EnumNames<Value>::kNames;
    return {"str", 0, {std::begin(words), std::end(words)}};
  } else {
    static_assert(std::is_arithmetic_v<Value>);
    return {std::is_same_v<Value, bool> ? "bool" : std::is_integral_v<Value> ? "int" : "float"};
  }
}

template <class Value>
py::object option_to_python(const Value& value) {
  if constexpr (std::is_array_v<Value>) {
    py::tuple all(std::extent_v<Value>);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = option_to_python(value[i]);
    return all;
  } else if constexpr (std::is_enum_v<Value>) {
    return py::str(EnumNames<Value>::kNames[static_cast<std::size_t>(value)]);
  } else {
    return py::cast(value);
  }
}

// A str as UTF-8, which a lone surrogate does not have.
inline std::string text_of(const std::string& who, const py::handle& text) {
  try {
    return text.cast<std::string>();
  } catch (const py::cast_error&) {
    throw ValueError(who + " is no text: " + std::string(py::repr(text)));
  }
}

// Sets `value` from what a caller gave; `who` names the option in messages.
template <class Value>
void option_from_python(const std::string& who, const py::handle& object, Value& value) {
  const auto got = [&] { return ", got " + std::string(py::repr(object)); };
  const OptionType type = option_type<Value>();
  if constexpr (std::is_array_v<Value>) {
    if (!py::isinstance<py::sequence>(object) || py::isinstance<py::str>(object))
      throw TypeError(who + " must be a tuple of " + type.name + got());
    const auto items = py::reinterpret_borrow<py::sequence>(object);
    const py::ssize_t length = PySequence_Size(object.ptr());
    if (length < 0) {  // an array without dimensions
      PyErr_Clear();
      throw TypeError(who + " must be a tuple of " + type.name + got());
    }
    if (static_cast<std::size_t>(length) != type.length)
      throw ValueError(who + " must have " + std::to_string(type.length) + " elements" + got());
    for (std::size_t i = 0; i < type.length; ++i)
      option_from_python(who + "[" + std::to_string(i) + "]", py::object(items[i]), value[i]);
  } else if constexpr (std::is_enum_v<Value>) {
    if (!py::isinstance<py::str>(object)) throw TypeError(who + " must be a str" + got());
    const std::string word = text_of(who, object);
    std::string choices;
    for (std::size_t i = 0; i < type.choices.size(); ++i) {
      if (type.choices[i] == word) {
        value = static_cast<Value>(i);
        return;
      }
      choices += (i == 0 ? "'" : ", '") + type.choices[i] + "'";
    }
    throw ValueError(who + " must be one of " + choices + got());
  } else {
    py::object number = py::reinterpret_borrow<py::object>(object);
    if constexpr (std::is_integral_v<Value>) {
      number = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
    } else if (!PyFloat_Check(object.ptr()) && PyIndex_Check(object.ptr()) == 0) {
      number = py::object();
    }
    if (!number) {
      if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) == 0)
        throw py::error_already_set();
      PyErr_Clear();
      throw TypeError(who + " must be " + type.name + got());
    }
    try {
      value = number.cast<Value>();
    } catch (const py::cast_error&) {
      throw ValueError(who + " is out of range" + got());
    }
  }
}

}  // namespace ado::py_binding

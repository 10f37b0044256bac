// Element types: NumPy's dtypes, DLPack's types, and the runtime's.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/array.hpp"
#include "dlpack/dlpack.h"

namespace ado::bindings {

namespace py = pybind11;

// Names an argument of a function in error messages: "transpose: a".
struct Who {
  const char *function, *argument;
};
inline std::string operator+(const Who& who, const std::string& text) {
  return std::string(who.function) + ": " + who.argument + text;
}

// The element type of an array. NumPy lacks some types of other libraries, for example bfloat16.
// The package ml_dtypes has dtypes for them. Without this package, `dtype` is an opaque type of the
// same size, for example V2, and `opaque` is the type code of DLPack.
struct Element {
  py::dtype dtype;
  std::optional<DLDataTypeCode> opaque = std::nullopt;

  std::string name() const;  // "float32", "bfloat16"
  bool equal(const Element& other) const {
    return opaque == other.opaque && (dtype.is(other.dtype) || dtype.equal(other.dtype));
  }
};

// Throws TypeError for types that are not a whole number of bytes, for types with several lanes,
// for handles, and for codes with a wrong number of bits. `who` names the array in messages.
Element element_of(const Who& who, const DLDataType& type);
// Returns the DLPack type of an element, or nothing if DLPack has none.
std::optional<DLDataType> dlpack_type(const Element& element);

ElementType element_type(const py::dtype& dtype);
py::dtype numpy_dtype(const ElementType& type);
// Returns true if elements hold references to Python objects. They must not be copied as bytes.
bool has_references(const py::dtype& dtype);

}  // namespace ado::bindings

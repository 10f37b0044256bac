// Conversion of NumPy arrays and DeviceArrays to the runtime's views.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "runtime/call.hpp"

namespace ado::bindings {

namespace py = pybind11;

// An array in device memory with NumPy's dtype: packed, row-major.
struct DeviceArray {
  std::shared_ptr<cuda::Buffer> memory;
  Array view;
  py::dtype dtype;

  DeviceArray(py::dtype dtype, const Array& shape_of);
  py::array numpy() const;
};

DeviceArray to_device(const py::object& array);

// An operand of a call: the Python object with its NumPy dtype and a view of its memory. The
// functions need the GIL.
class PyArray final : public ArrayTraits {
 public:
  // `who` names the operand in error messages: "transpose: a".
  PyArray(const std::string& who, py::object object);

  Argument argument() const { return {view_, on_device_, this}; }
  const py::object& object() const { return object_; }
  const py::dtype& dtype() const { return dtype_; }
  const Array& view() const { return view_; }

  std::string type_name() const override;
  bool same_type(const ArrayTraits& other) const override;
  bool shares_memory(const ArrayTraits& other) const override;

 private:
  py::object object_;  // a py::array or a DeviceArray
  py::dtype dtype_;
  Array view_;
  bool on_device_;
};

// Returns the object as an array. NumPy converts lists and other array-likes.
py::object as_array(const std::string& who, py::object value);
// Returns the object if it is a writable array, otherwise throws.
py::object as_output(const std::string& who, py::object value);
// A new array for a result. `dtype` is the dtype of the operand with the same type, or nullptr.
py::object new_array(const BoundProblem::ResultType& type, const py::dtype* dtype, bool on_device);

py::tuple shape_of(const Array& view);
std::string type_name(const py::handle& object);
ElementType element_type(const py::dtype& dtype);
py::dtype numpy_dtype(const ElementType& type);
// Returns true if elements hold references to Python objects. They must not be copied as bytes.
bool has_references(const py::dtype& dtype);

}  // namespace ado::bindings

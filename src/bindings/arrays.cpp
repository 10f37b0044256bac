#include "bindings/arrays.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

py::module_ numpy() { return py::module_::import("numpy"); }

std::string dtype_text(const py::dtype& dtype) {
  return py::str(static_cast<const py::object&>(dtype));
}

bool is_masked(const py::object& value) {
  return py::isinstance(value, numpy().attr("ma").attr("MaskedArray"));
}

void refuse_references(const std::string& who, const py::dtype& dtype) {
  if (has_references(dtype))
    throw TypeError(who + " holds references to Python objects (" + dtype_text(dtype) +
                    "), which cannot be copied as bytes");
}

Array view_of(const std::string& who, const py::array& array) {
  if (array.ndim() > kMaxRank)
    throw ValueError(who + " has " + std::to_string(array.ndim()) + " dimensions, more than " +
                     std::to_string(kMaxRank));
  Array view;
  view.data = static_cast<std::byte*>(const_cast<void*>(array.data()));
  view.type = element_type(array.dtype());
  view.rank = static_cast<int>(array.ndim());
  for (int d = 0; d < view.rank; ++d) {
    view.shape[d] = array.shape(d);
    view.stride[d] = array.strides(d);
  }
  return view;
}

}  // namespace

ElementType element_type(const py::dtype& dtype) {
  // NumPy marks the native byte order with '=', and types without a byte order with '|'.
  const bool swapped = dtype.byteorder() == '<' || dtype.byteorder() == '>';
  return {dtype.kind(), static_cast<int>(dtype.itemsize()), swapped};
}

bool has_references(const py::dtype& dtype) {
  constexpr std::uint64_t kItemRefcount = 0x01;  // NPY_ITEM_REFCOUNT
  return (static_cast<std::uint64_t>(dtype.flags()) & kItemRefcount) != 0;
}

py::dtype numpy_dtype(const ElementType& type) {
  return py::dtype(std::string(1, type.kind) + std::to_string(type.size));
}

std::string type_name(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

py::tuple shape_of(const Array& view) {
  py::tuple shape(static_cast<std::size_t>(view.rank));
  for (int d = 0; d < view.rank; ++d) shape[static_cast<std::size_t>(d)] = view.shape[d];
  return shape;
}

DeviceArray::DeviceArray(py::dtype dtype, const Array& shape_of)
    : memory(std::make_shared<cuda::Buffer>(static_cast<std::size_t>(shape_of.bytes()))),
      view(packed_like(shape_of, memory->data())),
      dtype(std::move(dtype)) {}

py::array DeviceArray::numpy() const {
  py::array host(dtype, std::vector<py::ssize_t>(view.shape, view.shape + view.rank));
  void* const target = host.mutable_data();
  const ReleaseGil release;
  cuda::copy_to_host(target, view.data, static_cast<std::size_t>(view.bytes()));
  return host;
}

DeviceArray to_device(const py::object& array) {
  cuda::require();
  if (is_masked(array))
    throw TypeError("to_device: the array must not be a masked array; fill it first (.filled())");
  const auto host = numpy().attr("asarray")(array).cast<py::array>();
  refuse_references("to_device: the array", host.dtype());
  const auto packed = numpy().attr("ascontiguousarray")(host).cast<py::array>();
  DeviceArray device(packed.dtype(), view_of("to_device: the array", host));
  const void* const source = packed.data();
  const auto bytes = static_cast<std::size_t>(packed.nbytes());
  const ReleaseGil release;
  cuda::copy_to_device(device.view.data, source, bytes);
  return device;
}

PyArray::PyArray(const std::string& who, py::object object)
    : object_(std::move(object)), on_device_(py::isinstance<DeviceArray>(object_)) {
  if (on_device_) {
    const auto& device = object_.cast<const DeviceArray&>();
    dtype_ = device.dtype;
    view_ = device.view;
  } else {
    const auto array = object_.cast<py::array>();
    dtype_ = array.dtype();
    view_ = view_of(who, array);
  }
  refuse_references(who, dtype_);
}

std::string PyArray::type_name() const { return dtype_text(dtype_); }

bool PyArray::same_type(const ArrayTraits& other) const {
  return dtype_.equal(static_cast<const PyArray&>(other).dtype_);
}

bool PyArray::shares_memory(const ArrayTraits& other) const {
  // The exact test can take exponential time, so NumPy's work is limited. If NumPy exceeds the
  // limit, the arrays count as sharing memory.
  constexpr int kMaxWork = 10'000;
  try {
    // Converts to ndarray first: for a subclass, NumPy would call the Python code of its
    // __array_function__.
    const auto plain = [](const py::object& array) {
      return numpy().attr("ndarray").attr("view")(array, numpy().attr("ndarray"));
    };
    return numpy()
        .attr("shares_memory")(plain(object_), plain(static_cast<const PyArray&>(other).object_),
                               kMaxWork)
        .cast<bool>();
  } catch (const py::error_already_set&) {
    return true;
  }
}

py::object as_array(const std::string& who, py::object value) {
  // The common case is tested first, because it needs none of the other checks.
  if (Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_ ||
      py::isinstance<DeviceArray>(value))
    return value;
  if (is_masked(value)) throw TypeError(who + " is a masked array; fill it first (.filled())");
  if (value.is_none() || py::isinstance<py::str>(value) || py::isinstance<py::bytes>(value))
    throw TypeError(who + " must be an array, not " + type_name(value));
  return numpy().attr("asarray")(value);
}

py::object as_output(const std::string& who, py::object value) {
  if (py::isinstance<DeviceArray>(value)) return value;
  if (!py::isinstance<py::array>(value) || is_masked(value))
    throw TypeError(who + " must be an array, not " + type_name(value));
  if (!value.cast<py::array>().writeable()) throw ValueError(who + " is read-only");
  return value;
}

py::object new_array(const BoundProblem::ResultType& type, const py::dtype* dtype, bool on_device) {
  const py::dtype own = dtype != nullptr ? *dtype : numpy_dtype(type.type);
  if (!on_device) return py::array(own, std::vector<py::ssize_t>(type.shape));
  Array view;
  view.type = element_type(own);
  view.rank = static_cast<int>(type.shape.size());
  std::copy(type.shape.begin(), type.shape.end(), view.shape);
  return py::cast(DeviceArray(own, view));
}

}  // namespace ado::bindings

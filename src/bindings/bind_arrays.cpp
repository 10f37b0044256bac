// The Python class DeviceArray, to_device() and synchronize().
#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "runtime/device.hpp"

namespace ado::bindings {
namespace {

py::dict cuda_array_interface(const DeviceArray& array) {
  py::dict d;
  d["shape"] = shape_of(array.view);
  d["typestr"] = array.dtype.attr("str");
  d["descr"] = array.dtype.attr("descr");
  d["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(array.view.data), false);
  d["strides"] = py::none();
  d["stream"] = 1;  // the legacy default stream, on which all work of this library runs
  d["version"] = 3;
  return d;
}

void copy_from(DeviceArray& array, const py::object& host) {
  const std::string who = "copy_from: the array";
  const PyArray source(who, as_array(who, host));
  const Array& view = source.view();
  if (!source.dtype().equal(array.dtype) || !shape_of(view).equal(shape_of(array.view)))
    throw ValueError("copy_from: the array must have the shape and type of the DeviceArray");
  if (!view.packed())
    throw ValueError("copy_from: the array must be contiguous in row-major order");
  const ReleaseGil release;
  cuda::copy_to_device(array.view.data, view.data, static_cast<std::size_t>(view.bytes()));
}

}  // namespace

void bind_arrays(py::module_& m) {
  py::class_<DeviceArray>(m, "DeviceArray", R"(An array in GPU memory, packed, row-major.

Made by ``to_device`` and by calls with device arrays. CuPy, torch and others read it through
``__cuda_array_interface__`` without a copy.)")
      .def(
          "numpy", [](const DeviceArray& a) -> py::object { return a.numpy(); },
          "Copy to host memory, as a NumPy array.")
      .def("copy_from", &copy_from, py::arg("array"),
           "Copy the values of a NumPy array of the same shape and type to this array.")
      .def_property_readonly("shape", [](const DeviceArray& a) { return shape_of(a.view); })
      .def_property_readonly("dtype", [](const DeviceArray& a) -> py::object { return a.dtype; })
      .def_property_readonly("ndim", [](const DeviceArray& a) { return a.view.rank; })
      .def_property_readonly("size", [](const DeviceArray& a) { return a.view.elements(); })
      .def_property_readonly("nbytes", [](const DeviceArray& a) { return a.view.bytes(); })
      .def_property_readonly("__cuda_array_interface__", &cuda_array_interface)
      .def(
          "__array__",
          [](const DeviceArray&, const py::object&, const py::object&) -> py::object {
            throw TypeError("a DeviceArray is in GPU memory; copy it with .numpy()");
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none(),
          "Raises TypeError: arrays are not copied to the host implicitly.")
      .def("__len__",
           [](const DeviceArray& a) {
             if (a.view.rank == 0)
               throw TypeError("len() needs an array with at least one dimension");
             return a.view.shape[0];
           })
      .def("__repr__", [](const py::object& self) {
        return "DeviceArray(shape=" + std::string(py::str(self.attr("shape"))) +
               ", dtype=" + std::string(py::str(self.attr("dtype"))) + ")";
      });
  m.def("to_device", &to_device, py::arg("array"), "Copy an array into GPU memory.");
  m.def("synchronize", &cuda::synchronize, py::call_guard<ReleaseGil>(),
        "Wait until the GPU has finished all submitted work.");
}

}  // namespace ado::bindings

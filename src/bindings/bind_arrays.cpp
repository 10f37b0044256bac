// The Python class DeviceArray, to_device() and synchronize().
#include <pybind11/stl.h>

#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "device/device.hpp"
#include "runtime/staging.hpp"

namespace ado::bindings {
namespace {

// Makes `stream` wait for all work on the array, because the consumer may write the array on it.
cuda::Stream stream_for_consumer(const DeviceArray& array, const cuda::Stream& stream) {
  array.memory->before_use(stream, true);
  return stream;
}

// Other libraries cannot read the memory of the emulated GPU as memory of a GPU.
bool is_emulated(const DeviceArray& array) { return gpu(array.device()) == kEmulator; }

py::dict cuda_array_interface(const DeviceArray& array) {
  if (is_emulated(array))
    throw py::attribute_error(
        "an array of the emulator is not in GPU memory; copy it with .numpy()");
  const cuda::Stream stream = stream_for_consumer(array, cuda::nameable(array.memory->stream()));
  py::dict d;
  d["shape"] = shape_of(array.view);
  d["typestr"] = array.element.dtype.attr("str");
  d["descr"] = array.element.dtype.attr("descr");
  d["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(array.view.data), false);
  d["strides"] = py::none();
  d["stream"] = cuda::handle_of(stream);
  d["version"] = 3;
  return d;
}

// Returns the owner of an exported array, which keeps the memory alive. The consumer may have used
// the array on the legacy default stream, or on a stream that synchronises with that stream. The
// memory is freed after that work.
std::shared_ptr<void> export_owner(const DeviceArray& array, bool on_other_stream) {
  if (!on_other_stream) return array.memory;
  const auto release = [memory = array.memory](void*) {
    try {
      memory->after_use(cuda::Stream{memory->stream().device}, true);
    } catch (...) {
      // At the end of the process, the driver may already be unloaded.
    }
  };
  return {array.view.data, release};
}

py::object dlpack_on_host(const DeviceArray& array, bool versioned) {
  py::array host = array.numpy();
  const Array view = packed_like(array.view, static_cast<std::byte*>(host.mutable_data()));
  return to_capsule(view, array.element, {kDLCPU, 0}, share(std::move(host)),
                    {.versioned = versioned, .copied = true});
}

// Returns the stream of the argument stream= of __dlpack__; nothing for -1, which requests no
// synchronisation. The handles have the same meaning as in CUDA, except 0, which DLPack excludes
// because it could mean the legacy or the per-thread default stream.
std::optional<cuda::Stream> consumer_stream(int device, const py::object& stream) {
  if (stream.is_none()) return cuda::Stream{device};
  if (!PyLong_Check(stream.ptr()) || py::isinstance<py::bool_>(stream))
    throw TypeError("__dlpack__: stream must be None or an integer, got " + type_name(stream));
  const auto handle = stream.cast<std::int64_t>();
  if (handle == -1) return std::nullopt;
  if (handle <= 0)
    throw ValueError("__dlpack__: stream must be None, -1, 1, 2 or a handle, got " +
                     std::to_string(handle));
  return cuda::stream_of(device, static_cast<std::uintptr_t>(handle));
}

// Returns a copy on the stream of the array. The copy must not belong to the stream of a consumer,
// which can be destroyed before the memory is freed.
DeviceArray copy_of(const DeviceArray& array) {
  const cuda::Stream stream = cuda::nameable(array.memory->stream());
  if (cuda::is_captured(stream))
    throw py::buffer_error("__dlpack__: copy must not be True while a graph captures the stream");
  array.memory->before_use(stream, false);
  DeviceArray copy(array.element, array.view, stream, array.memory->stream_owner);
  cuda::copy_strided(copy.view, array.view, stream);
  array.memory->after_use(stream, false);
  return copy;
}

py::object dlpack(const DeviceArray& array, const py::object& stream,
                  const std::optional<std::pair<int, int>>& max_version,
                  const std::optional<std::pair<int, int>>& dl_device, std::optional<bool> copy) {
  const bool versioned = max_version && max_version->first >= 1;
  const DLDevice own{kDLCUDA, array.device()};
  if (is_emulated(array) || (dl_device && dl_device->first == kDLCPU)) {
    if (copy == false)
      throw py::buffer_error("__dlpack__: copy must not be False for an export to the host");
    return dlpack_on_host(array, versioned);
  }
  if (dl_device && *dl_device != std::pair<int, int>(own.device_type, own.device_id))
    throw py::buffer_error("__dlpack__: dl_device must be " + name_of(gpu(own.device_id)) +
                           ", the device of the array, or the host, got (" +
                           std::to_string(dl_device->first) + ", " +
                           std::to_string(dl_device->second) + ")");
  const auto consumer = consumer_stream(own.device_id, stream);
  const DeviceArray exported = copy == true ? copy_of(array) : array;
  const cuda::Stream& home = exported.memory->stream();
  const cuda::Stream order = consumer.value_or(home);
  if (consumer) stream_for_consumer(exported, order);
  return to_capsule(exported.view, exported.element, own, export_owner(exported, order != home),
                    {.versioned = versioned, .copied = copy == true});
}

void copy_from(DeviceArray& array, const py::object& host) {
  PyArray source({"copy_from", "the array"}, host, false);
  source.open(std::nullopt);
  const Array view = source.argument().view;
  if (source.memory() != kHost || !source.element().equal(array.element) ||
      !shape_of(view).equal(shape_of(array.view)))
    throw ValueError("copy_from: the array must have the shape and type of the DeviceArray");
  const ReleaseGil release;
  const cuda::Stream stream = cuda::nameable(array.memory->stream());
  array.memory->before_use(stream, true);
  upload(array.view.data, view, stream);
  array.memory->after_use(stream, true);
}

void synchronize(const std::optional<std::string>& device) {
  {
    const DeviceId gpu_id = resolve_gpu(device ? device_named(*device) : gpu(DeviceId::kAnyGpu));
    const ReleaseGil release;
    const cuda::DeviceScope scope(gpu_id.ordinal);
    cuda::synchronize();
  }
  release_finished();
}

}  // namespace

void bind_arrays(py::module_& m) {
  py::class_<DeviceArray>(m, "DeviceArray", R"(A packed, row-major array in GPU memory.

``to_device`` and calls with device arrays return a DeviceArray. Other libraries read it without a
copy through DLPack (``torch.from_dlpack``, ``cupy.from_dlpack``, ``jax.dlpack.from_dlpack``) and
through ``__cuda_array_interface__`` (Numba, ``cupy.asarray``).

An array belongs to the stream of the call that created it. Calls on other streams wait for earlier
work on the array by means of events. The memory is freed in the order of the array's stream. A
library that uses the array on another stream must keep a reference to it until its work has
finished, unless this stream synchronises with the legacy default stream.)")
      .def(
          "numpy", [](const DeviceArray& a) -> py::object { return a.numpy(); },
          "Copy to host memory, as a NumPy array.")
      .def("copy_from", &copy_from, py::arg("array"),
           "Copy the values of a NumPy array of the same shape and type to this array.")
      .def_property_readonly("shape", [](const DeviceArray& a) { return shape_of(a.view); })
      .def_property_readonly(
          "dtype", [](const DeviceArray& a) -> py::object { return a.element.dtype; },
          "The NumPy dtype. For types that NumPy lacks, it is the dtype of the package ml_dtypes, "
          "or an opaque dtype such as V2 if that package is not installed.")
      .def_property_readonly(
          "device", [](const DeviceArray& a) { return name_of(gpu(a.device())); },
          "The GPU that holds the array, for example 'cuda:0', or 'emulator'.")
      .def_property_readonly("ndim", [](const DeviceArray& a) { return a.view.rank; })
      .def_property_readonly("size", [](const DeviceArray& a) { return a.view.elements(); })
      .def_property_readonly("nbytes", [](const DeviceArray& a) { return a.view.bytes(); })
      .def_property_readonly("__cuda_array_interface__", &cuda_array_interface)
      .def("__dlpack__", &dlpack, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
           py::arg("copy") = py::none(),
           "Return a DLPack capsule with the array, for other libraries.")
      .def("__dlpack_device__",
           [](const DeviceArray& a) {
             return is_emulated(a) ? std::pair<int, int>(kDLCPU, 0)
                                   : std::pair<int, int>(kDLCUDA, a.device());
           })
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
               ", dtype=" + self.cast<const DeviceArray&>().element.name() + ", device='" +
               std::string(py::str(self.attr("device"))) + "')";
      });
  m.def("to_device", &to_device, py::arg("array"), py::arg("device") = py::none(),
        "Copy an array from host memory to the memory of a GPU: 'cuda' (the default), 'cuda:1' or "
        "'emulator'.");
  m.def("synchronize", &synchronize, py::arg("device") = py::none(),
        "Wait until a GPU has finished all submitted work.");
  m.def(
      "stream_handle",
      [](const py::object& stream) {
        const auto found = stream_from_python(stream);
        return found ? found->handle : 0;
      },
      py::arg("stream"),
      "The cudaStream_t of a handle or of a stream object of CuPy, torch, Numba or cuda.core.");
  m.def(
      "host_capsule",
      [](py::array array, const std::optional<std::pair<int, int>>& max_version, bool copied) {
        PyArray operand({"host_capsule", "array"}, array, true);
        const Array view = operand.argument().view;
        return to_capsule(view, operand.element(), {kDLCPU, 0}, share(std::move(array)),
                          {.versioned = max_version && max_version->first >= 1, .copied = copied});
      },
      py::arg("array"), py::arg("max_version") = py::none(), py::arg("copied") = false,
      "Return a capsule as DeviceArray.__dlpack__ does, but with the memory of a NumPy array.");
}

}  // namespace ado::bindings

// The Python class BlockCopies: copies of blocks of large arrays to and from a GPU.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "runtime/device.hpp"
#include "runtime/staging.hpp"

namespace ado::bindings {
namespace {

// Copies that overlap with each other and with kernels. Uploads, downloads and kernels have one
// stream each.
class BlockCopies {
 public:
  explicit BlockCopies(const std::string& device)
      : device_(resolve_gpu(device_named(device)).ordinal),
        uploads_(device_),
        downloads_(device_),
        kernels_(device_) {}

  std::uintptr_t stream() const { return cuda::handle_of(kernels_.stream()); }

  // Returns an array that belongs to the legacy default stream. If it belonged to the stream of the
  // kernels, copies of it would wait for kernels on other arrays.
  DeviceArray empty(const std::vector<std::int64_t>& shape, const py::dtype& dtype) const {
    if (shape.size() > kMaxRank)
      throw ValueError("empty: shape must have at most " + std::to_string(kMaxRank) +
                       " dimensions, got " + std::to_string(shape.size()));
    Array view;
    view.type = element_type(dtype);
    view.rank = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), view.shape);
    return DeviceArray({dtype}, view, cuda::Stream{device_});
  }

  void upload(const DeviceArray& to, const py::object& source) const {
    const HostArray host("upload: source", source, false);
    const StagedCopy copy = upload_of(to, host);
    const ReleaseGil release;
    const Uses uses(copy, to, true);
    ado::upload(copy.device, copy.host, copy.stream);
  }

  void download(const py::object& sink, const DeviceArray& from, std::int64_t first) const {
    const HostArray host("download: sink", sink, true);
    const StagedCopy copy = download_of(host, from, first);
    const ReleaseGil release;
    const Uses uses(copy, from, false);
    ado::download(copy.host, copy.device, copy.stream);
  }

  void exchange(const DeviceArray& to, const py::object& source, const py::object& sink,
                const DeviceArray& from, std::int64_t first) const {
    const HostArray read("exchange: source", source, false), written("exchange: sink", sink, true);
    const StagedCopy up = upload_of(to, read), down = download_of(written, from, first);
    if (to.memory == from.memory)
      throw ValueError("exchange: to and from_ must be different arrays, got the same memory");
    const ReleaseGil release;
    const Uses writes(up, to, true), reads(down, from, false);
    ado::exchange(up, down);
  }

 private:
  // An operand in host memory.
  struct HostArray {
    HostArray(const std::string& name, const py::object& object, bool output)
        : who(name), array(name, object, output) {
      if (array.memory() != kHost)
        throw ValueError(who + " must be in host memory, got an array on " +
                         name_of(array.memory()));
      array.open(std::nullopt);
      view = array.argument().view;
    }
    std::string who;
    PyArray array;
    Array view;
  };

  // States that a copy uses an array.
  class Uses {
   public:
    Uses(const StagedCopy& copy, const DeviceArray& array, bool writes)
        : copy_(copy), memory_(*array.memory), writes_(writes) {
      memory_.before_use(copy.stream, writes);
    }
    ~Uses() {
      try {
        memory_.after_use(copy_.stream, writes_);
      } catch (...) {
        // If the driver fails here, the copy has failed too.
      }
    }
    Uses(const Uses&) = delete;
    Uses& operator=(const Uses&) = delete;

   private:
    const StagedCopy& copy_;
    cuda::Buffer& memory_;
    bool writes_;
  };

  void check(const HostArray& host, const DeviceArray& array) const {
    if (array.device() != device_)
      throw ValueError("the array must be on " + name_of(gpu(device_)) + ", got an array on " +
                       name_of(gpu(array.device())));
    if (!host.array.element().equal(array.element))
      throw ValueError(host.who + " must have the type " + array.element.name() + ", got " +
                       host.array.element().name());
  }

  StagedCopy upload_of(const DeviceArray& to, const HostArray& host) const {
    check(host, to);
    if (!shape_of(host.view).equal(shape_of(to.view)))
      throw ValueError(host.who + " must have the shape of the array on the GPU");
    return {to.view.data, host.view, uploads_.stream()};
  }

  StagedCopy download_of(const HostArray& host, const DeviceArray& from, std::int64_t first) const {
    check(host, from);
    if (first < 0 || first > from.view.elements() - host.view.elements())
      throw ValueError(
          host.who + " must fit into the array on the GPU from element `first` on, got " +
          std::to_string(host.view.elements()) + " elements and first = " + std::to_string(first));
    return {from.view.data + first * from.view.type.size, host.view, downloads_.stream()};
  }

  int device_;
  cuda::OwnStream uploads_, downloads_, kernels_;
};

py::array empty_pinned(const py::object& shape, const py::object& dtype) {
  // NumPy checks the arguments and computes the number of bytes, without allocating them.
  const py::module_ numpy = py::module_::import("numpy");
  const py::object described =
      numpy.attr("broadcast_to")(numpy.attr("empty")(py::tuple(0), dtype), shape);
  const auto type = described.attr("dtype").cast<py::dtype>();
  if (has_references(type))
    throw TypeError("empty_pinned: dtype must not hold references to Python objects, got " +
                    Element{type}.name());
  const auto bytes = described.attr("nbytes").cast<std::size_t>();
  std::unique_ptr<cuda::PageLockedMemory> memory;
  {
    const ReleaseGil release;
    memory = std::make_unique<cuda::PageLockedMemory>(bytes);
  }
  std::byte* const data = memory->data();
  const py::capsule owner(memory.release(), [](void* pointer) {
    const ReleaseGil release;  // the function of CUDA can wait for the GPU
    delete static_cast<cuda::PageLockedMemory*>(pointer);
  });
  return py::array(type, described.attr("shape").cast<std::vector<py::ssize_t>>(), data, owner);
}

}  // namespace

void bind_block_copies(py::module_& m) {
  py::class_<BlockCopies>(m, "BlockCopies", R"(Copies of blocks of large arrays to and from a GPU.

Uploads, downloads and the kernels on ``stream`` overlap with each other. A copy waits for earlier
work on the same array and on the legacy default stream.)")
      .def(py::init<const std::string&>(), py::arg("device"))
      .def_property_readonly("stream", &BlockCopies::stream,
                             "The handle (cudaStream_t) of the stream for kernels.")
      .def("empty", &BlockCopies::empty, py::arg("shape"), py::arg("dtype"),
           "Return an uninitialised array on the GPU.")
      .def("upload", &BlockCopies::upload, py::arg("to"), py::arg("source"),
           "Copy a NumPy array to an array on the GPU. Return as soon as `source` may be changed.")
      .def("download", &BlockCopies::download, py::arg("sink"), py::arg("from_"), py::arg("first"),
           "Copy the elements of an array on the GPU to `sink`, beginning with element `first`.")
      .def("exchange", &BlockCopies::exchange, py::arg("to"), py::arg("source"), py::arg("sink"),
           py::arg("from_"), py::arg("first"),
           "Upload to one array and download from another at the same time.");
  m.def("empty_pinned", &empty_pinned, py::arg("shape"), py::arg("dtype") = "float64",
        R"(Return an uninitialised NumPy array in page-locked (pinned) memory.

The GPU copies such arrays by direct memory access, without the CPU, if their rows are contiguous.
The memory cannot be swapped to disk, and its allocation takes longer than that of pageable
memory.)");
}

}  // namespace ado::bindings

// The Python class BlockCopies: copies of blocks of large arrays to and from a GPU.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "device/device.hpp"
#include "runtime/staging.hpp"

namespace ado::bindings {
namespace {

// An operand in host memory.
struct HostArray {
  HostArray(const Who& name, const py::object& object, bool output)
      : who(name), array(name, object, output) {
    if (array.memory() != kHost)
      throw ValueError(who + " must be in host memory, got an array on " + name_of(array.memory()));
    array.open(std::nullopt);
    view = array.argument().view;
  }
  Who who;
  PyArray array;
  Array view;
};

// A copy between an operand in host memory and an array on the GPU. It keeps both alive.
class PendingCopy {
 public:
  PendingCopy(std::unique_ptr<HostArray> host, const DeviceArray& array, const cuda::Stream& stream,
              bool writes)
      : host_(std::move(host)), memory_(array.memory), stream_(stream), writes_(writes) {}
  ~PendingCopy() {
    if (ended_) return;
    const ReleaseGil release;
    try {
      copy_.wait();
    } catch (...) {
      // The caller has not waited, or has received the error.
    }
    try {
      memory_->after_use(stream_, writes_);
    } catch (...) {
      // If the driver fails here, the copy has failed too.
    }
  }
  PendingCopy(const PendingCopy&) = delete;
  PendingCopy& operator=(const PendingCopy&) = delete;

  const HostArray& host() const { return *host_; }

  // Calls begin(before), which returns a BegunCopy. The copy must call `before` first.
  template <class Begin>
  void begin(const Begin& begin) {
    without_gil([&] {
      copy_ = begin([memory = memory_, stream = stream_, writes = writes_] {
        memory->before_use(stream, writes);
      });
    });
  }

  void wait() {
    if (ended_) return;
    without_gil([&] {
      copy_.wait();
      memory_->after_use(stream_, writes_);
    });
    ended_ = true;
  }

 private:
  std::unique_ptr<HostArray> host_;
  std::shared_ptr<cuda::Buffer> memory_;
  cuda::Stream stream_;
  bool writes_;
  BegunCopy copy_;
  bool ended_ = false;
};

// Copies that overlap with each other and with kernels. Uploads, downloads and kernels have one
// stream each.
class BlockCopies {
 public:
  explicit BlockCopies(const std::string& device)
      : device_(resolve_gpu(device_named(device)).ordinal),
        uploads_(device_),
        downloads_(device_),
        kernels_(device_) {
    const ReleaseGil release;
    queue_ = std::make_unique<cuda::CopyQueue>(device_);
  }
  ~BlockCopies() {
    try {
      close();
    } catch (...) {
      // At the end of the process, the driver may already be unloaded.
    }
  }
  BlockCopies(const BlockCopies&) = delete;
  BlockCopies& operator=(const BlockCopies&) = delete;

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

  std::unique_ptr<PendingCopy> upload(const DeviceArray& to, const py::object& source) {
    auto host = std::make_unique<HostArray>(Who{"upload", "source"}, source, false);
    check(*host, to);
    if (!shape_of(host->view).equal(shape_of(to.view)))
      throw ValueError(host->who + " must have the shape of the array on the GPU");
    auto copy = std::make_unique<PendingCopy>(std::move(host), to, uploads_.stream(), true);
    copy->begin([&](auto before) {
      return begin_upload(*queue_, to.view.data, copy->host().view, uploads_.stream(), before);
    });
    return copy;
  }

  std::unique_ptr<PendingCopy> download(const py::object& sink, const DeviceArray& from,
                                        std::int64_t first) {
    auto host = std::make_unique<HostArray>(Who{"download", "sink"}, sink, true);
    check(*host, from);
    if (first < 0 || first > from.view.elements() - host->view.elements())
      throw ValueError(
          host->who + " must fit into the array on the GPU from element `first` on, got " +
          std::to_string(host->view.elements()) + " elements and first = " + std::to_string(first));
    auto copy = std::make_unique<PendingCopy>(std::move(host), from, downloads_.stream(), false);
    const std::byte* const data = from.view.data + first * from.view.type.size;
    copy->begin([&](auto before) {
      return begin_download(*queue_, copy->host().view, data, downloads_.stream(), before);
    });
    return copy;
  }

  void close() {
    const ReleaseGil release;
    queue_->close();
    cuda::synchronize(uploads_.stream());
    cuda::synchronize(downloads_.stream());
  }

 private:
  void check(const HostArray& host, const DeviceArray& array) const {
    if (array.device() != device_)
      throw ValueError("the array must be on " + name_of(gpu(device_)) + ", got an array on " +
                       name_of(gpu(array.device())));
    if (!host.array.element().equal(array.element))
      throw ValueError(host.who + " must have the type " + array.element.name() + ", got " +
                       host.array.element().name());
  }

  int device_;
  cuda::OwnStream uploads_, downloads_, kernels_;
  std::unique_ptr<cuda::CopyQueue> queue_;
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
    const ReleaseGil release;  // the CUDA call can wait for the GPU
    delete static_cast<cuda::PageLockedMemory*>(pointer);
  });
  return py::array(type, described.attr("shape").cast<std::vector<py::ssize_t>>(), data, owner);
}

}  // namespace

void bind_block_copies(py::module_& m) {
  py::class_<PendingCopy>(m, "PendingCopy", "A copy that has begun.")
      .def("wait", &PendingCopy::wait, R"(Wait until the copy has ended.

The source of an upload may then be changed. Call this before other work uses the array on the
GPU.)");
  py::class_<BlockCopies>(m, "BlockCopies", R"(Copies of blocks of large arrays to and from a GPU.

Uploads, downloads and the kernels on ``stream`` overlap with each other. Copies in one direction
are executed one after the other. A copy waits for earlier work on the same array and on the legacy
default stream.)")
      .def(py::init<const std::string&>(), py::arg("device"))
      .def_property_readonly("stream", &BlockCopies::stream,
                             "The handle (cudaStream_t) of the stream for kernels.")
      .def("empty", &BlockCopies::empty, py::arg("shape"), py::arg("dtype"),
           "Return an uninitialised array on the GPU.")
      .def("upload", &BlockCopies::upload, py::arg("to"), py::arg("source"), py::keep_alive<0, 1>(),
           "Begin to copy a NumPy array to an array on the GPU.")
      .def(
          "download", &BlockCopies::download, py::arg("sink"), py::arg("from_"), py::arg("first"),
          py::keep_alive<0, 1>(),
          "Begin to copy elements of an array on the GPU to `sink`, starting with element `first`.")
      .def("close", &BlockCopies::close,
           "Abandon copies that have not ended. Afterwards, no host array is accessed.");
  m.def("empty_pinned", &empty_pinned, py::arg("shape"), py::arg("dtype") = "float64",
        R"(Return an uninitialised NumPy array in page-locked (pinned) memory.

The GPU copies contiguous arrays in this memory by direct memory access, without the CPU.
The memory cannot be swapped to disk, and its allocation takes longer than an allocation of
pageable memory.)");
}

}  // namespace ado::bindings

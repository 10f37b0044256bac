// Python classes for kernels that were compiled at run time, and for a blocked stream.
#include <pybind11/stl.h>

#include <optional>
#include <span>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "device/blocked_stream.hpp"
#include "device/source_kernel.hpp"
#include "runtime/device_id.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;
using cuda::BlockedStream;
using cuda::CodeModule;
using cuda::KernelLaunch;
using cuda::SourceKernel;

// The GPU on which code is loaded and streams are blocked, as in to_device().
int default_gpu() { return resolve_gpu(gpu(DeviceId::kAnyGpu)).ordinal; }

KernelLaunch launch_of(const SourceKernel& kernel, const std::vector<std::int64_t>& grid,
                       const std::vector<std::int64_t>& block, std::int64_t shared_bytes,
                       const std::vector<py::bytes>& arguments,
                       const std::vector<std::pair<std::uintptr_t, std::size_t>>& zeroed) {
  const std::vector<std::string_view> memory(arguments.begin(), arguments.end());
  KernelLaunch launch(kernel, grid, block, shared_bytes, memory);
  for (const auto& [address, bytes] : zeroed) launch.zero(reinterpret_cast<void*>(address), bytes);
  return launch;
}

void bind_kernels(py::module_& m) {
  py::class_<KernelLaunch>(m, "KernelLaunch",
                           "A kernel with its launch configuration and arguments.")
      .def(
          "run",
          [](const KernelLaunch& launch, std::uintptr_t stream) {
            without_gil([&] { launch.run(reinterpret_cast<void*>(stream)); });
          },
          py::arg("stream") = 0,
          "Enqueue the kernel on a stream, and return without waiting for it.")
      .def("info", &KernelLaunch::info, "Resource usage of the kernel.");
  py::class_<SourceKernel>(
      m, "CudaKernel",
      "A kernel of a module. The module stays loaded as long as the kernel exists.")
      .def_property_readonly("name", &SourceKernel::name)
      .def_property_readonly(
          "handle",
          [](const SourceKernel& kernel) {
            return reinterpret_cast<std::uintptr_t>(kernel.handle());
          },
          "The address that launches of the kernel have.")
      .def(
          "write",
          [](const SourceKernel& kernel, const std::string& name, const py::bytes& value) {
            const std::string_view bytes(value);
            without_gil([&] { kernel.write(name, std::as_bytes(std::span(bytes))); });
          },
          py::arg("name"), py::arg("value"),
          "Write the beginning of a constant or global variable of the module.")
      .def_property_readonly("parameters",
                             [](const SourceKernel& kernel) {
                               std::vector<std::size_t> bytes;
                               for (const auto& p : kernel.parameters()) bytes.push_back(p.bytes);
                               return bytes;
                             })
      .def("launch", &launch_of, py::arg("grid"), py::arg("block"), py::arg("shared_bytes"),
           py::arg("arguments"), py::arg("zeroed") = py::list(),
           "Return a launch of the kernel. Each argument is the bytes of one parameter. Each run "
           "first sets the memory in `zeroed`, as addresses and numbers of bytes, to 0.");
  py::class_<CodeModule, std::shared_ptr<CodeModule>>(
      m, "CudaModule",
      "Machine code that is loaded on a GPU, by default the default one, or PTX on the emulator.")
      .def(py::init([](const py::bytes& code, const std::optional<std::string>& device) {
             const int where = device ? resolve_gpu(device_named(*device)).ordinal : default_gpu();
             return std::make_shared<CodeModule>(std::string_view(code), where);
           }),
           py::arg("code"), py::arg("device") = py::none())
      .def(
          "kernel",
          [](std::shared_ptr<CodeModule> module, const std::string& symbol) {
            return SourceKernel(std::move(module), symbol);
          },
          py::arg("symbol"), "Return the kernel with this mangled name.");
}

py::bytes copy_of(BlockedStream& blocked, std::uintptr_t pointer, std::size_t bytes) {
  py::bytes copy(nullptr, bytes);
  char* memory = PyBytes_AS_STRING(copy.ptr());
  const ReleaseGil release;
  blocked.copy(memory, reinterpret_cast<const void*>(pointer), bytes);
  return copy;
}

void bind_blocked_stream(py::module_& m) {
  py::class_<BlockedStream>(
      m, "BlockedStream",
      "Context manager that blocks a stream of the default GPU until its exit, but at most for "
      "250 ms.")
      .def(py::init([](std::uintptr_t stream) {
             return std::make_unique<BlockedStream>(reinterpret_cast<void*>(stream), default_gpu());
           }),
           py::arg("stream") = 0)
      .def(
          "__enter__",
          [](BlockedStream& blocked) -> BlockedStream& {
            blocked.block();
            return blocked;
          },
          py::return_value_policy::reference_internal)
      .def("__exit__",
           [](BlockedStream& blocked, const py::object&, const py::object&, const py::object&) {
             const ReleaseGil release;
             blocked.release();
           })
      .def("copy", &copy_of, py::arg("pointer"), py::arg("nbytes"),
           "Copy device memory to the host on another stream.")
      .def_property_readonly("still_blocked", &BlockedStream::still_blocked);
}

}  // namespace

void bind_source_kernels(py::module_& m) {
  bind_kernels(m);
  bind_blocked_stream(m);
}

}  // namespace ado::bindings

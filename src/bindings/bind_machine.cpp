// Python functions for the machine, the settings and the timer.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <limits>
#include <tuple>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/options.hpp"
#include "core/error.hpp"
#include "core/file_maps.hpp"
#include "core/threads.hpp"
#include "device/device.hpp"
#include "runtime/call.hpp"
#include "runtime/host.hpp"
#include "runtime/text.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;

// (seconds, SM clock in Hz or 0, launch overhead hidden, seconds without a processor or negative)
using Timing = std::tuple<double, double, bool, double>;

Timing timing_of(const cuda::Sample& s) { return {s.seconds, s.hertz, s.blocked, s.waited}; }

void check_repeats(int repeats) {
  if (repeats < 1) throw ValueError("repeats must be at least 1, got " + std::to_string(repeats));
}

Timing sample_call(Call& call, bool cold, int repeats) {
  check_repeats(repeats);
  cuda::Sample taken;
  without_gil([&] { taken = sample(call, cold, repeats); });
  return timing_of(taken);
}

// Samples a Python function. On the GPU, the GIL is released while the host waits for the device.
// The launch overhead of the host is not part of the sample (runtime/device.hpp).
Timing sample_callable(const py::function& work, const std::string& device, bool cold, int repeats,
                       std::uintptr_t stream) {
  check_repeats(repeats);
  const DeviceId where = device_named(device);
  if (where.kind == Device::kCpu) {
    const host::Sample taken = host::sample([&] { work(); }, cold, repeats);
    return {taken.seconds, 0, true, taken.waited};
  }
  const cuda::DeviceScope scope(resolve_gpu(where).ordinal);
  const auto locked_work = [&] {
    const py::gil_scoped_acquire lock;
    work();
  };
  const ReleaseGil release;
  return timing_of(cuda::sample(locked_work, cold, repeats, reinterpret_cast<void*>(stream)));
}

py::dict cuda_properties(const std::string& device) {
  const DeviceId where = resolve_gpu(device_named(device));
  const cuda::DeviceScope scope(where.ordinal);
  const cuda::Properties& p = cuda::properties();
  py::dict d;
  d["name"] = p.name;
  d["uuid"] = p.uuid;
  d["pci_bus_id"] = p.pci_bus_id;
  d["compute"] = p.compute;
  const Hardware owned = cuda::hardware(nullptr);
  d["multiprocessors"] = owned.multiprocessors;
  d["device_multiprocessors"] = p.multiprocessors;
  d["threads_per_multiprocessor"] = p.threads_per_multiprocessor;
  d["core_hertz"] = p.core_hertz;
  d["memory_hertz"] = p.memory_hertz;
  d["memory_bus_bits"] = p.memory_bus_bits;
  d["memory_bytes"] = p.memory_bytes;
  d["l2_bytes"] = p.l2_bytes;
  d["memory_bandwidth"] = owned.memory_bandwidth;
  d["shared_bytes"] = p.shared_bytes_per_block;
  d["shared_bytes_per_multiprocessor"] = p.shared_bytes_per_multiprocessor;
  d["driver_version"] = p.driver_version;
  d["runtime_version"] = p.runtime_version;
  return d;
}

// (level, bytes, logical processors that share the cache), nearest first
std::vector<std::tuple<int, std::int64_t, int>> caches() {
  std::vector<std::tuple<int, std::int64_t, int>> list;
  for (const host::Cache& cache : host::caches())
    list.emplace_back(cache.level, cache.bytes, cache.shared_by);
  return list;
}

}  // namespace

void bind_machine(py::module_& m) {
  m.def("why_no_cuda", &cuda::why_unavailable, "Empty if there is a usable GPU.");
  m.def("cuda_properties", &cuda_properties, py::arg("device") = "cuda");
  m.def(
      "resolve_device",
      [](const std::string& name) {
        const DeviceId device = device_named(name);
        return name_of(device.kind == Device::kCpu ? device : resolve_gpu(device));
      },
      py::arg("device"),
      "The name of a device with the number of the GPU: 'cpu', or 'cuda:0' for 'cuda'.");
  m.def(
      "device_kind",
      [](const std::string& name) { return std::string(name_of(device_named(name).kind)); },
      py::arg("device"), "'cpu', or 'cuda' for a GPU or the emulator.");
  m.def("caches", &caches);
  m.def("last_level_cache_bytes", &host::last_level_cache_bytes,
        "Sum of the last-level caches that the threads of CPU variants use.");
  m.def("cores", &host::cores,
        "Physical cores of the logical processors that are available to this process.");
  m.def(
      "mapped_parts",
      [](std::intptr_t begin, std::intptr_t end) {
        py::list parts;
        for (const FilePart& part : mapped_parts({begin, end}))
          parts.append(py::make_tuple(part.inode, part.begin, part.end, part.shared));
        return parts;
      },
      py::arg("begin"), py::arg("end"),
      "Parts of files that are mapped at these addresses: inode, first byte, byte after the last, "
      "and whether writes reach the file.");
  m.def(
      "writes_through_file",
      [](const AddressRange& written, const AddressRange& read) {
        return writes_through_file(written, read);
      },
      py::arg("written"), py::arg("read"),
      "Whether writing to one range of addresses changes another one through a mapped file.");
  m.def("max_threads", &max_threads, "Threads that CPU variants use on large problems.");
  m.def(
      "set_max_threads",
      [](const py::object& threads, bool at_any_size) {
        const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(threads.ptr()));
        if (!number) throw py::error_already_set();
        int overflow = 0;
        const long long count = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
        if (overflow != 0 || count < 1 || count > std::numeric_limits<int>::max())
          throw ValueError("the number of threads must be at least 1 and at most " +
                           std::to_string(std::numeric_limits<int>::max()) + ", got " +
                           std::string(py::str(threads)));
        set_max_threads(static_cast<int>(count), at_any_size);
      },
      py::arg("threads"), py::arg("at_any_size") = false,
      "Set the number of threads that CPU variants use on large problems, or at any size.");
  m.def("supported_isa", [] { return std::string(host::name_of(host::supported_isa())); });
  m.def("isa", [] { return std::string(host::name_of(host::isa())); });
  m.def("set_isa", [](const std::string& name) { host::set_isa(host::isa_named(name)); });
  m.def("device", [] { return name_of(default_device()); });
  m.def("set_device", [](const std::string& name) { set_default_device(device_named(name)); });
  m.def(
      "suggest",
      [](const py::str& name, const std::vector<std::string>& known) {
        return suggest(escaped_text(name), known);
      },
      py::arg("name"), py::arg("known"),
      "The end of an error message for an unknown name: the most similar name, and all valid "
      "names.");
  m.def(
      "kernel_name", [](const std::string& symbol) { return short_name(symbol.c_str()); },
      py::arg("symbol"),
      "The readable name of a kernel with its template arguments, from its mangled name.");
  m.def("sample", &sample_call, py::arg("call"), py::arg("cold"), py::arg("repeats"));
  m.def("sample", &sample_callable, py::arg("work"), py::arg("device"), py::arg("cold"),
        py::arg("repeats"), py::arg("stream"));
}

}  // namespace ado::bindings

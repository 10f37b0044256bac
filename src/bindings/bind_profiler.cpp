// Python functions for hardware counters.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <optional>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "device/capture.hpp"
#include "device/counters.hpp"
#include "device/pc_sampling.hpp"
#include "device/source_kernel.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;
using Metrics = std::vector<std::string>;
using Counted = std::vector<std::pair<cuda::Kernel, std::vector<double>>>;

Counted count(const std::function<void()>& work, const Metrics& metrics, bool cold) {
  Counted list;
  for (counters::Counted& c : counters::count(work, metrics, cold))
    list.emplace_back(std::move(c.kernel), std::move(c.values));
  return list;
}

Counted count_call(Call& call, const Metrics& metrics, bool cold) {
  std::optional<cuda::DeviceScope> scope;
  if (call.memory().kind == Device::kCuda) scope.emplace(call.memory().ordinal);
  return count([&] { call.run(); }, metrics, cold);
}

auto with_gil(const py::function& work) {
  return [&work] {
    const py::gil_scoped_acquire lock;
    work();
  };
}

Counted count_callable(const py::function& work, const Metrics& metrics, bool cold) {
  const ReleaseGil release;
  return count(with_gil(work), metrics, cold);
}

using Ranges = std::vector<std::pair<std::uint64_t, std::size_t>>;

std::vector<capture::Range> ranges_of(const Ranges& pairs) {
  std::vector<capture::Range> ranges;
  for (const auto& [address, bytes] : pairs) ranges.push_back({address, bytes});
  return ranges;
}

py::tuple captured(const py::function& work, const Ranges& operands,
                   const py::function& free_memory, std::size_t max_bytes) {
  const auto freed = [&] {
    const py::gil_scoped_acquire lock;
    return ranges_of(free_memory().cast<Ranges>());
  };
  capture::Captured found;
  {
    const ReleaseGil release;
    found = capture::capture(with_gil(work), ranges_of(operands), freed, max_bytes);
  }
  std::map<const void*, py::object> copies;  // launches share contents
  const auto bytes = [&](const capture::Bytes& content) {
    py::object& copy = copies[content.get()];
    if (!copy) copy = content ? py::object(py::bytes(*content)) : py::none();
    return copy;
  };
  const auto lengths = [](const Extent& e) { return py::make_tuple(e.x, e.y, e.z); };
  py::list launches;
  for (const capture::Launch& launch : found.launches) {
    py::list arguments, allocations;
    for (const std::string& argument : launch.arguments) arguments.append(py::bytes(argument));
    for (const capture::Allocation& a : launch.allocations)
      allocations.append(py::make_tuple(a.address, bytes(a.before), bytes(a.after)));
    py::dict fields;
    fields["symbol"] = launch.symbol;
    fields["function"] = launch.function;
    fields["modules"] = launch.modules;
    fields["grid"] = lengths(launch.grid);
    fields["block"] = lengths(launch.block);
    fields["shared_bytes"] = launch.shared_bytes;
    fields["arguments"] = arguments;
    fields["allocations"] = allocations;
    fields["seconds"] = launch.seconds;
    fields["lacks"] = launch.lacks;
    launches.append(fields);
  }
  py::list cubins;
  for (const std::string& cubin : found.cubins) cubins.append(py::bytes(cubin));
  return py::make_tuple(launches, cubins, found.graphs);
}

void bind_sampler(py::module_& m) {
  using pc_sampling::Line;
  using pc_sampling::Sampler;
  using pc_sampling::Samples;
  py::class_<Line>(m, "LineSamples", "The samples of one source line of one kernel.")
      .def_readonly("kernel", &Line::kernel)
      .def_readonly("path", &Line::path)
      .def_readonly("line", &Line::line)
      .def_readonly("samples", &Line::samples);
  py::class_<Samples>(m, "Samples", "Samples by stall reason and source line.")
      .def_readonly("reasons", &Samples::reasons)
      .def_readonly("lines", &Samples::lines)
      .def_readonly("dropped", &Samples::dropped)
      .def_readonly("unattributed", &Samples::unattributed);
  py::class_<Sampler>(m, "Sampler",
                      "Samples the kernels of modules that are loaded while it exists.")
      .def(py::init<>())
      .def(
          "collect",
          [](Sampler& sampler, Call& call, double seconds) {
            return sampler.collect([&] { call.run(); }, seconds);
          },
          py::arg("call"), py::arg("seconds"), py::call_guard<ReleaseGil>(),
          "Repeats a call for about `seconds`, and returns its samples.")
      .def(
          "collect",
          [](Sampler& sampler, const std::vector<const cuda::KernelLaunch*>& launches,
             double seconds) {
            const auto run_all = [&] {
              for (const cuda::KernelLaunch* launch : launches) launch->run(nullptr);
            };
            return sampler.collect(run_all, seconds);
          },
          py::arg("launches"), py::arg("seconds"), py::call_guard<ReleaseGil>());
}

}  // namespace

void bind_profiler(py::module_& m) {
  m.def("why_no_counters", &counters::why_unavailable,
        "Empty if the hardware counters can be read, else the reason and the remedy.");
  m.def("profiler_version", &counters::version, "The version of the loaded CUPTI.");
  m.def(
      "chip",
      [](const std::string& device) {
        const cuda::DeviceScope scope(resolve_gpu(device_named(device)).ordinal);
        return counters::chip();
      },
      py::arg("device") = "cuda", "The chip of a GPU, for example 'GH100'.");
  m.def("existing_metrics", &counters::existing, py::arg("metrics"), py::arg("chip"),
        "The given metrics that exist on a chip.");
  m.def("count", &count_call, py::arg("call"), py::arg("metrics"), py::arg("cold"),
        py::call_guard<ReleaseGil>(),
        "The kernels of a call, each with the values of the metrics.");
  m.def("capture", &captured, py::arg("work"), py::arg("operands"), py::arg("free_memory"),
        py::arg("max_bytes"),
        "The launches of the second of two calls as dictionaries, the cubins, and the number of "
        "launched graphs.");
  bind_sampler(m);
  m.def("count", &count_callable, py::arg("work"), py::arg("metrics"), py::arg("cold"));
}

}  // namespace ado::bindings

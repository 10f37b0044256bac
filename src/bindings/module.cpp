// The extension module: a table of contents.
#include <pybind11/functional.h>

#include "bindings/bind.hpp"
#include "core/threads.hpp"
#include "routines/average_matvec.hpp"
#include "routines/ceilings.hpp"
#include "routines/edge_detect.hpp"
#include "routines/gaussian_blur.hpp"
#include "routines/gpp.hpp"
#include "routines/grayscale.hpp"
#include "routines/max_plus.hpp"
#include "routines/sobel.hpp"
#include "routines/transpose.hpp"

// One line a routine: its struct, and the function that gives its ladder in every file that has
// one.
#define ADO_ROUTINES(_)                   \
  _(Ceilings, ceilings_ladder)            \
  _(Transpose, transpose_ladder)          \
  _(Grayscale, grayscale_ladder)          \
  _(GaussianBlur, gaussian_blur_ladder)   \
  _(Sobel, sobel_ladder)                  \
  _(EdgeDetect, edge_detect_ladder)       \
  _(AverageMatvec, average_matvec_ladder) \
  _(MaxPlus, max_plus_ladder)             \
  _(Gpp, gpp_ladder)

namespace ado {

#define ADO_DECLARE(Struct, ladder) Ladder<Struct> ladder();
namespace baseline {
ADO_ROUTINES(ADO_DECLARE)
}
#if defined(__x86_64__)
namespace avx2 {
ADO_ROUTINES(ADO_DECLARE)
}
namespace avx512 {
ADO_ROUTINES(ADO_DECLARE)
}
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif
namespace cuda {
ADO_ROUTINES(ADO_DECLARE)
}
#undef ADO_DECLARE

namespace py_binding {
namespace {

// The routines live as long as the process: problems and calls refer to them.
const std::vector<std::unique_ptr<Routine>>& routines() {
  static const auto* const all = [] {
    auto* list = new std::vector<std::unique_ptr<Routine>>;
#define ADO_REGISTER(Struct, ladder)                   \
  list->push_back(std::make_unique<RoutineOf<Struct>>( \
      Ladders<Struct>{{baseline::ladder(), avx2::ladder(), avx512::ladder()}, cuda::ladder()}));
    ADO_ROUTINES(ADO_REGISTER)
#undef ADO_REGISTER
    return list;
  }();
  return *all;
}

// (seconds, SM clock in Hz or 0, launch overhead hidden)
using Timing = std::tuple<double, double, bool>;

Timing sample(const std::function<void()>& work, Device device, bool cold, int repeats,
              std::uintptr_t stream) {
  if (repeats < 1) throw ValueError("repeats must be at least 1");
  if (device == Device::kCpu) return {host::sample(work, cold, repeats), 0, true};
  const cuda::Sample s = cuda::sample(work, cold, repeats, reinterpret_cast<void*>(stream));
  return {s.seconds, s.hertz, s.blocked};
}

Timing sample_call(const Call& call, bool cold, int repeats) {
  // The GPU's timer exists once, so there the GIL also keeps two samples apart.
  std::optional<ReleaseGil> release;
  if (call.device == Device::kCpu) release.emplace();
  return sample(call.run, call.device, cold, repeats, 0);
}

Timing sample_callable(const py::function& work, const std::string& device, bool cold, int repeats,
                       std::uintptr_t stream) {
  return sample([&] { work(); }, device_named(device), cold, repeats, stream);
}

py::dict cuda_properties() {
  const cuda::Properties& p = cuda::properties();
  py::dict d;
  d["name"] = p.name;
  d["uuid"] = p.uuid;
  d["compute"] = p.compute;
  d["multiprocessors"] = p.multiprocessors;
  d["core_hertz"] = p.core_hertz;
  d["memory_hertz"] = p.memory_hertz;
  d["memory_bus_bits"] = p.memory_bus_bits;
  d["memory_bytes"] = p.memory_bytes;
  d["l2_bytes"] = p.l2_bytes;
  d["shared_bytes_per_multiprocessor"] = p.shared_bytes_per_multiprocessor;
  d["driver_version"] = p.driver_version;
  d["runtime_version"] = p.runtime_version;
  return d;
}

// (level, bytes, logical processors that share it), nearest first
std::vector<std::tuple<int, std::int64_t, int>> caches() {
  std::vector<std::tuple<int, std::int64_t, int>> list;
  for (const host::Cache& cache : host::caches())
    list.emplace_back(cache.level, cache.bytes, cache.shared_by);
  return list;
}

py::dict cuda_array_interface(const DeviceArray& array) {
  py::dict d;
  d["shape"] = py::tuple(
      py::cast(std::vector<std::int64_t>(array.view.shape, array.view.shape + array.view.rank)));
  d["typestr"] = array.dtype.attr("str");
  d["descr"] = array.dtype.attr("descr");
  d["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(array.view.data), false);
  d["strides"] = py::none();
  d["stream"] = 1;  // the legacy default stream, on which all work of this library runs
  d["version"] = 3;
  return d;
}

DeviceArray to_device(const py::object& array) {
  cuda::require();
  const auto numpy = py::module_::import("numpy");
  if (py::isinstance(array, numpy.attr("ma").attr("MaskedArray")))
    throw TypeError("to_device: a masked array; fill it first (.filled())");
  const auto host = numpy.attr("asarray")(array).cast<py::array>();
  refuse_references("to_device: the array", host.dtype());
  const auto packed = numpy.attr("ascontiguousarray")(host).cast<py::array>();
  DeviceArray device(packed.dtype(), view_of("to_device: the array", host));
  cuda::copy_to_device(device.view.data, packed.data(), static_cast<std::size_t>(packed.nbytes()));
  return device;
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const TypeError& e) {
    py::set_error(PyExc_TypeError, e.what());
  } catch (const OutOfDeviceMemory& e) {
    py::set_error(PyExc_MemoryError, e.what());
  }
}

void bind_values(py::module_& m) {
  py::class_<OptionType>(m, "OptionType", "What an option takes.")
      .def_readonly("name", &OptionType::name)
      .def_readonly("length", &OptionType::length)
      .def_readonly("choices", &OptionType::choices);
  py::class_<ParameterInfo>(m, "Parameter", "An operand or an option of a routine.")
      .def_readonly("name", &ParameterInfo::name)
      .def_readonly("role", &ParameterInfo::role)
      .def_readonly("doc", &ParameterInfo::doc)
      .def_readonly("shape", &ParameterInfo::shape)
      .def_readonly("elements", &ParameterInfo::elements)
      .def_readonly("any_elements", &ParameterInfo::any_elements)
      .def_readonly("type", &ParameterInfo::type)
      .def_readonly("default", &ParameterInfo::default_value);
  py::class_<VariantInfo>(m, "VariantInfo", "The part of a row that Python shows.")
      .def_readonly("name", &VariantInfo::name)
      .def_readonly("changes", &VariantInfo::changes)
      .def_readonly("device", &VariantInfo::device)
      .def_readonly("precision", &VariantInfo::precision)
      .def_readonly("ceiling", &VariantInfo::ceiling)
      .def_readonly("min_compute", &VariantInfo::min_compute)
      .def_readonly("blocks", &VariantInfo::blocks)
      .def_readonly("stages", &VariantInfo::stages);
}

void bind_kernels(py::module_& m) {
  using cuda::Kernel;
  py::class_<Kernel>(m, "KernelInfo", "What a compiled kernel takes of a multiprocessor.")
      .def_readonly("name", &Kernel::name)
      .def_property_readonly("grid", [](const Kernel& k) { return extent_list(k.grid); })
      .def_property_readonly("block", [](const Kernel& k) { return extent_list(k.block); })
      .def_readonly("registers", &Kernel::registers)
      .def_readonly("local_bytes", &Kernel::local_bytes)
      .def_readonly("static_shared_bytes", &Kernel::static_shared_bytes)
      .def_readonly("dynamic_shared_bytes", &Kernel::dynamic_shared_bytes)
      .def_readonly("warps", &Kernel::warps)
      .def_readonly("most_warps", &Kernel::most_warps)
      .def_readonly("blocks_by_warps", &Kernel::blocks_by_warps)
      .def_readonly("blocks_by_slots", &Kernel::blocks_by_slots)
      .def_readonly("blocks_by_registers", &Kernel::blocks_by_registers)
      .def_readonly("blocks_by_shared", &Kernel::blocks_by_shared);
}

void bind_routines(py::module_& m) {
  py::class_<Cost>(m, "Cost", "FLOPs and bytes of one variant on one problem.")
      .def_readonly("flops", &Cost::flops, "Useful FLOPs, the same for every variant.")
      .def_readonly("bytes", &Cost::bytes, "Compulsory bytes, the same for every variant.")
      .def_readonly("executed_flops", &Cost::executed_flops, "FLOPs that the variant executes.")
      .def_readonly("requested_bytes", &Cost::requested_bytes,
                    "Bytes that the variant asks of memory.")
      .def_readonly("executed_instructions", &Cost::executed_instructions,
                    "Floating-point instructions of a lane that do its FLOPs; 0: not counted.")
      .def("__repr__", [](const Cost& c) {
        return py::str(
                   "Cost(flops={:g}, bytes={:g}, executed_flops={:g}, requested_bytes={:g}, "
                   "executed_instructions={:g})")
            .format(c.flops, c.bytes, c.executed_flops, c.requested_bytes, c.executed_instructions);
      });
  py::class_<Call>(m, "Call", "A variant made ready to run on one problem.")
      .def("run", [](const Call& call) { call.run(); })
      .def(
          "kernels",
          [](const Call& call) {
            return call.device == Device::kCuda ? call.kernels() : std::vector<cuda::Kernel>();
          },
          "The kernels that it launches; none on the CPU.")
      .def_readonly("variant", &Call::variant)
      .def_readonly("cost", &Call::cost)
      .def_property_readonly("grid", [](const Call& c) { return extent_list(c.plan.launch.grid); })
      .def_property_readonly("block",
                             [](const Call& c) { return extent_list(c.plan.launch.block); })
      .def_property_readonly("shared_bytes",
                             [](const Call& c) { return c.plan.launch.shared_bytes; });
  py::class_<Problem>(m, "Problem", "Operands, checked and staged once.")
      .def(
          "prepare",
          [](Problem& problem, const std::string& variant, const py::object& block) {
            return problem.prepare(variant, block_from(block));
          },
          py::arg("variant"), py::arg("block") = py::none(), py::keep_alive<0, 1>())
      .def("why_refused", &Problem::why_refused)
      .def("fill_results", &Problem::fill_results, "Overwrite every byte of the results.")
      .def("best", &Problem::best, "The variant that a call would choose.")
      .def("results", &Problem::results, "The results, in host memory.")
      .def_readonly("description", &Problem::description);
  py::class_<Routine>(m, "Routine", "What is computed, and the ladders that compute it.")
      .def_readonly("name", &Routine::name)
      .def_readonly("summary", &Routine::summary)
      .def_readonly("source", &Routine::source)
      .def_readonly("parameters", &Routine::parameters)
      .def_property_readonly("variants", &Routine::variants)
      .def("why_unavailable", &Routine::why_unavailable, "Empty if the variant can run here.")
      .def(
          "call",
          [](const Routine& routine, const py::tuple& arguments, const py::dict& options,
             const py::object& variant, const py::object& block, const py::object& device,
             py::object out) {
            return routine.call(arguments, options, name_from(variant, "variant"),
                                block_from(block), name_from(device, "device"), std::move(out));
          },
          py::arg("arguments"), py::arg("options"), py::arg("variant"), py::arg("block"),
          py::arg("device"), py::arg("out"))
      .def("problem", &Routine::problem, py::arg("arguments"), py::arg("options"),
           py::arg("device"))
      .def("kernels", &Routine::kernels, py::arg("variant"), py::arg("arguments"),
           py::arg("options"), py::arg("block"))
      .def("cost", &Routine::cost, py::arg("variant"), py::arg("arguments"), py::arg("options"));
  m.def(
      "routines",
      [] {
        std::vector<const Routine*> list;
        for (const auto& routine : routines()) list.push_back(routine.get());
        return list;
      },
      py::return_value_policy::reference);
}

void bind_device_array(py::module_& m) {
  py::class_<DeviceArray>(m, "DeviceArray", R"(An array in GPU memory, packed, row-major.

Made by ``to_device`` and by calls with device arrays. CuPy, torch and others read it through
``__cuda_array_interface__`` without a copy.)")
      .def(
          "numpy", [](const DeviceArray& a) -> py::object { return a.numpy(); },
          "A copy in host memory, as a NumPy array.")
      .def_property_readonly("shape",
                             [](const DeviceArray& a) {
                               return py::tuple(py::cast(std::vector<std::int64_t>(
                                   a.view.shape, a.view.shape + a.view.rank)));
                             })
      .def_property_readonly("dtype", [](const DeviceArray& a) -> py::object { return a.dtype; })
      .def_property_readonly("ndim", [](const DeviceArray& a) { return a.view.rank; })
      .def_property_readonly("size", [](const DeviceArray& a) { return a.view.elements(); })
      .def_property_readonly("nbytes", [](const DeviceArray& a) { return a.view.bytes(); })
      .def_property_readonly("__cuda_array_interface__", &cuda_array_interface)
      .def(
          "__array__",
          [](const DeviceArray&, const py::object&, const py::object&) -> py::object {
            throw TypeError("a DeviceArray is in GPU memory: copy it with .numpy()");
          },
          py::arg("dtype") = py::none(), py::arg("copy") = py::none(),
          "Refused: nothing is copied to the host silently.")
      .def("__len__",
           [](const DeviceArray& a) {
             if (a.view.rank == 0) throw TypeError("len() of an array without dimensions");
             return a.view.shape[0];
           })
      .def("__repr__", [](const py::object& self) {
        return "DeviceArray(shape=" + std::string(py::str(self.attr("shape"))) +
               ", dtype=" + std::string(py::str(self.attr("dtype"))) + ")";
      });
  m.def("to_device", &to_device, py::arg("array"), "Copy an array into GPU memory.");
  m.def("synchronize", &cuda::synchronize, py::call_guard<ReleaseGil>(),
        "Wait until the GPU has done all that was asked.");
}

void bind_machine(py::module_& m) {
  m.def("why_no_cuda", &cuda::why_unavailable, "Empty if there is a usable GPU.");
  m.def("cuda_properties", &cuda_properties);
  m.def("caches", &caches);
  m.def("last_level_cache_bytes", &host::last_level_cache_bytes,
        "Of all last-level caches that the threads of CPU variants use.");
  m.def("cores", &host::cores, "Cores behind the logical processors that are online.");
  m.def("max_threads", &max_threads, "Threads that CPU variants use on large problems.");
  m.def("supported_isa", [] { return std::string(host::name_of(host::supported_isa())); });
  m.def("isa", [] { return std::string(host::name_of(settings().isa)); });
  m.def("set_isa", [](const std::string& name) { settings().isa = host::isa_named(name); });
  m.def("device", [] { return std::string(name_of(default_device())); });
  m.def("set_device", [](const std::string& name) {
    const Device device = device_named(name);
    if (device == Device::kCuda) cuda::require();
    settings().device = device;
  });
  m.def("sample", &sample_call, py::arg("call"), py::arg("cold"), py::arg("repeats"));
  m.def("sample", &sample_callable, py::arg("work"), py::arg("device"), py::arg("cold"),
        py::arg("repeats"), py::arg("stream"));
}

}  // namespace
}  // namespace py_binding
}  // namespace ado

PYBIND11_MODULE(_core, m) {
  using namespace ado;
  using namespace ado::py_binding;
  m.doc() = "The C++ core of adokernels.";
  py::register_exception<Unavailable>(m, "Unavailable", PyExc_RuntimeError).doc() =
      "Not in this build, no device, or a device that is too old.";
  py::register_exception<CudaError>(m, "CudaError", PyExc_RuntimeError).doc() =
      "A CUDA call failed; the text names the call, the place and the error.";
  py::register_exception_translator(translate);
  settings().isa = host::supported_isa();
  bind_values(m);
  bind_device_array(m);
  bind_kernels(m);
  bind_routines(m);
  bind_machine(m);
}

// Python classes of routines, problems and calls.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/options.hpp"
#include "core/error.hpp"
#include "runtime/call.hpp"
#include "runtime/strided.hpp"

namespace ado::bindings {
namespace {

// A description of an operand or an option, for the documentation, the stubs and error messages.
struct Parameter {
  std::string name, role, doc;  // role: "input", "output" or "option"
  std::string shape = {}, elements = {};
  OptionType type = {};
  py::object default_value = py::none();
};

Parameter parameter_of(const OperandInfo& info, const char* role) {
  return {.name = info.name,
          .role = role,
          .doc = info.doc,
          .shape = info.shape.text(),
          .elements = info.type_text()};
}

std::vector<Parameter> parameters_of(const Routine& routine) {
  std::vector<Parameter> list;
  for (const OperandInfo& input : routine.inputs) list.push_back(parameter_of(input, "input"));
  for (const OptionInfo& option : routine.options)
    list.push_back({.name = option.name,
                    .role = "option",
                    .doc = option.doc,
                    .type = option.type,
                    .default_value = to_python(option.default_value)});
  for (const OperandInfo& output : routine.outputs) list.push_back(parameter_of(output, "output"));
  return list;
}

constexpr int kLegacyStream = 1;  // prepared calls run on it

// Binds the arguments of a call to a problem.
std::unique_ptr<Problem> bind(const Routine& routine, const py::tuple& arguments,
                              const py::dict& options, const py::object& out,
                              const py::object& stream = py::none()) {
  Given given{PySequence_Fast_ITEMS(arguments.ptr()), arguments.size()};
  given.out = out;
  given.stream = stream;
  for (const auto& [name, value] : options) {
    const auto index = find_keyword(routine, name);
    if (!index) refuse_keyword(routine, name, routine.name, given.count);
    given.keywords.emplace_back(*index, py::reinterpret_borrow<py::object>(value));
  }
  std::unique_ptr<Problem> problem = Arguments::new_problem(routine);
  Arguments::of(*problem).bind(given);
  return problem;
}

// Checks operands and copies them to the device once, so that only kernels are timed.
std::unique_ptr<Problem> problem_of(const Routine& routine, const py::tuple& arguments,
                                    const py::dict& options, const py::object& device,
                                    const py::object& variant, const py::object& out) {
  const AnyVariant* const named = variant_from_python(routine, variant);
  const auto wanted = device_from_python(device);
  std::unique_ptr<Problem> problem =
      bind(routine, arguments, options, out, py::int_(kLegacyStream));
  const DeviceId where = problem->resolve_device(named, wanted);
  without_gil([&] {
    problem->check_values();
    if (where.kind == Device::kCuda) problem->place(cuda::Stream{resolve_gpu(where).ordinal});
  });
  return problem;
}

std::unique_ptr<Call> prepare(const Problem& problem, const std::string& variant,
                              const py::object& block, std::uintptr_t stream,
                              std::size_t extra_shared_bytes) {
  const AnyVariant& named = problem.routine().find(variant);
  static_cast<void>(problem.resolve_device(&named, problem.placed().memory));
  return std::make_unique<Call>(problem, named, block_from_python(block),
                                reinterpret_cast<void*>(stream), extra_shared_bytes);
}

// Overwrites every byte of the results, but not the bytes between them.
void fill_results(const Problem& problem, unsigned char value) {
  const Problem& placed = problem.placed();
  const auto scope = scope_of(placed.memory);
  for (const Array* output : placed.outputs) {
    const auto bytes = static_cast<std::size_t>(output->bytes());
    if (placed.on_device()) {
      const cuda::Stream stream{placed.memory.ordinal};
      const cuda::Buffer packed(output->packed() ? 0 : bytes, stream);
      cuda::fill(output->packed() ? output->data : packed.data(), value, bytes);
      if (!output->packed())
        cuda::copy_strided(*output, packed_like(*output, packed.data()), stream);
    } else if (output->packed()) {
      std::fill_n(output->data, bytes, std::byte{value});
    } else {
      unpack_all(*output, std::vector(bytes, std::byte{value}).data());
    }
  }
}

template <class Function>
py::tuple tuple_of(const std::vector<PyArray>& arrays, const Function& function) {
  py::tuple all(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) all[i] = function(arrays[i]);
  return all;
}

py::object results_on_host(const Problem& problem) {
  {
    const ReleaseGil release;
    problem.fetch();
    if (problem.on_device()) cuda::synchronize(cuda::Stream{problem.memory.ordinal});
  }
  const py::tuple all =
      tuple_of(Arguments::of(problem).outputs(), [](const PyArray& a) { return a.numpy(); });
  return all.size() == 1 ? py::object(all[0]) : py::object(all);
}

py::dict options_of(const Problem& problem) {
  py::dict options;
  for (const auto& [option, value] : problem.given_options())
    options[problem.routine().options[option].name] = to_python(value);
  return options;
}

// The operands for given lengths, without arrays: (name, shape, dtype) of each.
std::vector<std::tuple<std::string, py::tuple, std::string>> operand_types(
    const Routine& routine, const NamedLengths& lengths, const std::vector<std::int64_t>& batch,
    const py::object& dtype) {
  std::optional<ElementType> type;
  if (!dtype.is_none()) type = element_type(py::dtype::from_args(dtype));
  std::vector<std::tuple<std::string, py::tuple, std::string>> list;
  for (const OperandType& operand : routine.operand_types(lengths, batch, type)) {
    const std::string numpy_type =
        type && operand.type == *type
            ? std::string(py::str(py::dtype::from_args(dtype).attr("str")))
            : std::string(1, operand.type.kind) + std::to_string(operand.type.size);
    list.emplace_back(operand.name, py::tuple(py::cast(operand.shape)), numpy_type);
  }
  return list;
}

// Returns the variant that a call would run, and (variant, reason) of each later variant that it
// skips.
py::tuple choose(const Routine& routine, const py::tuple& arguments, const py::dict& options,
                 const py::object& device, const py::object& out,
                 const std::optional<Hardware>& gpu) {
  const auto problem = bind(routine, arguments, options, out);
  std::vector<Skipped> skipped;
  const AnyVariant& chosen = ado::choose(*problem, device_from_python(device), gpu, skipped);
  py::list reasons;
  for (const auto& [variant, reason] : skipped)
    reasons.append(py::make_tuple(variant->name, reason));
  return py::make_tuple(chosen.name, reasons);
}

Plan plan_of(const Routine& routine, const std::string& variant, const py::tuple& arguments,
             const py::dict& options, const std::optional<Hardware>& gpu, const py::object& block,
             const py::object& out) {
  const AnyVariant& named = routine.find(variant);
  return plan(*bind(routine, arguments, options, out), named, block_from_python(block),
              gpu.value_or(target_of(named.device).hardware));
}

void bind_parameters(py::module_& m) {
  py::class_<OptionType>(m, "OptionType", "The values that an option accepts.")
      .def_property_readonly("name",
                             [](const OptionType& t) { return std::string(name_of(t.kind)); })
      .def_readonly("length", &OptionType::length)
      .def_readonly("choices", &OptionType::choices);
  py::class_<Parameter>(m, "Parameter", "An operand or an option of a routine.")
      .def_readonly("name", &Parameter::name)
      .def_readonly("role", &Parameter::role)
      .def_readonly("doc", &Parameter::doc)
      .def_readonly("shape", &Parameter::shape)
      .def_readonly("elements", &Parameter::elements)
      .def_readonly("type", &Parameter::type)
      .def_readonly("default", &Parameter::default_value);
}

void bind_call(py::module_& m) {
  py::class_<Call>(m, "Call", "A variant that is ready to run on one problem.")
      .def("run", [](Call& c) { without_gil([&] { c.run(); }); })
      .def("kernels", &Call::kernels, "The kernels that the call launches; none on the CPU.")
      .def_property_readonly("variant", [](const Call& c) { return std::string(c.variant().name); })
      .def_property_readonly(
          "device", [](const Call& c) { return std::string(name_of(c.variant().device)); },
          "'cpu' or 'cuda'.")
      .def_property_readonly("cost", &Call::cost)
      .def_property_readonly("grid", [](const Call& c) { return lengths_of(c.launch().grid); })
      .def_property_readonly("block", [](const Call& c) { return lengths_of(c.launch().block); })
      .def_property_readonly("shared_bytes", [](const Call& c) { return c.launch().shared_bytes; });
}

void bind_problem(py::module_& m) {
  py::class_<Problem>(m, "Problem", "Operands and options, checked and copied to the device once.")
      .def("prepare", &prepare, py::arg("variant"), py::arg("block") = py::none(),
           py::arg("stream") = 0, py::arg("extra_shared_bytes") = 0, py::keep_alive<0, 1>(),
           "Prepare a call. Experiments run it on the stream of a green context, or with more "
           "dynamic shared memory per block, which lowers the occupancy.")
      .def(
          "why_not",
          [](const Problem& p, const std::string& variant) {
            const auto scope = scope_of(p.placed().memory);
            const char* reason = p.routine().find(variant).why_not(p.placed());
            return std::string(reason == nullptr ? "" : reason);
          },
          py::arg("variant"), "Why the variant cannot solve this problem; empty if it can.")
      .def("fill_results", &fill_results, py::arg("value"), py::call_guard<ReleaseGil>(),
           "Overwrite every byte of the results.")
      .def(
          "best",
          [](const Problem& p) {
            const auto scope = scope_of(p.placed().memory);
            const Target target = target_of(p.placed().memory.kind);
            return std::string(p.routine().choose(p.placed(), target).name);
          },
          "The variant that a call would choose.")
      .def("results", &results_on_host, "The results, in host memory.")
      .def_property_readonly(
          "device", [](const Problem& p) { return std::string(name_of(p.placed().memory.kind)); },
          "'cpu' or 'cuda'.")
      .def_property_readonly(
          "device_id", [](const Problem& p) { return name_of(p.placed().memory); },
          "'cpu', or a GPU such as 'cuda:0'.")
      .def_property_readonly(
          "arguments",
          [](const Problem& p) {
            return tuple_of(Arguments::of(p).inputs(), [](const PyArray& a) { return a.object(); });
          },
          "The operands, in the routine's order.")
      .def_property_readonly(
          "host_arguments",
          [](const Problem& p) {
            return tuple_of(Arguments::of(p).inputs(), [](const PyArray& a) { return a.numpy(); });
          },
          "The operands as NumPy arrays. Operands in device memory are copied.")
      .def_property_readonly("options", &options_of, "The options that were passed.")
      .def_property_readonly(
          "operands",
          [](const Problem& p) {
            py::list list;
            for (std::size_t i = 0; i < p.inputs.size(); ++i) {
              const PyArray& input = Arguments::of(p).inputs()[i];
              list.append(py::make_tuple(p.routine().inputs[i].name, shape_of(input.view()),
                                         input.type_name()));
            }
            return list;
          },
          "Name, shape and dtype of each operand.");
}

}  // namespace

void bind_routines(py::module_& m) {
  bind_parameters(m);
  bind_call(m);
  bind_problem(m);
  py::class_<Routine>(m, "Routine", "A routine and its ladders.")
      .def_readonly("name", &Routine::name)
      .def_readonly("summary", &Routine::summary)
      .def_readonly("source", &Routine::source)
      .def_readonly("dimensions", &Routine::dimensions)
      .def_property_readonly("batched", &Routine::batched)
      .def_readonly("halo", &Routine::halo,
                    "A result pixel depends on the pixels up to this distance along rows and "
                    "columns. None if the routine is not an image filter.")
      .def_property_readonly("parameters", &parameters_of)
      .def_property_readonly("variants",
                             [](const Routine& r) {
                               py::list list;
                               for (const AnyVariant* variant : r.variants())
                                 list.append(py::cast(variant, py::return_value_policy::reference));
                               return list;
                             })
      .def(
          "why_unavailable",
          [](const Routine& r, const std::string& variant) {
            return r.find(variant).why_unavailable();
          },
          py::arg("variant"), "Empty if the variant can run here.")
      .def(
          "set_default_block",
          [](const Routine& r, const std::string& variant, const py::object& block) {
            set_default_block(r, r.find(variant), block_from_python(block));
          },
          py::arg("variant"), py::arg("block"),
          "Set the default block shape of a variant for the rest of the process.")
      .def(
          "problem", &problem_of, py::arg("arguments"), py::arg("options"),
          py::arg("device") = py::none(), py::arg("variant") = py::none(),
          py::arg("out") = py::none(),
          "Check operands, options and results, and copy operands to the device. Without out=, new "
          "results are allocated.")
      .def(
          "kernels",
          [](const Routine& r, const std::string& variant, const py::tuple& arguments,
             const py::dict& options, const py::object& block, const py::object& out) {
            return record_kernels(*bind(r, arguments, options, out), r.find(variant),
                                  block_from_python(block));
          },
          py::arg("variant"), py::arg("arguments"), py::arg("options"), py::arg("block"),
          py::arg("out") = py::none())
      .def(
          "cost",
          [](const Routine& r, const std::string& variant, const py::tuple& arguments,
             const py::dict& options) {
            const auto problem = bind(r, arguments, options, py::none());
            without_gil([&] { problem->check_values(); });
            const AnyVariant& named = r.find(variant);
            return cost_of(named, *problem, target_of(named.device).hardware);
          },
          py::arg("variant"), py::arg("arguments"), py::arg("options"))
      .def("choose", &choose, py::arg("arguments"), py::arg("options"),
           py::arg("device") = py::none(), py::arg("out") = py::none(), py::arg("gpu") = py::none(),
           "Return the variant that a call would run, and (variant, reason) of each later variant "
           "that it skips; with gpu=, for this hardware.")
      .def("plan", &plan_of, py::arg("variant"), py::arg("arguments"), py::arg("options"),
           py::arg("gpu") = py::none(), py::arg("block") = py::none(), py::arg("out") = py::none(),
           "Return the launch parameters, scratch memory and costs of a variant; with gpu=, for "
           "this "
           "hardware.")
      .def("operand_types", &operand_types, py::arg("lengths"), py::arg("batch"),
           py::arg("dtype") = py::none());
  m.def(
      "routines",
      [] {
        std::vector<const Routine*> list;
        for (const auto& routine : routines()) list.push_back(routine.get());
        return list;
      },
      py::return_value_policy::reference);
}

}  // namespace ado::bindings

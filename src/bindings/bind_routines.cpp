// Python classes of routines, problems and calls.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/direct_call.hpp"
#include "bindings/gil.hpp"
#include "bindings/options.hpp"
#include "bindings/parameters.hpp"
#include "core/error.hpp"
#include "runtime/settings.hpp"

namespace ado::bindings {
namespace {

const AnyVariant* find(const Routine& routine, const std::optional<std::string>& variant) {
  return variant ? &routine.find(*variant) : nullptr;
}

py::object call(const Routine& routine, const py::tuple& arguments, const py::dict& options,
                const py::object& variant, const py::object& block, const py::object& device,
                const py::object& out, const py::object& stream) {
  const auto variant_name = name_from_python(variant, "variant");
  const Block lengths = block_from_python(block);
  const auto device_name = name_from_python(device, "device");
  PyCall python(routine, arguments, options, out, stream);
  BoundProblem& bound = python.bound();
  const AnyVariant* const chosen = find(routine, variant_name);
  without_gil([&] {
    bound.check_values(python.stream().value_or(0));
    run(bound, chosen, device_name, lengths, python.stream());
  });
  return python.results();
}

// Operands that are checked once and staged to the device once, so that only kernels are timed.
class PyProblem {
 public:
  PyProblem(const Routine& routine, const py::tuple& arguments, const py::dict& options,
            const py::object& device, const py::object& variant)
      : python_(routine, arguments, options, py::none(), py::int_(kLegacyStream)) {
    BoundProblem& bound = python_.bound();
    device_ = bound.resolve_device(find(routine, name_from_python(variant, "variant")),
                                   name_from_python(device, "device"));
    without_gil([&] {
      bound.check_values();
      if (device_.kind == Device::kCpu) return;
      device_ = resolve_gpu(device_);
      const cuda::DeviceScope scope(device_.ordinal);
      if (bound.on_device()) {
        bound.begin_use(stream());
        try {
          packed_ = std::make_unique<PackedProblem>(bound.problem(), stream());
        } catch (...) {
          bound.end_use(stream());
          throw;
        }
      } else {
        staged_ = std::make_unique<StagedProblem>(bound.problem(), stream());
      }
    });
  }
  ~PyProblem() {
    if (packed_) python_.bound().end_use(stream());
  }

  const PyCall& python() const { return python_; }
  const DeviceId& device() const { return device_; }
  const Routine& routine() const { return python_.bound().routine(); }
  const Problem& problem() const {
    if (staged_) return staged_->problem();
    return packed_ ? packed_->problem() : python_.bound().problem();
  }
  const AnyVariant& best() const {
    const auto scope = scope_of_device();
    return routine().best(problem(), device_.kind);
  }

  std::unique_ptr<Call> prepare(const std::string& variant, const py::object& block) const {
    const AnyVariant& chosen = routine().find(variant);
    python_.bound().resolve_device(&chosen, name_of(device_));
    return std::make_unique<Call>(routine(), chosen, problem(), block_from_python(block));
  }

  void fill_results(unsigned char value) const {
    const auto scope = scope_of_device();
    for (const Array* output : problem().outputs) {
      const auto bytes = static_cast<std::size_t>(output->bytes());
      if (device_.kind == Device::kCuda)
        cuda::fill(output->data, value, bytes);
      else
        std::fill_n(output->data, bytes, std::byte{value});
    }
  }

  py::object results() const {
    if (!staged_) return python_.results_on_host();
    {
      const ReleaseGil release;
      staged_->fetch(python_.bound().problem());
    }
    return python_.results();
  }

 private:
  static constexpr int kLegacyStream = 1;  // prepared calls run on it
  cuda::Stream stream() const { return {device_.ordinal}; }
  std::optional<cuda::DeviceScope> scope_of_device() const {
    if (device_.kind == Device::kCpu) return std::nullopt;
    return std::optional<cuda::DeviceScope>(std::in_place, device_.ordinal);
  }

  PyCall python_;
  DeviceId device_;
  std::unique_ptr<StagedProblem> staged_;
  std::unique_ptr<PackedProblem> packed_;
};

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
                 const std::optional<std::tuple<int, std::int64_t, std::int64_t>>& gpu) {
  const PyCall python(routine, arguments, options, out);
  Hardware hardware;
  if (gpu)
    hardware = {.multiprocessors = std::get<0>(*gpu),
                .l2_bytes = std::get<1>(*gpu),
                .shared_bytes = std::get<2>(*gpu)};
  const Choice choice =
      ado::choose(python.bound(), name_from_python(device, "device"), gpu ? &hardware : nullptr);
  py::list skipped;
  for (const auto& [variant, reason] : choice.skipped)
    skipped.append(py::make_tuple(variant->name, reason));
  return py::make_tuple(choice.variant->name, skipped);
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
  py::class_<PyProblem>(m, "Problem", "Operands, checked and staged once.")
      .def("prepare", &PyProblem::prepare, py::arg("variant"), py::arg("block") = py::none(),
           py::keep_alive<0, 1>())
      .def(
          "why_not",
          [](const PyProblem& p, const std::string& variant) {
            const char* reason = p.routine().find(variant).why_not(p.problem());
            return std::string(reason == nullptr ? "" : reason);
          },
          py::arg("variant"), "Why the variant cannot solve this problem; empty if it can.")
      .def("fill_results", &PyProblem::fill_results, py::arg("value"), py::call_guard<ReleaseGil>(),
           "Overwrite every byte of the results.")
      .def(
          "best", [](const PyProblem& p) { return std::string(p.best().name); },
          "The variant that a call would choose.")
      .def("results", &PyProblem::results, "The results, in host memory.")
      .def_property_readonly(
          "device", [](const PyProblem& p) { return std::string(name_of(p.device().kind)); },
          "'cpu' or 'cuda'.")
      .def_property_readonly(
          "device_id", [](const PyProblem& p) { return name_of(p.device()); },
          "'cpu', or a GPU such as 'cuda:0'.")
      .def_property_readonly(
          "arguments", [](const PyProblem& p) { return p.python().arguments(); },
          "The operands, in the routine's order.")
      .def_property_readonly(
          "host_arguments", [](const PyProblem& p) { return p.python().host_arguments(); },
          "The operands as NumPy arrays. Operands in device memory are copied.")
      .def_property_readonly(
          "options", [](const PyProblem& p) { return p.python().options(); },
          "The options that were passed.")
      .def_property_readonly(
          "operands", [](const PyProblem& p) { return p.python().operands(); },
          "Name, shape and dtype of each operand.");
}

}  // namespace

void bind_routines(py::module_& m) {
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
      .def("call", &call, py::arg("arguments"), py::arg("options"), py::arg("variant"),
           py::arg("block"), py::arg("device"), py::arg("out"), py::arg("stream"))
      .def(
          "problem",
          [](const Routine& r, const py::tuple& arguments, const py::dict& options,
             const py::object& device, const py::object& variant) {
            return std::make_unique<PyProblem>(r, arguments, options, device, variant);
          },
          py::arg("arguments"), py::arg("options"), py::arg("device") = py::none(),
          py::arg("variant") = py::none())
      .def(
          "kernels",
          [](const Routine& r, const std::string& variant, const py::tuple& arguments,
             const py::dict& options, const py::object& block, const py::object& out) {
            const PyCall python(r, arguments, options, out);
            return record_kernels(r, r.find(variant), python.bound().problem(),
                                  block_from_python(block));
          },
          py::arg("variant"), py::arg("arguments"), py::arg("options"), py::arg("block"),
          py::arg("out") = py::none())
      .def(
          "cost",
          [](const Routine& r, const std::string& variant, const py::tuple& arguments,
             const py::dict& options) {
            PyCall python(r, arguments, options, py::none());
            without_gil([&] { python.bound().check_values(); });
            return cost_of(r.find(variant), python.bound().problem());
          },
          py::arg("variant"), py::arg("arguments"), py::arg("options"))
      .def("choose", &choose, py::arg("arguments"), py::arg("options"),
           py::arg("device") = py::none(), py::arg("out") = py::none(), py::arg("gpu") = py::none(),
           "Return the variant that a call would run, and (variant, reason) of each later variant "
           "that it skips. With gpu=(multiprocessors, L2 bytes, shared bytes per block), the "
           "choice is "
           "for that GPU.")
      .def("operand_types", &operand_types, py::arg("lengths"), py::arg("batch"),
           py::arg("dtype") = py::none());
  bind_direct_call(m);
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

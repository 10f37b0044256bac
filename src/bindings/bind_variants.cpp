// Python classes that describe variants: declarations, resources of kernels, and costs.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "bindings/bind.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;

// The default block shape comes first. The others are in the order of their declaration.
std::vector<std::vector<unsigned>> blocks_of(const AnyVariant& variant) {
  std::vector<std::vector<unsigned>> blocks;
  for (const Extent& block : variant.blocks) blocks.push_back(lengths_of(block));
  if (blocks.empty()) return blocks;
  const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(variant.default_block.load());
  std::rotate(blocks.begin(), first, first + 1);
  return blocks;
}

py::dict facts_of(const Hardware& h) {
  py::dict facts;
  facts["compute"] = h.compute;
  facts["multiprocessors"] = h.multiprocessors;
  facts["threads_per_multiprocessor"] = h.threads_per_multiprocessor;
  facts["l2_bytes"] = h.l2_bytes;
  facts["shared_bytes"] = h.shared_bytes;
  facts["shared_bytes_per_multiprocessor"] = h.shared_bytes_per_multiprocessor;
  facts["core_hertz"] = h.core_hertz;
  facts["memory_bandwidth"] = h.memory_bandwidth;
  return facts;
}

void bind_variant_info(py::module_& m) {
  py::class_<AnyVariant>(m, "VariantInfo", "The declaration of a variant.")
      .def_property_readonly("name", [](const AnyVariant& v) { return std::string(v.name); })
      .def_property_readonly("changes",
                             [](const AnyVariant& v) { return std::string(v.changes.text); })
      .def_property_readonly("device",
                             [](const AnyVariant& v) { return std::string(name_of(v.device)); })
      .def_property_readonly("precision",
                             [](const AnyVariant& v) { return std::string(v.precision); })
      .def_readonly("ceiling", &AnyVariant::ceiling)
      .def_readonly("models_flops", &AnyVariant::models_flops)
      .def_readonly("min_compute", &AnyVariant::min_compute)
      .def_property_readonly("blocks", &blocks_of, "The block shapes, the default first.")
      .def_property_readonly(
          "steps",
          [](const AnyVariant& v) -> std::optional<std::vector<std::string>> {
            if (v.changes.steps[0] == Step::kUnstated) return std::nullopt;
            std::vector<std::string> names;
            for (const Step step : v.changes.steps)
              if (step > Step::kOther) names.emplace_back(name_of(step));
            return names;
          },
          "The categories of the change; None if the variant does not state them.")
      .def_property_readonly("stages", [](const AnyVariant& v) {
        std::vector<std::pair<std::string, std::string>> stages;
        for (const Stage& stage : v.stages) stages.emplace_back(stage.routine, stage.variant);
        return stages;
      });
}

void bind_hardware(py::module_& m) {
  py::class_<Hardware>(m, "Hardware", "The properties of a GPU that grids, costs and choices use.")
      .def(py::init([](int compute, int multiprocessors, int threads_per_multiprocessor,
                       std::int64_t l2_bytes, std::int64_t shared_bytes,
                       std::int64_t shared_bytes_per_multiprocessor, double core_hertz,
                       double memory_bandwidth) {
             return Hardware{compute,    multiprocessors, threads_per_multiprocessor,
                             l2_bytes,   shared_bytes,    shared_bytes_per_multiprocessor,
                             core_hertz, memory_bandwidth};
           }),
           py::kw_only(), py::arg("compute") = kReferenceGpu.compute,
           py::arg("multiprocessors") = kReferenceGpu.multiprocessors,
           py::arg("threads_per_multiprocessor") = kReferenceGpu.threads_per_multiprocessor,
           py::arg("l2_bytes") = kReferenceGpu.l2_bytes,
           py::arg("shared_bytes") = kReferenceGpu.shared_bytes,
           py::arg("shared_bytes_per_multiprocessor") =
               kReferenceGpu.shared_bytes_per_multiprocessor,
           py::arg("core_hertz") = kReferenceGpu.core_hertz,
           py::arg("memory_bandwidth") = kReferenceGpu.memory_bandwidth)
      .def("__repr__",
           [](const Hardware& h) { return py::str("Hardware({})").format(py::repr(facts_of(h))); });
  m.def(
      "hardware",
      [](std::uintptr_t stream) {
        return facts_of(target_of(Device::kCuda, reinterpret_cast<void*>(stream)).hardware);
      },
      py::arg("stream") = 0,
      "The properties of the current GPU, of the context of a stream; without a GPU, of an H200.");
}

void bind_plan(py::module_& m) {
  py::class_<Plan>(m, "Plan", "The launch parameters and costs of a variant on given hardware.")
      .def_property_readonly("grid", [](const Plan& p) { return lengths_of(p.launch.grid); })
      .def_property_readonly("block", [](const Plan& p) { return lengths_of(p.launch.block); })
      .def_property_readonly("shared_bytes", [](const Plan& p) { return p.launch.shared_bytes; })
      .def_readonly("scratch_bytes", &Plan::scratch_bytes)
      .def_readonly("cost", &Plan::cost);
}

void bind_kernel_info(py::module_& m) {
  using cuda::Kernel;
  py::class_<Kernel>(m, "KernelInfo", "Resource usage of a compiled kernel.")
      .def_readonly("name", &Kernel::name)
      .def_property_readonly("grid", [](const Kernel& k) { return lengths_of(k.grid); })
      .def_property_readonly("block", [](const Kernel& k) { return lengths_of(k.block); })
      .def_readonly("registers", &Kernel::registers)
      .def_readonly("local_bytes", &Kernel::local_bytes)
      .def_readonly("static_shared_bytes", &Kernel::static_shared_bytes)
      .def_readonly("dynamic_shared_bytes", &Kernel::dynamic_shared_bytes)
      .def_readonly("resident_warps", &Kernel::resident_warps)
      .def_readonly("max_warps", &Kernel::max_warps)
      .def_readonly("blocks_by_warps", &Kernel::blocks_by_warps)
      .def_readonly("blocks_by_slots", &Kernel::blocks_by_slots)
      .def_readonly("blocks_by_registers", &Kernel::blocks_by_registers)
      .def_readonly("blocks_by_shared", &Kernel::blocks_by_shared);
}

void bind_cost(py::module_& m) {
  py::class_<Cost>(m, "Cost", "FLOPs and bytes of one variant on one problem.")
      .def(py::init([](double flops, double bytes, double executed_flops, double requested_bytes) {
             return Cost{.flops = flops,
                         .bytes = bytes,
                         .executed_flops = executed_flops,
                         .requested_bytes = requested_bytes};
           }),
           py::kw_only(), py::arg("flops"), py::arg("bytes"), py::arg("executed_flops"),
           py::arg("requested_bytes"))
      .def_readonly("flops", &Cost::flops, "Useful FLOPs, the same for every variant.")
      .def_readonly("bytes", &Cost::bytes, "Compulsory bytes, the same for every variant.")
      .def_readonly("executed_flops", &Cost::executed_flops, "FLOPs that the variant executes.")
      .def_readonly("requested_bytes", &Cost::requested_bytes,
                    "Bytes that the variant requests from memory.")
      .def_readonly("executed_instructions", &Cost::executed_instructions,
                    "Floating-point instructions per lane for the executed FLOPs; 0: not counted.")
      .def(py::pickle(
          [](const Cost& c) {
            return std::array{c.flops, c.bytes, c.executed_flops, c.requested_bytes,
                              c.executed_instructions};
          },
          [](const std::array<double, 5>& state) {
            return Cost{.flops = state[0],
                        .bytes = state[1],
                        .executed_flops = state[2],
                        .requested_bytes = state[3],
                        .executed_instructions = state[4]};
          }))
      .def("__repr__", [](const Cost& c) {
        return py::str(
                   "Cost(flops={:g}, bytes={:g}, executed_flops={:g}, requested_bytes={:g}, "
                   "executed_instructions={:g})")
            .format(c.flops, c.bytes, c.executed_flops, c.requested_bytes, c.executed_instructions);
      });
}

}  // namespace

void bind_variants(py::module_& m) {
  bind_hardware(m);
  bind_variant_info(m);
  bind_kernel_info(m);
  bind_cost(m);
  bind_plan(m);
}

}  // namespace ado::bindings

#include "runtime/buffers.hpp"

#include "core/error.hpp"
#include "runtime/text.hpp"

namespace ado {

std::unique_ptr<Problem> bind(const Routine& routine, const std::vector<Argument>& inputs,
                              const std::vector<Argument>& outputs, const NamedOptions& options,
                              std::uintptr_t stream) {
  const auto check_count = [&](std::size_t wanted, std::size_t given, const char* what) {
    if (wanted != given)
      throw ValueError(routine.name + " takes " + std::to_string(wanted) + what + ", got " +
                       std::to_string(given));
  };
  check_count(routine.inputs.size(), inputs.size(), " inputs");
  check_count(routine.outputs.size(), outputs.size(), " outputs");
  std::unique_ptr<Problem> problem = routine.new_problem();
  for (const Argument& input : inputs) problem->bind_input(input);
  for (const auto& [name, value] : options) {
    const auto option = routine.find_option(name);
    if (!option) {
      std::vector<std::string> known;
      for (const OptionInfo& info : routine.options) known.emplace_back(info.name);
      throw NameError(routine.name + " has no option '" + name + "'" + suggest(name, known));
    }
    problem->set_option(*option, value);
  }
  problem->check_options();
  for (const Argument& output : outputs) problem->bind_output(output);
  problem->check_overlap();
  problem->check_values(stream);
  return problem;
}

void run(const Routine& routine, const std::vector<Argument>& inputs,
         const std::vector<Argument>& outputs, const How& how) {
  const std::unique_ptr<Problem> problem =
      bind(routine, inputs, outputs, how.options, how.stream.value_or(0));
  const AnyVariant* variant = how.variant.empty() ? nullptr : &routine.find(how.variant);
  std::optional<DeviceId> device;
  if (!how.device.empty()) device = device_named(how.device);
  run(*problem, variant, problem->resolve_device(variant, device), how.block, how.stream);
}

}  // namespace ado

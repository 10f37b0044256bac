#include "runtime/buffers.hpp"

#include "core/error.hpp"
#include "runtime/text.hpp"

namespace ado {

BoundProblem bind(const Routine& routine, const std::vector<Argument>& inputs,
                  const std::vector<Argument>& outputs, const NamedOptions& options,
                  std::uintptr_t stream) {
  const auto check_count = [&](std::size_t wanted, std::size_t given, const char* what) {
    if (wanted != given)
      throw ValueError(routine.name + " takes " + std::to_string(wanted) + what + ", got " +
                       std::to_string(given));
  };
  check_count(routine.inputs.size(), inputs.size(), " inputs");
  check_count(routine.outputs.size(), outputs.size(), " outputs");
  BoundProblem bound(routine);
  for (const Argument& input : inputs) bound.bind_input(input);
  for (const auto& [name, value] : options) {
    const auto option = routine.find_option(name);
    if (!option) {
      std::vector<std::string> known;
      for (const OptionInfo& info : routine.options) known.emplace_back(info.name);
      throw NameError(routine.name + " has no option '" + name + "'" + suggest(name, known));
    }
    bound.set_option(*option, value);
  }
  bound.check_options();
  for (const Argument& output : outputs) bound.bind_output(output);
  bound.finish(true);
  bound.check_values(stream);
  return bound;
}

void run(const Routine& routine, const std::vector<Argument>& inputs,
         const std::vector<Argument>& outputs, const How& how) {
  const BoundProblem bound = bind(routine, inputs, outputs, how.options, how.stream.value_or(0));
  const AnyVariant* variant = how.variant.empty() ? nullptr : &routine.find(how.variant);
  std::optional<std::string> device;
  if (!how.device.empty()) device = how.device;
  run(bound, variant, device, how.block, how.stream);
}

}  // namespace ado

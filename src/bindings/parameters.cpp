#include "bindings/parameters.hpp"

#include "bindings/options.hpp"

namespace ado::bindings {
namespace {

Parameter parameter_of(const OperandInfo& info, const char* role) {
  return {.name = info.name,
          .role = role,
          .doc = info.doc,
          .shape = info.shape.text(),
          .elements = info.type_text()};
}

}  // namespace

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

}  // namespace ado::bindings

// Descriptions of operands and options for the documentation, the stubs and error messages.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "runtime/option.hpp"
#include "runtime/routine.hpp"

namespace ado::bindings {

namespace py = pybind11;

struct Parameter {
  std::string name, role, doc;  // role: "input", "output" or "option"
  std::string shape = {}, elements = {};
  OptionType type = {};
  py::object default_value = py::none();
};

std::vector<Parameter> parameters_of(const Routine& routine);

}  // namespace ado::bindings

// Conversion of options and keywords between Python and the runtime.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "runtime/call.hpp"
#include "runtime/option.hpp"

namespace ado::bindings {

namespace py = pybind11;

py::object to_python(const OptionValue& value);
// Throws TypeError if the value has the wrong kind. `who` names the option in messages.
OptionValue option_from_python(const std::string& who, const OptionType& type,
                               const py::handle& object);

// The values of the keywords variant=, device= and block= of a call. None becomes nullopt.
std::optional<std::string> name_from_python(const py::object& value, const char* keyword);
Block block_from_python(const py::object& value);

}  // namespace ado::bindings

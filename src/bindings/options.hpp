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

// Converts a str to UTF-8. A lone surrogate, which has no UTF-8 form, is escaped.
std::string escaped_text(const py::handle& text);

// The values of the keywords variant=, device= and block= of a call. None becomes nullptr or
// nullopt. Throws TypeError for other types, ValueError for an invalid name of a device, and
// NameError for an unknown variant.
const AnyVariant* variant_from_python(const Routine& routine, const py::handle& value);
std::optional<DeviceId> device_from_python(const py::handle& value);
Block block_from_python(const py::handle& value);

}  // namespace ado::bindings

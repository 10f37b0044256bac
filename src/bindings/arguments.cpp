#include "bindings/arguments.hpp"

#include <algorithm>
#include <utility>

#include "bindings/options.hpp"
#include "core/error.hpp"

namespace ado::bindings {

PyCall::PyCall(const Routine& routine, const py::tuple& arguments, const py::dict& keywords,
               const py::object& out)
    : bound_(routine) {
  std::vector<Given> inputs = read_inputs(arguments, keywords);
  const auto options = read_options(keywords);
  refuse_leftovers(arguments, keywords);
  std::vector<Given> outputs = read_outputs(out);
  for (Given& input : inputs) {
    inputs_.emplace_back(input.who, std::move(input.array));
    bound_.bind_input(inputs_.back().argument());
  }
  for (const auto& [option, value] : options) {
    bound_.set_option(option, value);
    options_[routine.options[option].name] = to_python(value);
  }
  bind_outputs(std::move(outputs));
  bound_.finish(!out.is_none());
  require_unchanged();
}

std::vector<PyCall::Given> PyCall::read_inputs(const py::tuple& arguments,
                                               const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  std::vector<Given> inputs;
  inputs.reserve(routine.inputs.size());
  for (std::size_t i = 0; i < routine.inputs.size(); ++i) {
    const char* name = routine.inputs[i].name;
    py::object value;
    if (i < arguments.size())
      value = arguments[i];
    else if (keywords.contains(name))
      value = keywords[name];
    else
      throw TypeError(routine.name + "() needs the operand " + name);
    std::string who = routine.name + ": " + name;
    py::object array = as_array(who, std::move(value));
    inputs.push_back({std::move(who), std::move(array)});
  }
  return inputs;
}

std::vector<std::pair<std::size_t, OptionValue>> PyCall::read_options(
    const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  std::vector<std::pair<std::size_t, OptionValue>> values;
  if (keywords.empty()) return values;
  for (std::size_t i = 0; i < routine.options.size(); ++i) {
    const OptionInfo& option = routine.options[i];
    if (keywords.contains(option.name))
      values.emplace_back(i, option_from_python(routine.name + ": " + option.name, option.type,
                                                keywords[option.name]));
  }
  return values;
}

void PyCall::refuse_leftovers(const py::tuple& arguments, const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  if (arguments.size() > routine.inputs.size())
    throw TypeError(routine.name + "() takes " + std::to_string(routine.inputs.size()) +
                    " operands but got " + std::to_string(arguments.size()));
  for (const auto& item : keywords) {
    const char* const utf8 = PyUnicode_AsUTF8(item.first.ptr());
    if (utf8 == nullptr) {  // a lone surrogate
      PyErr_Clear();
      throw TypeError(routine.name + "() got an unknown keyword " +
                      std::string(py::repr(item.first)));
    }
    const std::string keyword = utf8;
    if (routine.find_option(keyword)) continue;
    const auto input = std::find_if(routine.inputs.begin(), routine.inputs.end(),
                                    [&](const OperandInfo& info) { return keyword == info.name; });
    if (input == routine.inputs.end())
      throw TypeError(routine.name + "() got an unknown keyword " + keyword);
    if (input - routine.inputs.begin() < static_cast<std::ptrdiff_t>(arguments.size()))
      throw TypeError(routine.name + "() got the operand " + keyword + " twice");
  }
}

std::vector<PyCall::Given> PyCall::read_outputs(const py::object& out) const {
  if (out.is_none()) return {};
  const Routine& routine = bound_.routine();
  const std::size_t count = routine.outputs.size();
  const bool several = py::isinstance<py::tuple>(out);
  // Reads the tuple directly, because a subclass can define __len__ and __getitem__.
  const auto given = static_cast<std::size_t>(several ? PyTuple_GET_SIZE(out.ptr()) : 1);
  if (several && given != count)
    throw ValueError(routine.name + ": out must have one array per result (" +
                     std::to_string(count) + "), got " + std::to_string(given));
  if (given != count)
    throw ValueError(routine.name + ": out must be a tuple, one array per result");
  std::vector<Given> outputs;
  outputs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const item =
        several ? PyTuple_GET_ITEM(out.ptr(), static_cast<py::ssize_t>(i)) : out.ptr();
    std::string who = routine.name + ": " + routine.outputs[i].name;
    py::object array = as_output(who, py::reinterpret_borrow<py::object>(item));
    outputs.push_back({std::move(who), std::move(array)});
  }
  return outputs;
}

void PyCall::bind_outputs(std::vector<Given> given) {
  const Routine& routine = bound_.routine();
  for (std::size_t i = 0; i < routine.outputs.size(); ++i) {
    Given output;
    if (given.empty()) {
      const auto like = bound_.result_like();
      const py::dtype* dtype =
          like.same_as < 0 ? nullptr : &inputs_[static_cast<std::size_t>(like.same_as)].dtype();
      output = {routine.name + ": " + routine.outputs[i].name,
                new_array(like, dtype, bound_.on_device())};
    } else {
      output = std::move(given[i]);
    }
    outputs_.emplace_back(output.who, std::move(output.array));
    bound_.bind_output(outputs_.back().argument());
  }
}

// Python code, for example a finaliser, can run even after the addresses of the arrays were read.
// If it has moved an operand, the addresses in the bound problem are invalid.
void PyCall::require_unchanged() const {
  const auto check = [&](const PyArray& array, const OperandInfo& info) {
    const Argument bound = array.argument();
    if (bound.on_device) return;
    const auto* const now = py::detail::array_proxy(array.object().ptr());
    const Array& view = bound.view;
    if (reinterpret_cast<const std::byte*>(now->data) != view.data || now->nd != view.rank ||
        !std::equal(view.shape, view.shape + view.rank, now->dimensions) ||
        !std::equal(view.stride, view.stride + view.rank, now->strides))
      throw ValueError(bound_.routine().name + ": " + info.name +
                       " must not be resized during the call");
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) check(inputs_[i], bound_.routine().inputs[i]);
  for (std::size_t i = 0; i < outputs_.size(); ++i) check(outputs_[i], bound_.routine().outputs[i]);
}

py::tuple PyCall::arguments() const {
  py::tuple all(inputs_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = inputs_[i].object();
  return all;
}

py::list PyCall::operands() const {
  py::list list;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    list.append(py::make_tuple(bound_.routine().inputs[i].name, shape_of(inputs_[i].view()),
                               inputs_[i].type_name()));
  return list;
}

py::object PyCall::results() const {
  if (outputs_.size() == 1) return outputs_.front().object();
  py::tuple all(outputs_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = outputs_[i].object();
  return all;
}

py::object PyCall::results_on_host() const {
  if (!bound_.on_device()) return results();
  py::tuple all(outputs_.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = outputs_[i].object().cast<const DeviceArray&>().numpy();
  return all.size() == 1 ? py::object(all[0]) : all;
}

}  // namespace ado::bindings

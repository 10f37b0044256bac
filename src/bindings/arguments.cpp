#include "bindings/arguments.hpp"

#include <algorithm>
#include <utility>

#include "bindings/options.hpp"
#include "core/error.hpp"

namespace ado::bindings {

PyCall::PyCall(const Routine& routine, const py::tuple& arguments, const py::dict& keywords,
               const py::object& out)
    : bound_(routine) {
  std::vector<py::object> inputs = read_inputs(arguments, keywords);
  const std::vector<std::optional<OptionValue>> options = read_options(keywords);
  refuse_leftovers(arguments, keywords);
  std::vector<py::object> outputs = read_outputs(out);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs_.emplace_back(routine.name + ": " + routine.inputs[i].name, std::move(inputs[i]));
    bound_.bind_input(inputs_.back().argument());
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (!options[i]) continue;
    bound_.set_option(i, *options[i]);
    options_[routine.options[i].name] = to_python(*options[i]);
  }
  bind_outputs(std::move(outputs));
  bound_.finish(!out.is_none());
  require_unchanged();
}

// Python code may still have run after the arrays were read (a finaliser, for example). If it has
// moved an operand, the addresses of the bound problem are invalid.
void PyCall::require_unchanged() const {
  const auto check = [&](const PyArray& array, const char* name) {
    if (!py::isinstance<py::array>(array.object())) return;
    const auto now = py::reinterpret_borrow<py::array>(array.object());
    const Array& view = array.view();
    bool same = now.data() == static_cast<const void*>(view.data) && now.ndim() == view.rank;
    for (int d = 0; same && d < view.rank; ++d)
      same = now.shape(d) == view.shape[d] && now.strides(d) == view.stride[d];
    if (!same)
      throw ValueError(bound_.routine().name + ": " + name + " was resized during the call");
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    check(inputs_[i], bound_.routine().inputs[i].name);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    check(outputs_[i], bound_.routine().outputs[i].name);
}

std::vector<py::object> PyCall::read_inputs(const py::tuple& arguments,
                                            const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  std::vector<py::object> objects;
  for (std::size_t i = 0; i < routine.inputs.size(); ++i) {
    const char* name = routine.inputs[i].name;
    py::object value;
    if (i < arguments.size())
      value = arguments[i];
    else if (keywords.contains(name))
      value = keywords[name];
    else
      throw TypeError(routine.name + "() needs the operand " + name);
    objects.push_back(as_array(routine.name + ": " + name, std::move(value)));
  }
  return objects;
}

std::vector<std::optional<OptionValue>> PyCall::read_options(const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  std::vector<std::optional<OptionValue>> values(routine.options.size());
  if (keywords.empty()) return values;
  for (std::size_t i = 0; i < routine.options.size(); ++i) {
    const OptionInfo& option = routine.options[i];
    if (keywords.contains(option.name))
      values[i] =
          option_from_python(routine.name + ": " + option.name, option.type, keywords[option.name]);
  }
  return values;
}

void PyCall::refuse_leftovers(const py::tuple& arguments, const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  if (arguments.size() > routine.inputs.size())
    throw TypeError(routine.name + "() takes " + std::to_string(routine.inputs.size()) +
                    " operands but got " + std::to_string(arguments.size()));
  for (const auto& item : keywords) {
    const std::string keyword = py::str(item.first);
    if (routine.find_option(keyword)) continue;
    const auto input = std::find_if(routine.inputs.begin(), routine.inputs.end(),
                                    [&](const OperandInfo& info) { return keyword == info.name; });
    if (input == routine.inputs.end())
      throw TypeError(routine.name + "() got an unknown keyword " + keyword);
    if (input - routine.inputs.begin() < static_cast<std::ptrdiff_t>(arguments.size()))
      throw TypeError(routine.name + "() got the operand " + keyword + " twice");
  }
}

std::vector<py::object> PyCall::read_outputs(const py::object& out) const {
  if (out.is_none()) return {};
  const Routine& routine = bound_.routine();
  const std::size_t count = routine.outputs.size();
  std::vector<py::object> objects;
  if (py::isinstance<py::tuple>(out)) {
    const py::tuple all(out);
    // The items themselves, because a subclass may define __len__ and __getitem__.
    for (py::ssize_t i = 0; i < PyTuple_GET_SIZE(all.ptr()); ++i)
      objects.push_back(py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(all.ptr(), i)));
    if (objects.size() != count)
      throw ValueError(routine.name + ": out has " + std::to_string(objects.size()) +
                       " arrays for " + std::to_string(count) + " results");
  } else if (count > 1) {
    throw ValueError(routine.name + ": out must be a tuple, one array per result");
  } else {
    objects.push_back(out);
  }
  for (std::size_t i = 0; i < count; ++i)
    objects[i] = as_output(routine.name + ": " + routine.outputs[i].name, std::move(objects[i]));
  return objects;
}

void PyCall::bind_outputs(std::vector<py::object> given) {
  const Routine& routine = bound_.routine();
  for (std::size_t i = 0; i < routine.outputs.size(); ++i) {
    py::object value;
    if (given.empty()) {
      const auto like = bound_.result_like();
      const py::dtype* dtype =
          like.same_as < 0 ? nullptr : &inputs_[static_cast<std::size_t>(like.same_as)].dtype();
      value = new_array(like, dtype, bound_.on_device());
    } else {
      value = std::move(given[i]);
    }
    outputs_.emplace_back(routine.name + ": " + routine.outputs[i].name, std::move(value));
    bound_.bind_output(outputs_.back().argument());
  }
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

#include "bindings/arguments.hpp"

#include <algorithm>
#include <utility>

#include "bindings/options.hpp"
#include "core/error.hpp"
#include "runtime/text.hpp"

namespace ado::bindings {

PyCall::PyCall(const Routine& routine, const py::tuple& arguments, const py::dict& keywords,
               const py::object& out, const py::object& stream)
    : bound_(routine), stream_(stream_from_python(stream)) {
  release_finished();
  read_inputs(arguments, keywords);
  read_options(keywords);
  refuse_leftovers(arguments, keywords);
  read_outputs(out);
  choose_stream();
  bind_arrays(!out.is_none());
  require_unchanged();
}

void PyCall::read_inputs(const py::tuple& arguments, const py::dict& keywords) {
  const Routine& routine = bound_.routine();
  for (std::size_t i = 0; i < routine.inputs.size(); ++i) {
    const char* name = routine.inputs[i].name;
    py::object value;
    if (i < arguments.size())
      value = arguments[i];
    else if (keywords.contains(name))
      value = keywords[name];
    else
      throw TypeError(routine.name + "() needs the operand " + name);
    inputs_.emplace_back(routine.name + ": " + name, std::move(value), false);
  }
}

void PyCall::read_options(const py::dict& keywords) {
  const Routine& routine = bound_.routine();
  if (keywords.empty()) return;
  for (std::size_t i = 0; i < routine.options.size(); ++i) {
    const OptionInfo& option = routine.options[i];
    if (!keywords.contains(option.name)) continue;
    const OptionValue value =
        option_from_python(routine.name + ": " + option.name, option.type, keywords[option.name]);
    bound_.set_option(i, value);
    options_[option.name] = to_python(value);
  }
}

void PyCall::refuse_leftovers(const py::tuple& arguments, const py::dict& keywords) const {
  const Routine& routine = bound_.routine();
  if (const std::size_t operands = routine.inputs.size(); arguments.size() > operands) {
    std::string message = routine.name + "() takes " + std::to_string(operands) +
                          (operands == 1 ? " operand" : " operands") + " but got " +
                          std::to_string(arguments.size());
    for (std::size_t i = 0; i < routine.options.size(); ++i)
      message +=
          std::string(i == 0 ? "; options are keywords: " : ", ") + routine.options[i].name + "=";
    throw TypeError(message);
  }
  for (const auto& item : keywords) {
    const char* const utf8 = PyUnicode_AsUTF8(item.first.ptr());
    if (utf8 == nullptr) {  // a lone surrogate
      PyErr_Clear();
      throw TypeError(routine.name + " has no option " + std::string(py::repr(item.first)));
    }
    const std::string keyword = utf8;
    if (routine.find_option(keyword)) continue;
    const auto input = std::find_if(routine.inputs.begin(), routine.inputs.end(),
                                    [&](const OperandInfo& info) { return keyword == info.name; });
    if (input == routine.inputs.end()) {
      std::vector<std::string> known;
      for (std::size_t i = arguments.size(); i < routine.inputs.size(); ++i)
        known.emplace_back(routine.inputs[i].name);
      for (const OptionInfo& option : routine.options) known.emplace_back(option.name);
      throw TypeError(routine.name + " has no option '" + keyword + "'" + suggest(keyword, known));
    }
    if (input - routine.inputs.begin() < static_cast<std::ptrdiff_t>(arguments.size()))
      throw TypeError(routine.name + "() got the operand " + keyword + " twice");
  }
}

void PyCall::read_outputs(const py::object& out) {
  if (out.is_none()) return;
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
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* const item =
        several ? PyTuple_GET_ITEM(out.ptr(), static_cast<py::ssize_t>(i)) : out.ptr();
    outputs_.emplace_back(routine.name + ": " + routine.outputs[i].name,
                          py::reinterpret_borrow<py::object>(item), true);
  }
}

// Without stream=, a call runs on the current stream of the library that owns its device operands.
// If all device operands are DeviceArrays, the call runs on the stream of the first one. The
// current streams of other libraries then wait for the call, so their users see its results.
void PyCall::choose_stream() {
  if (stream_) return;
  for (auto* list : {&inputs_, &outputs_})
    for (PyArray& array : *list) array.make_library_wait();
  for (const bool of_device_arrays : {false, true})
    for (const auto* list : {&inputs_, &outputs_})
      for (const PyArray& array : *list)
        if (array.stream() && array.is_device_array() == of_device_arrays) {
          stream_ = array.stream();
          return;
        }
}

void PyCall::bind_arrays(bool out_given) {
  for (auto* list : {&inputs_, &outputs_})
    for (PyArray& array : *list) {
      if (array.memory() != inputs_.front().memory()) continue;  // refused below
      std::optional<cuda::Stream> stream;
      std::optional<cuda::DeviceScope> scope;  // torch exports tensors of the current device only
      if (array.memory().kind == Device::kCuda) {
        cuda::require();
        stream = cuda::stream_of(array.memory().ordinal, stream_ ? stream_->handle : 0);
        scope.emplace(array.memory().ordinal);
      }
      array.open(stream);
    }
  for (PyArray& input : inputs_) bound_.bind_input(input.argument());
  bound_.check_options();
  for (const OperandInfo& info : bound_.routine().outputs) {
    if (!out_given) {
      const auto like = bound_.result_like();
      const Element* element =
          like.same_as < 0 ? nullptr : &inputs_[static_cast<std::size_t>(like.same_as)].element();
      outputs_.emplace_back(
          bound_.routine().name + ": " + info.name,
          new_array(like, element, bound_.memory(), stream_ ? *stream_ : StreamHandle()), true);
    }
    const auto index = static_cast<std::size_t>(&info - bound_.routine().outputs.data());
    bound_.bind_output(outputs_[index].argument());
  }
  bound_.finish(out_given);
}

// Python code, for example a finaliser, can run even after the addresses of the arrays were read.
// If it has moved an operand, the addresses in the bound problem are invalid.
void PyCall::require_unchanged() const {
  const auto check = [&](const PyArray& array, const OperandInfo& info) {
    if (!py::isinstance<py::array>(array.object()))
      return;  // the memory belongs to a DLPack tensor or a Buffer
    const auto* const now = py::detail::array_proxy(array.object().ptr());
    const Array& view = array.view();
    if (reinterpret_cast<const std::byte*>(now->data) != view.data || now->nd != view.rank ||
        !std::equal(view.shape, view.shape + view.rank, now->dimensions) ||
        !std::equal(view.stride, view.stride + view.rank, now->strides))
      throw ValueError(bound_.routine().name + ": " + info.name +
                       " must not be resized during the call");
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) check(inputs_[i], bound_.routine().inputs[i]);
  for (std::size_t i = 0; i < outputs_.size(); ++i) check(outputs_[i], bound_.routine().outputs[i]);
}

std::optional<std::uintptr_t> PyCall::stream() const {
  if (!stream_) return std::nullopt;
  return stream_->handle;
}

py::tuple PyCall::host_arguments() const {
  py::tuple all(inputs_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = inputs_[i].numpy();
  return all;
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

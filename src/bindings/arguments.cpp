#include "bindings/arguments.hpp"

#include <algorithm>

#include "bindings/options.hpp"
#include "core/error.hpp"
#include "runtime/text.hpp"

namespace ado::bindings {

std::optional<std::size_t> find_keyword(const Routine& routine, const py::handle& name) {
  const auto equals = [&](const char* known) {
    return PyUnicode_CompareWithASCIIString(name.ptr(), known) == 0;
  };
  for (std::size_t i = 0; i < routine.inputs.size(); ++i)
    if (equals(routine.inputs[i].name)) return i;
  for (std::size_t i = 0; i < routine.options.size(); ++i)
    if (equals(routine.options[i].name)) return routine.inputs.size() + i;
  return std::nullopt;
}

void refuse_keyword(const Routine& routine, const py::handle& name, const std::string& who,
                    std::size_t count, std::span<const char* const> others) {
  std::vector<std::string> known;
  for (std::size_t i = count; i < routine.inputs.size(); ++i)
    known.emplace_back(routine.inputs[i].name);
  for (const OptionInfo& option : routine.options) known.emplace_back(option.name);
  known.insert(known.end(), others.begin(), others.end());
  throw TypeError(who + " has no option " + std::string(py::repr(name)) +
                  suggest(escaped_text(name), known));
}

std::unique_ptr<Problem> Arguments::new_problem(const Routine& routine) {
  std::unique_ptr<Problem> problem = routine.new_problem();
  problem->owner = std::make_shared<Arguments>(*problem);
  return problem;
}

Arguments::Arguments(Problem& problem)
    : problem_(problem), inputs_(problem.inputs.size()), outputs_(problem.outputs.size()) {}

void Arguments::bind(const Given& given) {
  release_finished();
  if (!given.stream.is_none())
    stream_ = stream_from_python(py::reinterpret_borrow<py::object>(given.stream));
  read_inputs(given);
  read_options(given);
  read_outputs(given.out);
  choose_stream();
  const bool out_given = !given.out.is_none();
  bind_arrays(out_given);
  for (const PyArray& array : inputs_) array.require_unchanged();
  if (out_given)
    for (const PyArray& array : outputs_) array.require_unchanged();
}

void Arguments::clear() {
  for (auto* list : {&inputs_, &outputs_})
    for (PyArray& array : *list) array.clear();
  stream_.reset();
}

void Arguments::read_inputs(const Given& given) {
  const Routine& routine = problem_.routine();
  const std::size_t operands = inputs_.size();
  if (given.count > operands) {
    std::string message = routine.name + "() takes " + std::to_string(operands) +
                          (operands == 1 ? " operand" : " operands") + " but got " +
                          std::to_string(given.count);
    for (std::size_t i = 0; i < routine.options.size(); ++i)
      message +=
          std::string(i == 0 ? "; options are keywords: " : ", ") + routine.options[i].name + "=";
    throw TypeError(message);
  }
  for (const auto& [index, value] : given.keywords)
    if (index < given.count)
      throw TypeError(routine.name + "() got the operand " + routine.inputs[index].name + " twice");
  for (std::size_t i = 0; i < operands; ++i) {
    const char* const name = routine.inputs[i].name;
    py::handle value = i < given.count ? given.positional[i] : nullptr;
    for (const auto& [index, named] : given.keywords)
      if (index == i) value = named;
    if (!value) throw TypeError(routine.name + "() needs the operand " + name);
    inputs_[i].set({routine.name.c_str(), name}, py::reinterpret_borrow<py::object>(value), false);
  }
}

void Arguments::read_options(const Given& given) {
  const Routine& routine = problem_.routine();
  for (const auto& [index, value] : given.keywords) {
    if (index < inputs_.size()) continue;
    const OptionInfo& option = routine.options[index - inputs_.size()];
    problem_.set_option(index - inputs_.size(),
                        option_from_python(routine.name + ": " + option.name, option.type, value));
  }
}

void Arguments::read_outputs(const py::handle& out) {
  if (out.is_none()) return;
  const Routine& routine = problem_.routine();
  const std::size_t count = outputs_.size();
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
    outputs_[i].set({routine.name.c_str(), routine.outputs[i].name},
                    py::reinterpret_borrow<py::object>(item), true);
  }
}

// Without stream=, a call runs on the current stream of the library that owns its device operands.
// If all device operands are DeviceArrays, the call runs on the stream of the first one. The
// current streams of other libraries then wait for the call, so their users see its results.
void Arguments::choose_stream() {
  if (stream_) return;
  const PyArray* chosen = nullptr;
  for (auto* list : {&inputs_, &outputs_})
    for (PyArray& array : *list) {
      if (!array.stream()) continue;
      array.make_library_wait();
      if (chosen == nullptr || (chosen->is_device_array() && !array.is_device_array()))
        chosen = &array;
    }
  if (chosen != nullptr) stream_ = chosen->stream();
}

void Arguments::bind_arrays(bool out_given) {
  for (auto* list : {&inputs_, &outputs_})
    for (PyArray& array : *list) {
      if (array.memory() != inputs_.front().memory()) continue;  // rejected below
      if (array.memory().kind == Device::kCpu) {
        array.open(std::nullopt);
        continue;
      }
      if (array.memory() != kEmulator) cuda::require();
      // torch exports tensors of the current device only.
      const cuda::DeviceScope scope(array.memory().ordinal);
      array.open(cuda::stream_of(array.memory().ordinal, stream_ ? stream_->handle : 0));
    }
  for (PyArray& input : inputs_) problem_.bind_input(input.argument());
  problem_.check_options();
  const Routine& routine = problem_.routine();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (out_given) {
      problem_.bind_output(outputs_[i].argument());
      continue;
    }
    const OperandInfo& info = routine.outputs[i];
    const Element& element = info.same_as < 0
                                 ? Element{numpy_dtype(info.type.fixed)}
                                 : inputs_[static_cast<std::size_t>(info.same_as)].element();
    PyArray& output = outputs_[i];
    problem_.bind_new_output(
        output.make({routine.name.c_str(), info.name}, element, problem_.next_output(),
                    problem_.memory, stream_ ? *stream_ : StreamHandle()),
        &output);
  }
  if (out_given) problem_.check_overlap();
}

std::optional<std::uintptr_t> Arguments::stream() const {
  if (!stream_) return std::nullopt;
  return stream_->handle;
}

}  // namespace ado::bindings

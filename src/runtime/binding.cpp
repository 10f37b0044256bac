// Binds arrays and options to a routine's struct and checks them.
#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"
#include "runtime/call.hpp"
#include "runtime/settings.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

// Returns true if two elements of one array may share memory. Interleaved strides count as sharing.
bool may_overlap_itself(const Array& a) {
  if (a.elements() == 0) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // distance, repetitions
  for (int d = 0; d < a.rank; ++d)
    if (a.shape[d] > 1) steps.emplace_back(std::abs(a.stride[d]), a.shape[d] - 1);
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = a.type.size;
  for (const auto& [distance, count] : steps) {
    if (distance < reach) return true;
    reach += distance * count;
  }
  return false;
}

std::string type_name(const Argument& argument) {
  return argument.traits != nullptr ? argument.traits->type_name() : name_of(argument.view.type);
}

bool same_type(const Argument& a, const Argument& b) {
  if (a.traits != nullptr && b.traits != nullptr) return a.traits->same_type(*b.traits);
  return a.view.type == b.view.type;
}

// Interleaved views (every other column, for example) have overlapping extents but share no
// element. Only the library that owns the arrays can tell.
bool share_memory(const Argument& a, const Argument& b) {
  if (!extents_overlap(a.view, b.view)) return false;
  if (a.traits == nullptr || b.traits == nullptr) return true;
  return a.traits->shares_memory(*b.traits);
}

}  // namespace

BoundProblem::BoundProblem(const Routine& routine)
    : routine_(&routine), problem_(routine.new_problem()), lengths_(routine.lengths) {
  inputs_.reserve(routine.inputs.size());
  outputs_.reserve(routine.outputs.size());
}

void BoundProblem::bind_input(const Argument& argument) {
  const std::size_t i = inputs_.size();
  bind(inputs_, routine_->inputs[i], *problem_->inputs[i], argument);
}

void BoundProblem::bind_output(const Argument& argument) {
  const std::size_t i = outputs_.size();
  bind(outputs_, routine_->outputs[i], *problem_->outputs[i], argument);
}

void BoundProblem::bind(std::vector<Argument>& list, const OperandInfo& info, Array& slot,
                        const Argument& argument) {
  check_memory(info, argument.memory);
  check_type(info, argument);
  lengths_.match(routine_->name, info.name, info.shape, argument.view);
  slot = argument.view;
  list.push_back(argument);
}

void BoundProblem::check_memory(const OperandInfo& info, const DeviceId& memory) {
  if (inputs_.empty() && outputs_.empty()) problem_->memory = memory;
  if (problem_->memory != memory)
    throw ValueError(routine_->name + ": all arrays must be on one device, but " + info.name +
                     " is on " + name_of(memory) + " and the operands before it are on " +
                     name_of(problem_->memory));
}

void BoundProblem::check_type(const OperandInfo& info, const Argument& argument) const {
  const ElementType type = argument.view.type;
  const auto fail = [&](const std::string& wanted) {
    throw TypeError(routine_->name + ": " + info.name + " must have " + wanted + ", got " +
                    type_name(argument) + " (" + std::to_string(type.size) + " bytes)");
  };
  if (info.same_as >= 0) {
    const Argument& other = inputs_[static_cast<std::size_t>(info.same_as)];
    if (!same_type(argument, other)) fail(info.type_text() + ", " + type_name(other));
  } else if (info.type.accepts != nullptr) {
    if (!info.type.accepts(type)) fail(info.type.text);
  } else if (type != info.type.fixed) {
    fail(std::string("elements of type ") + info.type.text);
  }
}

void BoundProblem::set_option(std::size_t option, const OptionValue& value) {
  const OptionInfo& info = routine_->options[option];
  check_option(routine_->name + ": " + info.name, info.type, value);
  const OptionSlot& slot = problem_->options[option];
  slot.set(slot.member, value);
  options_.emplace_back(info.name, value);
}

BoundProblem::ResultType BoundProblem::result_like() const {
  const OperandInfo& info = routine_->outputs[outputs_.size()];
  const ElementType type = info.same_as < 0
                               ? info.type.fixed
                               : inputs_[static_cast<std::size_t>(info.same_as)].view.type;
  return {lengths_.resolve(info.shape), type, info.same_as};
}

void BoundProblem::check_options() {
  if (const char* reason = problem_->why_not()) {
    const std::string_view text(reason), name = text.substr(0, text.find(' '));
    std::string got;
    for (const auto& [option, value] : options_)
      if (option == name) got = ", got " + text_of(value);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (routine_->inputs[i].name == name) got = ", got " + shape_text(inputs_[i].view);
    std::string message = routine_->name + ": " + reason;
    message.insert(std::min(message.find(": ", routine_->name.size() + 2), message.size()), got);
    throw ValueError(message);
  }
  routine_->set_result_length(lengths_, *problem_);
}

void BoundProblem::finish(bool out_given) {
  if (out_given) check_overlap();
}

void BoundProblem::check_overlap() const {
  bool overlap = false;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Array& view = outputs_[i].view;
    const std::string who = routine_->name + ": " + routine_->outputs[i].name;
    if (may_overlap_itself(view))
      throw ValueError(who + " has internal overlap (elements share memory)");
    for (std::size_t j = 0; j < i; ++j)
      if (extents_overlap(view, outputs_[j].view))
        throw ValueError(who + " overlaps " + routine_->outputs[j].name);
    for (const Argument& input : inputs_) overlap = overlap || share_memory(outputs_[i], input);
  }
  if (!overlap) return;
  if (const char* reason = problem_->why_not_overlap())
    throw ValueError(routine_->name + ": " + reason);
}

void BoundProblem::check_values(std::uintptr_t stream) {
  EachValue each_value{routine_->name};
  if (on_device()) {
    each_value.stream = cuda::stream_of(memory().ordinal, stream);
    begin_use(*each_value.stream);
  }
  problem_->check_values(each_value);
}

void BoundProblem::begin_use(const cuda::Stream& stream) const {
  for (const Argument& input : inputs_)
    if (input.traits != nullptr) input.traits->before_use(stream, false);
  for (const Argument& output : outputs_)
    if (output.traits != nullptr) output.traits->before_use(stream, true);
}

void BoundProblem::end_use(const cuda::Stream& stream) const {
  for (const Argument& input : inputs_)
    if (input.traits != nullptr) input.traits->after_use(stream, false);
  for (const Argument& output : outputs_)
    if (output.traits != nullptr) output.traits->after_use(stream, true);
}

DeviceId BoundProblem::resolve_device(const AnyVariant* variant,
                                      const std::optional<std::string>& device) const {
  std::optional<DeviceId> where;
  if (on_device()) where = memory();
  if (device) {
    const DeviceId wanted = device_named(*device);
    if (where && (wanted.kind != where->kind || (wanted.determined() && wanted != *where)))
      throw ValueError(routine_->name + ": device must be '" + name_of(*where) +
                       "', the device of the operands, got '" + *device + "'" +
                       (wanted.kind == Device::kCpu ? "; copy them with .numpy()" : ""));
    if (!where) where = wanted;
  }
  if (variant == nullptr) return where ? *where : default_device();
  if (where && where->kind != variant->device)
    throw ValueError(routine_->name + ": the variant " + variant->name + " runs on " +
                     name_of(variant->device) + ", but the operands or device= require " +
                     name_of(*where));
  if (where) return *where;
  return variant->device == Device::kCpu ? kHost : gpu(DeviceId::kAnyGpu);
}

}  // namespace ado

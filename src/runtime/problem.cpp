// Binds arrays and options to a problem, checks them, and places the arrays for kernels.
#include "runtime/problem.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"
#include "core/file_maps.hpp"
#include "runtime/routine.hpp"
#include "runtime/staging.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

bool same_memory(const Array& a, const Array& b) {
  if (a.data != b.data || a.type != b.type || a.rank != b.rank || a.elements() == 0) return false;
  return std::equal(a.shape, a.shape + a.rank, b.shape) &&
         std::equal(a.stride, a.stride + a.rank, b.stride);
}

// Addresses of the first byte of a view and of the byte after its last one.
AddressRange extent_of(const Array& a) {
  auto low = reinterpret_cast<std::intptr_t>(a.data), high = low + a.type.size;
  for (int d = 0; d < a.rank; ++d) {
    const std::int64_t reach = (a.shape[d] - 1) * a.stride[d];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

// Returns true if the address ranges of two arrays overlap. Interleaved arrays overlap, even if no
// element is in both.
bool extents_overlap(const Array& a, const Array& b) {
  if (a.elements() == 0 || b.elements() == 0) return false;
  const auto [a_low, a_high] = extent_of(a);
  const auto [b_low, b_high] = extent_of(b);
  return a_low < b_high && b_low < a_high;
}

// Returns true if two elements of one array may share memory. Interleaved strides count as sharing.
bool may_overlap_itself(const Array& a) {
  if (a.elements() == 0) return false;
  std::pair<std::int64_t, std::int64_t> steps[kMaxRank];  // distance, repetitions; sorted
  int count = 0;
  for (int d = 0; d < a.rank; ++d) {
    if (a.shape[d] <= 1) continue;
    const std::pair step(std::abs(a.stride[d]), a.shape[d] - 1);
    int at = count++;
    for (; at > 0 && step < steps[at - 1]; --at) steps[at] = steps[at - 1];
    steps[at] = step;
  }
  std::int64_t reach = a.type.size;
  for (int i = 0; i < count; ++i) {
    if (steps[i].first < reach) return true;
    reach += steps[i].first * steps[i].second;
  }
  return false;
}

// An array of a call, already bound or about to be bound.
struct Bound {
  const Array& view;
  const ArrayTraits* traits;
};

std::string type_name(const Bound& array) {
  return array.traits != nullptr ? array.traits->type_name() : name_of(array.view.type);
}

bool same_type(const Bound& a, const Bound& b) {
  if (a.traits != nullptr && b.traits != nullptr) return a.traits->same_type(*b.traits);
  return a.view.type == b.view.type;
}

// Interleaved views (every other column, for example) have overlapping extents but share no
// element. Only the library that owns the arrays can tell.
bool share_memory(const Bound& a, const Bound& b) {
  if (!extents_overlap(a.view, b.view)) return false;
  if (a.traits == nullptr || b.traits == nullptr) return true;
  return a.traits->shares_memory(*b.traits);
}

// Returns true if writing to one array changes the other one through a file that is mapped twice,
// at different addresses.
bool share_file(const Bound& written, const Bound& read) {
  for (const Bound* array : {&written, &read})
    if (array->traits == nullptr || !array->traits->may_be_mapped() || array->view.elements() == 0)
      return false;
  return !extents_overlap(written.view, read.view) &&
         writes_through_file(extent_of(written.view), extent_of(read.view));
}

// Copies only the array's own dimensions. Small calls spend much of their time on copies.
void assign(Array& to, const Array& from) {
  to.data = from.data;
  to.type = from.type;
  to.rank = from.rank;
  std::copy_n(from.shape, from.rank, to.shape);
  std::copy_n(from.stride, from.rank, to.stride);
}

// Returns a view of the elements with the dimensions in reverse order.
Array transposed(const Array& a) {
  Array reversed = a;
  std::reverse(reversed.shape, reversed.shape + a.rank);
  std::reverse(reversed.stride, reversed.stride + a.rank);
  return reversed;
}

// Returns the host array with the dimensions in the order in which the device array has them in
// memory.
Array in_order_of(const Array& device, const Array& host) {
  return device.packed() ? host : transposed(host);
}

}  // namespace

Problem::Problem(const Routine& routine) : routine_(&routine), lengths_(routine.lengths) {}

// ---- The routine's rules and costs ----

double Problem::compulsory_bytes() const {
  double total = 0;
  for (const Array* input : inputs) total += input->distinct_bytes();
  for (const Array* output : outputs) total += output->distinct_bytes();
  return total;
}

bool Problem::takes_in_place(const Array& array) const {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(array.data) % static_cast<unsigned>(array.type.size) == 0;
  return array.elements() == 0 || (aligned && takes_layout(array));
}

std::int64_t Problem::result_elements() const {
  std::int64_t total = 0;
  for (const Array* output : outputs) total += output->elements();
  return total;
}

// ---- Binding ----

void Problem::bind_input(const Argument& argument) {
  const std::size_t i = traits_.size();
  check(routine_->inputs[i], argument);
  assign(*inputs[i], argument.view);
  traits_.push_back(argument.traits);
}

void Problem::bind_output(const Argument& argument) {
  const std::size_t i = traits_.size() - inputs.size();
  check(routine_->outputs[i], argument);
  assign(*outputs[i], argument.view);
  traits_.push_back(argument.traits);
}

const Array& Problem::next_output() {
  const std::size_t i = traits_.size() - inputs.size();
  const OperandInfo& info = routine_->outputs[i];
  const Shape shape = lengths_.shape_of(info.shape);
  Array& output = *outputs[i];
  output.type =
      info.same_as < 0 ? info.type.fixed : inputs[static_cast<std::size_t>(info.same_as)]->type;
  output.rank = shape.rank;
  std::int64_t stride = output.type.size;
  for (int d = shape.rank - 1; d >= 0; --d) {
    output.shape[d] = shape.lengths[d];
    output.stride[d] = stride;
    stride *= shape.lengths[d];
  }
  return output;
}

void Problem::bind_new_output(std::byte* data, ArrayTraits* traits) {
  outputs[traits_.size() - inputs.size()]->data = data;
  traits_.push_back(traits);
}

void Problem::check(const OperandInfo& info, const Argument& argument) {
  if (traits_.empty()) memory = argument.memory;
  if (memory != argument.memory)
    throw ValueError(routine_->name + ": all arrays must be on one device, but " + info.name +
                     " is on " + name_of(argument.memory) + " and the operands before it are on " +
                     name_of(memory));
  check_type(info, argument);
  lengths_.match(routine_->name, info.name, info.shape, argument.view);
}

void Problem::check_type(const OperandInfo& info, const Argument& argument) const {
  const ElementType type = argument.view.type;
  const auto fail = [&](const std::string& wanted) {
    const bool is_input = traits_.size() < inputs.size();
    throw TypeError(routine_->name + ": " + info.name + " must have " + wanted + ", got " +
                    type_name({argument.view, argument.traits}) + " (" + std::to_string(type.size) +
                    " bytes)" + (is_input ? "; convert it with .astype() if its values fit" : ""));
  };
  if (info.same_as >= 0) {
    const auto i = static_cast<std::size_t>(info.same_as);
    const Bound other{*inputs[i], traits_[i]};
    if (!same_type({argument.view, argument.traits}, other))
      fail(info.type_text() + ", " + type_name(other));
  } else if (info.type.accepts != nullptr) {
    if (!info.type.accepts(type)) fail(info.type.text);
  } else if (type != info.type.fixed) {
    fail(std::string("elements of type ") + info.type.text);
  }
}

void Problem::set_option(std::size_t option, const OptionValue& value) {
  const OptionInfo& info = routine_->options[option];
  check_option(routine_->name + ": " + info.name, info.type, value);
  options[option].set(options[option].member, value);
  given_.emplace_back(option, value);
}

void Problem::check_options() {
  if (const char* reason = why_not()) {
    const std::string_view text(reason), name = text.substr(0, text.find(' '));
    std::string got;
    for (const auto& [option, value] : given_)
      if (routine_->options[option].name == name) got = ", got " + text_of(value);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (routine_->inputs[i].name == name) got = ", got " + shape_text(*inputs[i]);
    std::string message = routine_->name + ": " + reason;
    message.insert(std::min(message.find(": ", routine_->name.size() + 2), message.size()), got);
    throw ValueError(message);
  }
  if (routine_->lengths.size() > routine_->dimensions.size())
    lengths_.set(routine_->dimensions.size(), result_length(), "the operands and options");
}

void Problem::check_overlap() const {
  bool overlap = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Bound output{*outputs[i], traits_[inputs.size() + i]};
    const auto who = [&] { return routine_->name + ": " + routine_->outputs[i].name; };
    if (may_overlap_itself(output.view))
      throw ValueError(who() + " has internal overlap (elements share memory)");
    for (std::size_t j = 0; j < i; ++j)
      if (const Bound other{*outputs[j], traits_[inputs.size() + j]};
          extents_overlap(output.view, other.view) || share_file(output, other))
        throw ValueError(who() + " overlaps " + routine_->outputs[j].name);
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const Bound input{*inputs[j], traits_[j]};
      if (share_file(output, input))
        throw ValueError(who() + " must not map the same part of a file as " +
                         routine_->inputs[j].name);
      overlap = overlap || share_memory(output, input);
    }
  }
  if (!overlap) return;
  if (const char* reason = why_not_overlap()) throw ValueError(routine_->name + ": " + reason);
}

void Problem::reset() {
  release();
  for (const auto& [option, value] : given_)
    options[option].set(options[option].member, routine_->options[option].default_value);
  given_.clear();
  traits_.clear();
  lengths_.reset();
}

DeviceId Problem::resolve_device(const AnyVariant* variant,
                                 const std::optional<DeviceId>& device) const {
  std::optional<DeviceId> where;
  if (on_device()) where = memory;
  if (device) {
    if (where && (device->kind != where->kind ||
                  (device->determined() ? *device != *where : *where == kEmulator)))
      throw ValueError(routine_->name + ": device must be '" + name_of(*where) +
                       "', the device of the operands, got '" + name_of(*device) + "'" +
                       (device->kind == Device::kCpu ? "; copy them with .numpy()" : ""));
    if (!where) where = device;
  }
  if (variant == nullptr) return where ? *where : default_device();
  if (where && where->kind != variant->device)
    throw ValueError(routine_->name + ": the variant " + variant->name + " runs on " +
                     name_of(variant->device) + ", but the operands or device= require " +
                     name_of(*where));
  if (where) return *where;
  return variant->device == Device::kCpu ? kHost : gpu(DeviceId::kAnyGpu);
}

// ---- Placing ----

void Problem::check_values(std::uintptr_t stream) {
  if (on_device()) {
    used_on_ = cuda::stream_of(memory.ordinal, stream);
    for (std::size_t i = 0; i < traits_.size(); ++i)
      if (traits_[i] != nullptr) traits_[i]->before_use(*used_on_, i >= inputs.size());
  }
  check_each({routine_->name, used_on_});
}

void Problem::place(const cuda::Stream& stream) {
  const cuda::DeviceScope scope(stream.device);
  const auto in_place = [this](const Array* array) { return stays(*array); };
  if (std::all_of(inputs.begin(), inputs.end(), in_place) &&
      std::all_of(outputs.begin(), outputs.end(), in_place))
    return;
  placed_ = clone();
  placed_->move_arrays(gpu(stream.device), [&](const Array& array) -> std::byte* {
    if (stays(array)) return nullptr;
    const auto bytes = static_cast<std::size_t>(array.bytes());
    buffers_.push_back(std::make_unique<cuda::Buffer>(bytes, stream));
    return buffers_.back()->data();
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Array &from = *inputs[i], &to = *placed_->inputs[i];
    if (!on_device())
      upload(to.data, in_order_of(to, from), stream);
    else if (!stays(from))
      cuda::copy_strided(to, from, stream);
  }
}

void Problem::fetch() const {
  if (!placed_) return;
  const cuda::Stream& stream = buffers_.front()->stream();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Array &to = *outputs[i], &from = *placed_->outputs[i];
    if (!on_device())
      download(in_order_of(from, to), from.data, stream);
    else if (!stays(to))
      cuda::copy_strided(to, from, stream);
  }
}

void Problem::release_device() {
  buffers_.clear();
  placed_.reset();
  if (!used_on_) return;
  for (std::size_t i = 0; i < traits_.size(); ++i)
    if (traits_[i] != nullptr) traits_[i]->after_use(*used_on_, i >= inputs.size());
  used_on_.reset();
}

void Problem::move_arrays(const DeviceId& device,
                          const std::function<std::byte*(const Array&)>& address) {
  const auto move = [this](Array& array, std::byte* to) {
    if (to == nullptr && array.elements() != 0) return;
    if (!array.packed() && transposed(array).packed() && takes_layout(array))
      array.data = to;
    else
      array = packed_like(array, to);
  };
  std::vector<Array> before;
  for (Array* input : inputs) {
    before.push_back(*input);
    move(*input, address(*input));
  }
  for (Array* output : outputs) {
    const auto overwritten = std::find_if(before.begin(), before.end(), [&](const Array& input) {
      return same_memory(input, *output);
    });
    if (overwritten == before.end())
      move(*output, address(*output));
    else
      *output = *inputs[static_cast<std::size_t>(overwritten - before.begin())];
  }
  memory = device;
}

}  // namespace ado

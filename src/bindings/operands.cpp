#include "bindings/operands.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace ado::py_binding {
namespace {

using Words = std::vector<std::string_view>;

// Splits at `separator`, dropping empty pieces.
Words split(std::string_view text, char separator) {
  Words words;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end != 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

Words words_of(const Operand& operand) { return split(operand.shape, ' '); }

// "rows cols" as people write it: "(rows, cols)"; a single length gets Python's comma.
template <class Strings>
std::string tuple_text(const Strings& words) {
  std::string text = "(";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0) text += ", ";
    text += words[i];
  }
  return text + (words.size() == 1 ? ",)" : ")");
}

std::string shape_text(const Array& a) {
  std::vector<std::string> words;
  for (int d = 0; d < a.rank; ++d) words.push_back(std::to_string(a.shape[d]));
  return tuple_text(words);
}

std::string dtype_text(const py::dtype& dtype) {
  return py::str(static_cast<const py::object&>(dtype));
}

bool is_number(std::string_view word) { return word[0] >= '0' && word[0] <= '9'; }

std::int64_t number(std::string_view word) { return std::stoll(std::string(word)); }

// "3|4" allows either length.
bool allows(std::string_view word, std::int64_t length) {
  const Words choices = split(word, '|');
  return std::any_of(choices.begin(), choices.end(),
                     [&](std::string_view choice) { return number(choice) == length; });
}

py::module_ numpy() { return py::module_::import("numpy"); }

// First byte and one past the last that the view touches.
std::pair<std::uintptr_t, std::uintptr_t> extent(const Array& a) {
  auto low = reinterpret_cast<std::intptr_t>(a.data), high = low + a.type.size;
  for (int d = 0; d < a.rank; ++d) {
    const std::int64_t reach = (a.shape[d] - 1) * a.stride[d];
    (reach < 0 ? low : high) += reach;
  }
  return {static_cast<std::uintptr_t>(low), static_cast<std::uintptr_t>(high)};
}

// Whether two elements of one array may share memory; strides that interleave count as if they did.
bool may_lie_on_itself(const Array& a) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // distance, how often
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

bool extents_meet(const Array& a, const Array& b) {
  if (a.elements() == 0 || b.elements() == 0) return false;
  const auto [a_low, a_high] = extent(a);
  const auto [b_low, b_high] = extent(b);
  return a_low < b_high && b_low < a_high;
}

}  // namespace

ElementType element_type(const py::dtype& dtype) {
  // NumPy marks its own order with '=', and '|' where there is none.
  const bool swapped = dtype.byteorder() == '<' || dtype.byteorder() == '>';
  return {dtype.kind(), static_cast<int>(dtype.itemsize()), swapped};
}

void refuse_references(const std::string& who, const py::dtype& dtype) {
  constexpr std::uint64_t kItemRefcount = 0x01;  // NPY_ITEM_REFCOUNT
  if ((static_cast<std::uint64_t>(dtype.flags()) & kItemRefcount) != 0)
    throw TypeError(who + " holds references to Python objects (" + dtype_text(dtype) +
                    "), which cannot be moved as bytes");
}

Array view_of(const std::string& who, const py::array& array) {
  if (array.ndim() > kMaxRank)
    throw ValueError(who + " has " + std::to_string(array.ndim()) + " dimensions, more than " +
                     std::to_string(kMaxRank));
  Array view;
  view.data = static_cast<std::byte*>(const_cast<void*>(array.data()));
  view.type = element_type(array.dtype());
  view.rank = static_cast<int>(array.ndim());
  for (int d = 0; d < view.rank; ++d) {
    view.shape[d] = array.shape(d);
    view.stride[d] = array.strides(d);
  }
  return view;
}

DeviceArray::DeviceArray(py::dtype dtype, const Array& shape_of)
    : memory(std::make_shared<cuda::Buffer>(static_cast<std::size_t>(shape_of.bytes()))),
      view(packed_like(shape_of, memory->data())),
      dtype(std::move(dtype)) {}

py::array DeviceArray::numpy() const {
  py::array host(dtype, std::vector<py::ssize_t>(view.shape, view.shape + view.rank));
  void* const target = host.mutable_data();
  {
    const ReleaseGil release;
    cuda::copy_to_host(target, view.data, static_cast<std::size_t>(view.bytes()));
  }
  return host;
}

void Describe::add(const Operand& operand, const char* role) {
  std::string elements = operand.type.text;
  if (operand.type.same_as != nullptr) elements += std::string(" ") + operand.type.same_as;
  parameters.push_back({.name = operand.name,
                        .role = role,
                        .doc = operand.doc,
                        .shape = tuple_text(words_of(operand)),
                        .elements = std::move(elements),
                        .any_elements = operand.type.fixed.size == 0});
}

const Lengths::Length* Lengths::find(std::string_view name) const {
  const auto found = std::find_if(lengths_.begin(), lengths_.end(),
                                  [&](const Length& length) { return length.name == name; });
  return found == lengths_.end() ? nullptr : &*found;
}

void Lengths::match(const std::string& routine, const Operand& operand, const Array& array) {
  Words words = words_of(operand);
  const auto fail = [&](const std::string& why) {
    throw ValueError(routine + ": " + operand.name + " must have shape " +
                     tuple_text(words_of(operand)) + why + ", got " + shape_text(array));
  };
  int first = 0;
  if (!words.empty() && words[0] == "...") {
    words.erase(words.begin());
    first = array.rank - static_cast<int>(words.size());
    if (first < 0) fail("");
    const std::vector<std::int64_t> batch(array.shape, array.shape + first);
    if (batch_operand_.empty()) {
      batch_ = batch;
      batch_operand_ = operand.name;
    } else if (batch != batch_) {
      fail(" with the batch dimensions of " + batch_operand_);
    }
  }
  if (array.rank - first != static_cast<int>(words.size())) fail("");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::int64_t length = array.shape[first + static_cast<int>(i)];
    if (is_number(words[i])) {
      if (!allows(words[i], length)) fail("");
    } else if (const Length* known = find(words[i])) {
      if (known->value != length)
        fail(" with " + known->name + " = " + std::to_string(known->value) + " from " +
             known->operand);
    } else {
      lengths_.push_back({std::string(words[i]), length, operand.name});
    }
  }
}

std::vector<py::ssize_t> Lengths::resolve(const Operand& operand) const {
  std::vector<py::ssize_t> shape;
  for (const std::string_view word : words_of(operand)) {
    if (word == "...")
      shape.insert(shape.end(), batch_.begin(), batch_.end());
    else
      shape.push_back(is_number(word) ? number(word) : find(word)->value);
  }
  return shape;
}

void EachValue::operator()(const char* name, const Array& array, const char* rule,
                           const std::function<bool(double)>& holds) const {
  Array view = array;
  std::vector<std::byte> copy;
  if (on_device) {
    copy.resize(static_cast<std::size_t>(array.bytes()));
    cuda::copy_to_host(copy.data(), array.data, copy.size());
    view.data = copy.data();
  }
  std::int64_t index[kMaxRank] = {};
  for (std::int64_t left = view.elements(); left > 0; --left) {
    const std::byte* at = view.data;
    for (int d = 0; d < view.rank; ++d) at += index[d] * view.stride[d];
    double value;
    std::memcpy(&value, at, sizeof value);
    if (!holds(value)) {
      std::string place;
      for (int d = 0; d < view.rank; ++d) place += (d == 0 ? "" : ", ") + std::to_string(index[d]);
      throw ValueError(routine + ": " + name + "[" + place + "] " + rule + ", got " +
                       std::string(py::repr(py::float_(value))));
    }
    for (int d = view.rank; d-- > 0 && ++index[d] == view.shape[d];) index[d] = 0;
  }
}

Marshal::Marshal(std::string routine, const py::tuple& arguments, const py::dict& options,
                 py::object out)
    : routine_(std::move(routine)),
      arguments_(arguments),
      keywords_(options),
      out_(std::move(out)),
      out_was_given_(!out_.is_none()) {}

std::string Marshal::type_name(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

const Marshal::Held& Marshal::hold(std::vector<Held>& where, const Operand& operand,
                                   const py::object& value) {
  const std::string who = routine_ + ": " + operand.name;
  if (py::isinstance<DeviceArray>(value)) {
    const auto& device = value.cast<const DeviceArray&>();
    check_residence(operand, true);
    where.push_back({operand.name, value, device.dtype, device.view});
  } else {
    const auto array = value.cast<py::array>();
    check_residence(operand, false);
    where.push_back({operand.name, array, array.dtype(), view_of(who, array)});
  }
  refuse_references(who, where.back().dtype);
  check_type(operand, where.back());
  lengths_.match(routine_, operand, where.back().view);
  return where.back();
}

void Marshal::check_residence(const Operand& operand, bool on_device) {
  if (on_device_.value_or(on_device) != on_device)
    throw ValueError(routine_ + ": " + operand.name + " is in " + (on_device ? "device" : "host") +
                     " memory, the operands before it are not");
  on_device_ = on_device;
}

void Marshal::check_type(const Operand& operand, const Held& held) const {
  const TypeRule& rule = operand.type;
  const auto fail = [&](const std::string& wanted) {
    throw TypeError(routine_ + ": " + operand.name + " must have " + wanted + ", got " +
                    dtype_text(held.dtype) + " (" + std::to_string(held.view.type.size) +
                    " bytes)");
  };
  if (rule.same_as != nullptr) {
    const auto other = std::find_if(inputs_.begin(), inputs_.end(),
                                    [&](const Held& h) { return h.name == rule.same_as; });
    if (!held.dtype.equal(other->dtype))
      fail(std::string(rule.text) + " " + rule.same_as + ", " + dtype_text(other->dtype));
  } else if (rule.accepts != nullptr) {
    if (!rule.accepts(held.view.type)) fail(rule.text);
  } else if (held.view.type != rule.fixed) {
    fail(std::string("elements of type ") + rule.text);
  }
}

// An array as it is; a list or another array-like as NumPy reads it. Host code must not pay for the
// rare cases, so the exact type is looked at first.
py::object Marshal::as_array(const Operand& operand, py::object value) const {
  if (Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_ ||
      py::isinstance<DeviceArray>(value))
    return value;
  if (py::isinstance(value, numpy().attr("ma").attr("MaskedArray")))
    throw TypeError(routine_ + ": " + operand.name +
                    " is a masked array; fill it first (.filled())");
  if (value.is_none() || py::isinstance<py::str>(value) || py::isinstance<py::bytes>(value))
    throw TypeError(routine_ + ": " + operand.name + " must be an array, not " + type_name(value));
  return numpy().attr("asarray")(value);
}

void Marshal::input(const Operand& operand, Array& slot) {
  const std::size_t index = inputs_.size();
  py::object value;
  if (index < arguments_.size()) {
    value = arguments_[index];
  } else if (keywords_.contains(operand.name)) {
    value = keywords_[operand.name];
    keywords_used_.emplace_back(operand.name);
  } else {
    throw TypeError(routine_ + "() needs the operand " + operand.name);
  }
  slot = hold(inputs_, operand, as_array(operand, std::move(value))).view;
}

py::object Marshal::allocate(const Operand& operand) {
  const auto like = std::find_if(inputs_.begin(), inputs_.end(), [&](const Held& h) {
    return operand.type.same_as != nullptr && h.name == operand.type.same_as;
  });
  const ElementType fixed = operand.type.fixed;
  const py::dtype dtype = like != inputs_.end()
                              ? like->dtype
                              : py::dtype(std::string(1, fixed.kind) + std::to_string(fixed.size));
  const std::vector<py::ssize_t> shape = lengths_.resolve(operand);
  if (!on_device()) return py::array(dtype, shape);
  Array view;
  view.type = element_type(dtype);
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape);
  return py::cast(DeviceArray(dtype, view));
}

void Marshal::output(const Operand& operand, Array& slot) {
  py::object value;
  if (!out_was_given_) {
    value = allocate(operand);
  } else if (py::isinstance<py::tuple>(out_)) {
    const auto given = out_.cast<py::tuple>();
    if (outputs_.size() >= given.size())
      throw ValueError(routine_ + ": out has " + std::to_string(given.size()) +
                       " arrays, too few for " + operand.name);
    value = given[outputs_.size()];
  } else if (outputs_.empty()) {
    value = out_;
  } else {
    throw ValueError(routine_ + ": out must be a tuple, one array a result");
  }
  if (!py::isinstance<DeviceArray>(value)) {
    if (!py::isinstance<py::array>(value) ||
        py::isinstance(value, numpy().attr("ma").attr("MaskedArray")))
      throw TypeError(routine_ + ": " + operand.name + " must be an array, not " +
                      type_name(value));
    if (!value.cast<py::array>().writeable())
      throw ValueError(routine_ + ": " + operand.name + " is read-only");
  }
  slot = hold(outputs_, operand, value).view;
}

void Marshal::refuse_leftovers() const {
  if (arguments_.size() > inputs_.size())
    throw TypeError(routine_ + "() takes " + std::to_string(inputs_.size()) + " operands but got " +
                    std::to_string(arguments_.size()));
  for (const auto& item : keywords_) {
    const std::string name = py::str(item.first);
    if (std::find(keywords_used_.begin(), keywords_used_.end(), name) != keywords_used_.end())
      continue;
    const bool twice = std::any_of(inputs_.begin(), inputs_.end(),
                                   [&](const Held& held) { return held.name == name; });
    throw TypeError(routine_ + "() got " +
                    (twice ? "the operand " + name + " twice" : "an unknown keyword " + name));
  }
  if (py::isinstance<py::tuple>(out_) && out_.cast<py::tuple>().size() != outputs_.size())
    throw ValueError(routine_ + ": out has " + std::to_string(out_.cast<py::tuple>().size()) +
                     " arrays for " + std::to_string(outputs_.size()) + " results");
}

void Marshal::refuse(const std::string& reason) const {
  const std::string name = reason.substr(0, reason.find(' '));
  std::string found;
  if (options_.contains(name.c_str()))
    found = ", got " + std::string(py::repr(options_[name.c_str()]));
  throw ValueError(routine_ + ": " + reason + found);
}

// Threads would write to one place at once.
void Marshal::refuse_shared_results() const {
  if (!out_was_given_) return;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Array& view = outputs_[i].view;
    if (may_lie_on_itself(view))
      throw ValueError(routine_ + ": elements of " + outputs_[i].name + " lie on each other");
    for (std::size_t j = 0; j < i; ++j)
      if (extents_meet(view, outputs_[j].view))
        throw ValueError(routine_ + ": " + outputs_[i].name + " overlaps " + outputs_[j].name);
  }
}

bool Marshal::overlaps() const {
  for (const Held& output : outputs_)
    for (const Held& input : inputs_) {
      if (!extents_meet(output.view, input.view)) continue;
      if (on_device()) return true;
      // Views that interleave (every other column, say) meet without sharing an element. The exact
      // question can take exponential time, so it may give up, which counts as sharing.
      constexpr int kMaxWork = 10'000;
      try {
        if (numpy().attr("shares_memory")(output.object, input.object, kMaxWork).cast<bool>())
          return true;
      } catch (const py::error_already_set&) {
        return true;
      }
    }
  return false;
}

py::object Marshal::results() const {
  if (outputs_.size() == 1) return outputs_.front().object;
  py::tuple all(outputs_.size());
  for (std::size_t i = 0; i < outputs_.size(); ++i) all[i] = outputs_[i].object;
  return all;
}

}  // namespace ado::py_binding

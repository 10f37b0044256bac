#include "runtime/option.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

bool has_kind(const Scalar& value, ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kBool:
      return std::holds_alternative<bool>(value);
    case ScalarKind::kInt:
      return std::holds_alternative<std::int64_t>(value);
    case ScalarKind::kFloat:  // integers are accepted as floats
      return std::holds_alternative<double>(value) || std::holds_alternative<std::int64_t>(value);
    case ScalarKind::kWord:
      return std::holds_alternative<std::string>(value);
  }
  return false;
}

void check_scalar(const std::string& who, const OptionType& type, const Scalar& value) {
  const auto got = [&] { return ", got " + text_of(value); };
  if (!has_kind(value, type.kind)) throw TypeError(who + " must be " + name_of(type.kind) + got());
  if (type.kind == ScalarKind::kInt) {
    const auto number = std::get<std::int64_t>(value);
    if (number < type.lowest || number > type.highest)
      throw ValueError(who + " is out of range" + got());
  }
  if (type.kind == ScalarKind::kWord) {
    const auto& word = std::get<std::string>(value);
    if (std::find(type.choices.begin(), type.choices.end(), word) != type.choices.end()) return;
    std::string choices;
    for (const std::string& choice : type.choices)
      choices += (choices.empty() ? "'" : ", '") + choice + "'";
    throw ValueError(who + " must be one of " + choices + got());
  }
}

}  // namespace

const char* name_of(ScalarKind kind) {
  constexpr const char* kNames[] = {"bool", "int", "float", "str"};
  return kNames[static_cast<int>(kind)];
}

std::string text_of(const Scalar& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "True" : "False";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const double* number = std::get_if<double>(&value)) return text_of(*number);
  return "'" + std::get<std::string>(value) + "'";
}

std::string text_of(const OptionValue& value) {
  if (!value.is_tuple) return value.items.empty() ? "None" : text_of(value.items[0]);
  std::vector<std::string> items;
  for (const Scalar& item : value.items) items.push_back(text_of(item));
  return tuple_text(items);
}

void check_option(const std::string& who, const OptionType& type, const OptionValue& value) {
  if (type.length == 0) {
    if (value.is_tuple || value.items.size() != 1)
      throw TypeError(who + " must be " + name_of(type.kind) + ", got " + text_of(value));
    return check_scalar(who, type, value.items[0]);
  }
  if (!value.is_tuple)
    throw TypeError(who + " must be a tuple of " + name_of(type.kind) + ", got " + text_of(value));
  if (value.items.size() != type.length)
    throw ValueError(who + " must have " + std::to_string(type.length) + " elements, got " +
                     text_of(value));
  for (std::size_t i = 0; i < type.length; ++i)
    check_scalar(who + "[" + std::to_string(i) + "]", type, value.items[i]);
}

}  // namespace ado

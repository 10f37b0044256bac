// Values of options, independent of the C++ types of the routines' members.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ado {

// One number or string.
using Scalar = std::variant<bool, std::int64_t, double, std::string>;

// The value of an option: one scalar or a tuple of scalars.
struct OptionValue {
  std::vector<Scalar> items;
  bool is_tuple = false;

  OptionValue() = default;
  OptionValue(bool value) : items{value} {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) OptionValue(Integer value)
      : items{static_cast<std::int64_t>(value)} {}
  OptionValue(double value) : items{value} {}
  OptionValue(const char* word) : items{std::string(word)} {}
  OptionValue(std::string word) : items{std::move(word)} {}
  OptionValue(std::initializer_list<int> values) : is_tuple(true) {
    for (const int value : values) items.emplace_back(std::int64_t{value});
  }
  OptionValue(std::vector<Scalar> values) : items(std::move(values)), is_tuple(true) {}
};

enum class ScalarKind : std::uint8_t { kBool, kInt, kFloat, kWord };

// The values that an option accepts.
struct OptionType {
  ScalarKind kind = ScalarKind::kInt;
  std::size_t length = 0;                 // length of the tuple; 0: one scalar
  std::vector<std::string> choices = {};  // the accepted strings, if kind is kWord
  std::int64_t lowest = 0, highest = 0;   // the accepted range, if kind is kInt
};

// "int", "float", "bool" or "str".
const char* name_of(ScalarKind kind);

// The value as Python writes it: 3, 0.5, True, 'constant' or (1, 2, 1).
std::string text_of(const Scalar& value);
std::string text_of(const OptionValue& value);

// Throws ValueError if the value has the wrong length, is out of range or is not one of the
// choices, and TypeError if it has the wrong kind. `who` names the option in messages.
void check_option(const std::string& who, const OptionType& type, const OptionValue& value);

}  // namespace ado

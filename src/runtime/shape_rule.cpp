#include "runtime/shape_rule.hpp"

#include <algorithm>
#include <sstream>

#include "core/error.hpp"
#include "runtime/text.hpp"

namespace ado {

std::string ShapeRule::text() const {
  std::vector<std::string> words;
  for (const Dimension& dimension : dimensions) words.push_back(dimension.word);
  return tuple_text(words);
}

ShapeRule parse_shape(const char* rule, std::vector<std::string>& names) {
  ShapeRule parsed;
  std::istringstream words(rule);
  for (std::string word; words >> word;) {
    Dimension dimension{.word = word};
    if (word[0] >= '0' && word[0] <= '9') {
      std::istringstream choices(word);
      for (std::string choice; std::getline(choices, choice, '|');)
        dimension.choices.push_back(std::stoll(choice));
    } else if (word != "...") {
      const auto known = std::find(names.begin(), names.end(), word);
      dimension.name = static_cast<int>(known - names.begin());
      if (known == names.end()) names.push_back(word);
    }
    parsed.dimensions.push_back(std::move(dimension));
  }
  return parsed;
}

void Lengths::match(const std::string& routine, const char* operand, const ShapeRule& rule,
                    const Array& array) {
  const auto fail = [&](const std::string& why) {
    throw ValueError(routine + ": " + operand + " must have shape " + rule.text() + why + ", got " +
                     shape_text(array));
  };
  const int batched = rule.has_batch() ? 1 : 0;
  const int words = static_cast<int>(rule.dimensions.size()) - batched;
  const int first = array.rank - words;  // dimensions before it are the batch
  if (first < 0 || (first > 0 && batched == 0)) fail("");
  if (batched != 0) {
    const bool same = std::equal(batch_.begin(), batch_.end(), array.shape, array.shape + first);
    if (batch_fixed_by_ != nullptr && !same)
      fail(" with the batch dimensions of " + std::string(batch_fixed_by_));
    if (batch_fixed_by_ == nullptr) {
      batch_.assign(array.shape, array.shape + first);
      batch_fixed_by_ = operand;
    }
  }
  for (int i = 0; i < words; ++i) {
    const Dimension& dimension = rule.dimensions[static_cast<std::size_t>(i + batched)];
    const std::int64_t length = array.shape[first + i];
    if (dimension.name < 0) {
      const auto& choices = dimension.choices;
      if (std::find(choices.begin(), choices.end(), length) == choices.end()) fail("");
      continue;
    }
    const auto name = static_cast<std::size_t>(dimension.name);
    if (values_[name] == kUnknown) {
      values_[name] = length;
      fixed_by_[name] = operand;
    } else if (values_[name] != length) {
      fail(" with " + names_[name] + " = " + std::to_string(values_[name]) + " from " +
           fixed_by_[name]);
    }
  }
}

std::vector<std::int64_t> Lengths::resolve(const ShapeRule& rule) const {
  std::vector<std::int64_t> shape;
  for (const Dimension& dimension : rule.dimensions) {
    if (dimension.is_batch())
      shape.insert(shape.end(), batch_.begin(), batch_.end());
    else if (dimension.name < 0)
      shape.push_back(dimension.choices.back());
    else
      shape.push_back(values_[static_cast<std::size_t>(dimension.name)]);
  }
  return shape;
}

}  // namespace ado

#include "runtime/shape_rule.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

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
      if (names.size() > kMaxNames) throw std::logic_error("a routine has too many named lengths");
    }
    parsed.dimensions.push_back(std::move(dimension));
  }
  return parsed;
}

Lengths::Finding Lengths::compare(const char* operand, const ShapeRule& rule, const Array& array) {
  const int batched = rule.has_batch() ? 1 : 0;
  const int words = static_cast<int>(rule.dimensions.size()) - batched;
  const int first = array.rank - words;  // dimensions before it are the batch
  if (first < 0 || (first > 0 && batched == 0)) return {Conflict::kShape};
  if (batched != 0 && batch_fixed_by_ != nullptr) {
    if (batch_.rank != first || !std::equal(array.shape, array.shape + first, batch_.lengths))
      return {Conflict::kBatch};
  } else if (batched != 0) {
    batch_.rank = first;
    std::copy(array.shape, array.shape + first, batch_.lengths);
    batch_fixed_by_ = operand;
  }
  for (int i = 0; i < words; ++i) {
    const Dimension& dimension = rule.dimensions[static_cast<std::size_t>(i + batched)];
    const std::int64_t length = array.shape[first + i];
    if (dimension.name < 0) {
      const auto& choices = dimension.choices;
      if (std::find(choices.begin(), choices.end(), length) == choices.end())
        return {Conflict::kShape};
      continue;
    }
    const auto name = static_cast<std::size_t>(dimension.name);
    if (values_[name] == kUnknown) {
      values_[name] = length;
      fixed_by_[name] = operand;
    } else if (values_[name] != length) {
      return {Conflict::kLength, name};
    }
  }
  return {};
}

void Lengths::match(const std::string& routine, const char* operand, const ShapeRule& rule,
                    const Array& array) {
  const Finding found = compare(operand, rule, array);
  if (found.conflict == Conflict::kNone) return;
  std::string why;
  if (found.conflict == Conflict::kBatch)
    why = " with the batch dimensions of " + std::string(batch_fixed_by_);
  if (found.conflict == Conflict::kLength)
    why = " with " + (*names_)[found.name] + " = " + std::to_string(values_[found.name]) +
          " from " + fixed_by_[found.name];
  throw ValueError(routine + ": " + operand + " must have shape " + rule.text() + why + ", got " +
                   shape_text(array));
}

void Lengths::set_batch(const std::vector<std::int64_t>& batch) {
  if (batch.size() > kMaxRank)
    throw ValueError("there must be at most " + std::to_string(kMaxRank) +
                     " batch dimensions, got " + std::to_string(batch.size()));
  batch_.rank = static_cast<int>(batch.size());
  std::copy(batch.begin(), batch.end(), batch_.lengths);
}

Shape Lengths::shape_of(const ShapeRule& rule) const {
  Shape shape;
  const auto add = [&](std::int64_t length) {
    if (shape.rank == kMaxRank)
      throw ValueError("an array of shape " + rule.text() + " has more than " +
                       std::to_string(kMaxRank) + " dimensions");
    shape.lengths[shape.rank++] = length;
  };
  for (const Dimension& dimension : rule.dimensions) {
    if (dimension.is_batch())
      std::for_each(batch_.lengths, batch_.lengths + batch_.rank, add);
    else if (dimension.name < 0)
      add(dimension.choices.back());
    else
      add(values_[static_cast<std::size_t>(dimension.name)]);
  }
  return shape;
}

std::vector<std::int64_t> Lengths::resolve(const ShapeRule& rule) const {
  const Shape shape = shape_of(rule);
  return {shape.lengths, shape.lengths + shape.rank};
}

}  // namespace ado

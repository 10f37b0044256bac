#include "runtime/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace ado {
namespace {

// Levenshtein distance: the number of insertions, deletions and substitutions between two names.
std::size_t edit_distance(const std::string& from, const std::string& to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t substitution = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  const double magnitude = std::abs(value);
  const bool fixed = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(digits, end);
  // Python writes a float with a point or an exponent; "inf" contains an 'n'.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string tuple_text(const std::vector<std::string>& items) {
  std::string text = "(";
  for (std::size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ", ") + items[i];
  return text + (items.size() == 1 ? ",)" : ")");
}

std::string shape_text(const Array& array) {
  std::vector<std::string> lengths;
  for (int d = 0; d < array.rank; ++d) lengths.push_back(std::to_string(array.shape[d]));
  return tuple_text(lengths);
}

std::string name_of(ElementType type) {
  if (type.swapped) return std::string(">") + type.kind + std::to_string(type.size);
  const std::string bits = std::to_string(8 * type.size);
  switch (type.kind) {
    case 'b':
      return "bool";
    case 'u':
      return "uint" + bits;
    case 'i':
      return "int" + bits;
    case 'f':
      return "float" + bits;
    case 'c':
      return "complex" + bits;
    default:
      return std::string("|") + type.kind + std::to_string(type.size);
  }
}

std::string suggest(const std::string& name, const std::vector<std::string>& known) {
  if (known.empty()) return {};
  const std::string* nearest = nullptr;
  double best = 0.6;  // the minimum similarity of a suggestion
  for (const std::string& candidate : known) {
    const auto length = static_cast<double>(std::max(name.size(), candidate.size()));
    const double similarity =
        1 - static_cast<double>(edit_distance(name, candidate)) / std::max(length, 1.0);
    if (similarity >= best && (nearest == nullptr || similarity > best)) {
      best = similarity;
      nearest = &candidate;
    }
  }
  std::string text =
      nearest == nullptr ? "; valid names: " : ": did you mean '" + *nearest + "'? Valid names: ";
  for (std::size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "" : ", ") + known[i];
  return text;
}

}  // namespace ado

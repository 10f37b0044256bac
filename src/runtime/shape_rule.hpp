// Shape rules of operands, parsed once, and the lengths that the operands of one call determine.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/array.hpp"

namespace ado {

// One word of a shape rule: "..." (batch dimensions), "rows" (a named length) or "3|4" (fixed
// lengths).
struct Dimension {
  std::string word;
  int name = -1;                           // index of a named length within the routine
  std::vector<std::int64_t> choices = {};  // the allowed fixed lengths

  bool is_batch() const { return name < 0 && choices.empty(); }
};

struct ShapeRule {
  std::vector<Dimension> dimensions;

  bool has_batch() const { return !dimensions.empty() && dimensions[0].is_batch(); }
  std::string text() const;  // "(..., rows, cols)"
};

// Parses "... rows cols 3|4"; new names are appended to `names`.
ShapeRule parse_shape(const char* rule, std::vector<std::string>& names);

// The values of the named lengths and the batch dimensions, determined by the operands bound so
// far.
class Lengths {
 public:
  explicit Lengths(const std::vector<std::string>& names)
      : names_(names), values_(names.size(), kUnknown), fixed_by_(names.size()) {}

  // Checks the shape of an array and sets the lengths that are not known yet.
  void match(const std::string& routine, const char* operand, const ShapeRule& rule,
             const Array& array);
  void set(std::size_t name, std::int64_t length) { values_[name] = length; }
  void set_batch(std::vector<std::int64_t> batch) { batch_ = std::move(batch); }
  // The shape of a result, or of an operand whose named lengths are all known. If a fixed length
  // has several choices, the last one is used.
  std::vector<std::int64_t> resolve(const ShapeRule& rule) const;

 private:
  static constexpr std::int64_t kUnknown = -1;

  const std::vector<std::string>& names_;
  std::vector<std::int64_t> values_;
  std::vector<const char*> fixed_by_;  // the operand that set each length
  std::vector<std::int64_t> batch_;
  const char* batch_fixed_by_ = nullptr;
};

}  // namespace ado

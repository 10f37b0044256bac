// Shape rules of operands, parsed once, and the lengths that the operands of one call determine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

// The largest number of named lengths of a routine.
inline constexpr std::size_t kMaxNames = 8;

// The lengths of an array's dimensions.
struct Shape {
  int rank = 0;
  std::int64_t lengths[kMaxRank];
};

// The values of the named lengths and the batch dimensions, determined by the operands bound so
// far. Memory is allocated only for error messages.
class Lengths {
 public:
  explicit Lengths(const std::vector<std::string>& names) : names_(&names) { reset(); }

  // Forgets the lengths and the batch dimensions.
  void reset() {
    for (std::int64_t& value : values_) value = kUnknown;
    batch_.rank = 0;
    batch_fixed_by_ = nullptr;
  }

  // Checks the shape of an array and sets the lengths that are not known yet. Throws ValueError if
  // the shape is wrong.
  void match(const std::string& routine, const char* operand, const ShapeRule& rule,
             const Array& array);
  void set(std::size_t name, std::int64_t length, const char* fixed_by = nullptr) {
    values_[name] = length;
    fixed_by_[name] = fixed_by;
  }
  void set_batch(const std::vector<std::int64_t>& batch);
  // The shape of a result, or of an operand whose named lengths are all known. If a fixed length
  // has several choices, the last one is used. Throws ValueError for more than kMaxRank dimensions.
  Shape shape_of(const ShapeRule& rule) const;
  std::vector<std::int64_t> resolve(const ShapeRule& rule) const;  // shape_of() as a vector

 private:
  static constexpr std::int64_t kUnknown = -1;

  // The part of a shape rule that an array violates.
  enum class Conflict { kNone, kShape, kBatch, kLength };
  struct Finding {
    Conflict conflict = Conflict::kNone;
    std::size_t name = 0;  // index of the length, for kLength
  };
  Finding compare(const char* operand, const ShapeRule& rule, const Array& array);

  const std::vector<std::string>* names_;
  std::int64_t values_[kMaxNames];
  const char* fixed_by_[kMaxNames] = {};  // the operand that set each length
  Shape batch_;
  const char* batch_fixed_by_ = nullptr;
};

}  // namespace ado

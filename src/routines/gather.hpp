// out[i] = x[index[i]]
#pragma once

#include <algorithm>

#include "core/operand.hpp"

namespace ado {

// If the element type of a problem is not an index type, its indices are int64, as in NumPy.
inline constexpr TypeRule kIndexElements{
    .text = "int32 or int64",
    .accepts =
        [](ElementType t) {
          return t == ElementType{'i', 4} || t == ElementType{'i', 8};
        },
    .fixed = {'i', 8}};

struct Gather {
  static constexpr const char* kName = "gather";
  static constexpr const char* kSummary =
      "Gather elements of an array by index: ``numpy.take(x, index, mode=\"clip\")``.";
  static constexpr const char* kSource =
      "JSC GPU course, Performance Optimization: memory access patterns.";

  Array x, index, out;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"x", "N", kAnyElement, "The array."}, x);
    visit.input(Operand{"index", "M", kIndexElements,
                        "The index of each element of the result. An index below 0 selects the "
                        "first element, an index of N or more selects the last one."},
                index);
    visit.output(Operand{"out", "M", same_as("x"), "The selected elements."}, out);
  }

  std::int64_t length() const { return x.shape[0]; }
  std::int64_t count() const { return index.shape[0]; }

  const char* why_not() const {
    return length() == 0 && count() != 0 ? "x must have at least one element to select" : nullptr;
  }

  double flops() const { return 0; }

  // Assumes different indices as far as possible: min(M, N) elements of x are read once.
  double compulsory_bytes() const {
    const std::int64_t elements = count() < length() ? count() : length();
    const auto selected = static_cast<double>(elements * x.type.size);
    return std::min(selected, x.distinct_bytes()) + index.distinct_bytes() + out.distinct_bytes();
  }
};

}  // namespace ado

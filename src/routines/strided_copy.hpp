// out[i] = x[offset + i * stride]
#pragma once

#include "core/operand.hpp"

namespace ado {

struct StridedCopy {
  static constexpr const char* kName = "strided_copy";
  static constexpr const char* kSummary =
      "Copy every n-th element of an array: ``x[offset::stride].copy()``.";
  static constexpr const char* kSource =
      "JSC GPU course, Performance Optimization: memory access patterns.";

  Array x, out;
  std::int64_t stride = 2, offset = 0;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"x", "N", kAnyElement, "The array, with any stride in memory."}, x);
    visit.option(Option{"stride", "Distance of the copied elements in x; at least 1."}, stride);
    visit.option(Option{"offset", "Index of the first copied element; at least 0."}, offset);
    visit.output(Operand{"out", "count", same_as("x"),
                         "The copied elements: none if `offset` is N or more."},
                 out);
  }

  const char* why_not() const {
    if (stride < 1) return "stride must be at least 1";
    return offset < 0 ? "offset must be at least 0" : nullptr;
  }

  std::int64_t result_length() const {
    return offset >= x.shape[0] ? 0 : (x.shape[0] - offset - 1) / stride + 1;
  }

  // The elements of x that are copied, as a view.
  Array selected() const {
    Array view = x;
    view.shape[0] = result_length();
    if (view.shape[0] > 0) view.data += offset * x.stride[0];
    // With fewer than two elements, the stride is not used, and the product could overflow.
    if (view.shape[0] > 1) view.stride[0] *= stride;
    return view;
  }

  double flops() const { return 0; }
  double compulsory_bytes() const { return selected().distinct_bytes() + out.distinct_bytes(); }
};

}  // namespace ado

// out[i] = points[i, c]
#pragma once

#include "core/operand.hpp"

namespace ado {

struct Component {
  static constexpr const char* kName = "component";
  static constexpr const char* kSummary =
      "Copy one component of each point: ``points[:, c].copy()``.";
  static constexpr const char* kSource =
      "JSC GPU course, Performance Optimization: array of structures and structure of arrays.";

  Array points, out;
  std::int64_t c = 0;

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.input(Operand{"points", "N C", kAnyElement,
                        "N points with C components each. If it is the transpose of a packed "
                        "(C, N) array, each component is contiguous."},
                points);
    visit.option(Option{"c", "Index of the component, from 0 to C - 1."}, c);
    visit.output(Operand{"out", "N", same_as("points"), "The component of each point."}, out);
  }

  const char* why_not() const {
    return c >= 0 && c < points.shape[1] ? nullptr : "c must be at least 0 and less than C";
  }

  // The component, as a view.
  Array selected() const {
    Array view = points;
    view.rank = 1;
    view.data += c * points.stride[1];
    return view;
  }

  // The CUDA variants also support points whose components are packed.
  static bool takes_layout(const Array& array) {
    return array.rank == 2 && array.stride[0] == array.type.size &&
           array.stride[1] == array.shape[0] * array.type.size;
  }

  double flops() const { return 0; }
  double compulsory_bytes() const { return selected().distinct_bytes() + out.distinct_bytes(); }
};

}  // namespace ado

// The real element types that kernels accept, and the dispatch on them.
#pragma once

#include "core/array.hpp"
#include "core/isa.hpp"
#include "core/operand.hpp"

namespace ado {

inline constexpr TypeRule kRealElements{
    .text = "float32 or float64",
    .accepts = [](ElementType type) { return type == kFloat32 || type == kFloat64; }};

// Calls `visit` with a zero of the C++ type of the elements: float or double.
template <class Visit>
ADO_INLINE auto with_real(ElementType type, Visit visit) {
  return type == kFloat32 ? visit(float{}) : visit(double{});
}

}  // namespace ado

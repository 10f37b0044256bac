// Declarations of a routine's operands. A routine is a plain struct with one visitor over them:
//
//   struct Transpose {
//     Array a, out;
//     template <class Visitor> void operands(Visitor&& visit) {
//       visit.input({"a", "rows cols", kAnyElement, "The matrix."}, a);
//       visit.output({"out", "cols rows", same_as("a"), "Its transpose."}, out);
//     }
//     ...
//
// Shapes are written as in NumPy's generalised ufuncs. A name stands for the same length in all
// operands, a number for itself, "3|4" for either number, and a leading "..." for batch dimensions.
// At most one name may occur in results only. The routine computes this length from its inputs and
// options (result_length).
//
// Optional members of a routine:
//   const char* why_not() const            why the values of the options, or the inputs with these
//                                          options, are invalid. The text begins with the name of
//                                          the option or input. It can end with ": " and a remedy.
//                                          The value or shape is inserted before the remedy.
//   const char* why_not_overlap() const    why the results must not overlap these operands; without
//                                          this member, they must not overlap any operand
//   std::int64_t result_length() const     the length that only results have; called after why_not
//   double compulsory_bytes() const        the bytes that the problem must move, if it does not
//                                          need all elements of its inputs; without this member,
//                                          each element is read once
//   void check_values(each_value)          looks at the values of float64 operands before a problem
//                                          runs: each_value(name, array, rule, holds) throws where
//                                          holds(value) is false. The values of device arrays are
//                                          copied to the host first, so keep these operands small.
//                                          each_value.known() is false if a CUDA graph captures the
//                                          call: the values do not exist yet.
//   const char* kPrecision                 static: the accuracy of the results of all variants;
//                                          without this member, they are exact
//   int kHalo                              static: for filters, the largest distance in pixels
//                                          between a result and a pixel on which it depends
//   bool takes_layout(array)               static: whether the CUDA variants read this array
//                                          without packing it first; without this member, they
//                                          read only packed arrays
// why_not and why_not_overlap return a string literal, or nullptr if there is no objection.
#pragma once

#include "core/array.hpp"
#include "core/isa.hpp"

namespace ado {

struct TypeRule {
  const char* text;  // for error messages and the documentation
  bool (*accepts)(ElementType) = nullptr;
  const char* same_as = nullptr;  // the operand with the same type
  ElementType fixed = {};         // the type, if only one is accepted
};

inline constexpr TypeRule kAnyElement{
    .text = "any type with elements of 1, 2, 4, 8 or 16 bytes", .accepts = [](ElementType t) {
      return t.size == 1 || t.size == 2 || t.size == 4 || t.size == 8 || t.size == 16;
    }};

inline constexpr TypeRule kUint8Elements{.text = "uint8", .fixed = kUint8};
inline constexpr TypeRule kFloat64Elements{.text = "float64", .fixed = kFloat64};
inline constexpr TypeRule kComplex128Elements{.text = "complex128", .fixed = kComplex128};

constexpr TypeRule same_as(const char* operand) {
  return {.text = "the type of", .same_as = operand};
}

struct Operand {
  const char* name;
  const char* shape;
  TypeRule type;
  const char* doc;
};

// A keyword of the call that is not an array. Its default is the member's initialiser. The member
// is a number, a C array of numbers (a tuple in Python) or an enumeration (a str in Python, see
// EnumNames).
struct Option {
  const char* name;
  const char* doc;
};

// `static constexpr const char* kNames[]`: the Python names of the enumerators, in order.
template <class Enum>
struct EnumNames;

inline constexpr TypeRule kRealElements{
    .text = "float32 or float64",
    .accepts = [](ElementType type) { return type == kFloat32 || type == kFloat64; }};

// Calls `visit` with a zero of the C++ type of the elements: float or double.
template <class Visit>
ADO_INLINE auto with_real(ElementType type, Visit visit) {
  return type == kFloat32 ? visit(float{}) : visit(double{});
}

}  // namespace ado

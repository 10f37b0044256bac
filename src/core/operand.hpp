// How a routine says what it takes. A routine is a plain struct with one visitor over its operands:
//
//   struct Transpose {
//     Array a, out;
//     template <class Visitor> void operands(Visitor&& visit) {
//       visit.input({"a", "rows cols", kAnyElement, "the matrix"}, a);
//       visit.output({"out", "cols rows", same_as("a"), "its transpose"}, out);
//     }
//     ...
//
// A routine may also have `const char* why_not() const` (what is wrong with the values of its
// options) and `const char* why_not_overlap() const` (why results may not lie on these operands, or
// nullptr where they may; without it they never may). Both speak literals or nullptr. Before a
// problem is run or its cost told, `void check_values(each_value)` may look at the values of
// operands of float64: each_value(name, array, rule, holds) throws where `holds(value)` is false.
// They are copied from the device for it, so they had better be few.
//
// Marshalling from Python, staging to a device, compulsory bytes, documentation and stubs are
// visitors. Shapes are written as in NumPy's generalised ufuncs: a name stands for one length
// wherever it occurs, a number for itself, and a leading "..." for any batch dimensions.
#pragma once

#include "core/array.hpp"

namespace ado {

struct TypeRule {
  const char* text;  // what the error message and the documentation say
  bool (*accepts)(ElementType) = nullptr;
  const char* same_as = nullptr;  // the operand whose type this one has
  ElementType fixed = {};         // of a result that is not the same as an operand
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

// A keyword of the call that is no array; its default is the member's initialiser. The member is a
// number, a C array of them (a tuple in Python), or an enumeration (a word in Python, see
// EnumNames).
struct Option {
  const char* name;
  const char* doc;
};

// `static constexpr const char* kNames[]`: what Python calls the values of an enumeration, in
// order.
template <class Enum>
struct EnumNames;

}  // namespace ado

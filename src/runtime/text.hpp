// Formats values and names for error messages and descriptions.
#pragma once

#include <string>
#include <vector>

#include "core/array.hpp"

namespace ado {

// The shortest decimal number that is converted back to `value`, in Python's notation.
std::string text_of(double value);

// A tuple in Python's notation: "(a, b)" or "(a,)".
std::string tuple_text(const std::vector<std::string>& items);

std::string shape_text(const Array& array);

// NumPy's name for an element type: "float32", "uint8", ">f8".
std::string name_of(ElementType type);

// The end of an error message for an unknown name: ": did you mean 'b'? Valid names: a, b, c".
std::string suggest(const std::string& name, const std::vector<std::string>& known);

}  // namespace ado

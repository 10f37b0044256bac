// Texts for error messages and descriptions.
#pragma once

#include <string>
#include <vector>

#include "core/array.hpp"

namespace ado {

// The shortest decimal that reads back as `value`, as Python writes it.
std::string text_of(double value);

// "(a, b)"; one item takes Python's comma: "(a,)".
std::string tuple_text(const std::vector<std::string>& items);

std::string shape_text(const Array& array);

// NumPy's name of an element type: "float32", "uint8", ">f8".
std::string name_of(ElementType type);

// What to add after an unknown name: "; there is a, b, c. Did you mean 'b'?".
std::string suggest(const std::string& name, const std::vector<std::string>& known);

}  // namespace ado

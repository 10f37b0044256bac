// Readable names of kernels.
#pragma once

#include <string>

namespace ado {

// The readable name of a kernel without namespaces, return type and parameters.
std::string short_name(const char* mangled);

}  // namespace ado

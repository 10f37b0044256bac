// Names of kernels as in reports.
#pragma once

#include <string>

namespace ado {

// The readable name of a kernel without namespaces, return type and parameters.
std::string short_name(const char* mangled);

}  // namespace ado

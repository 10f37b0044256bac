#include "device/device.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>

#include "core/error.hpp"
#include "device/emulated.hpp"

namespace ado::cuda {

void require() {
  if (why_unavailable().empty()) return;
  std::string remedy = "; remedy: device=\"cpu\"";
  if (emulated::why_unavailable().empty())
    remedy += ", or device=\"emulator\", which runs kernels without a GPU and measures no times";
  throw Unavailable(why_unavailable() + remedy);
}

}  // namespace ado::cuda

namespace ado {

// "void ado::cuda::(anonymous namespace)::blur<Shape<2>>(int)" becomes "blur<Shape<2>>".
std::string short_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  const bool is_mangled = status == 0 && std::strncmp(mangled, "_Z", 2) == 0;  // not a kernel t
  std::string name = is_mangled ? readable.get() : mangled;
  for (const char* space : {"ado::cuda::", "(anonymous namespace)::", "ado::"})
    for (std::size_t at; (at = name.find(space)) != std::string::npos;)
      name.erase(at, std::strlen(space));
  // Removes the return type at the start of the name of a template function, and the parameters
  // after the template arguments.
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  int depth = 0;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (name[at] == '<') ++depth;
    if (name[at] == '>') --depth;
    if (name[at] == '(' && depth == 0) return name.substr(0, at);
  }
  return name;
}

}  // namespace ado

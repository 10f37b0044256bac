// One source per routine, compiled once per instruction set.
//
// CMake compiles each file of src/cpu three times, with the compiler flags of a level and
// ADO_ISA set to its name; everything in such a file lives in `namespace ado::ADO_ISA`. The
// registry picks a level at run time. A file that is compiled so must not let the compiler emit a
// shared (weak) function with, say, AVX-512 in it, because the linker may then choose that copy for
// everybody: include nothing that has out-of-line inline code, and mark helpers ADO_INLINE or put
// them in the file's unnamed namespace. .ci/run looks at the symbols.
#pragma once

#include <cstdint>

namespace ado {

enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };
inline constexpr int kIsaLevels = 3;

#define ADO_INLINE __attribute__((always_inline)) inline

}  // namespace ado

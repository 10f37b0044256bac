// Rules for src/cpu: one source per routine, compiled once per instruction set.
//
// CMake compiles each file of src/cpu three times, with the compiler flags of one instruction-set
// level and ADO_ISA set to the level's name. Everything in such a file is in `namespace
// ado::ADO_ISA`. The registry selects a level at run time.
//
// These files must not cause the compiler to emit a shared (weak) function. The linker keeps one
// copy of it for every processor, and that copy might contain AVX-512 instructions. Therefore these
// files include no header with inline functions that are emitted out of line. Their helpers are
// ADO_INLINE or in the unnamed namespace. .ci/run checks the symbols.
#pragma once

#include <cstdint>

namespace ado {

enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };
inline constexpr int kIsaLevels = 3;

#define ADO_INLINE __attribute__((always_inline)) inline

}  // namespace ado

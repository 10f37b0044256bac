// Shared by all CPU routines: the size of a vector register.
#pragma once

namespace ado::ADO_ISA {
namespace {

// Bytes per vector register, the widest of the instruction set.
#if defined(__AVX512BW__)
constexpr int kWidth = 64;
#elif defined(__AVX2__)
constexpr int kWidth = 32;
#else
constexpr int kWidth = 16;
#endif

}  // namespace
}  // namespace ado::ADO_ISA

// Functions that execute one instruction for the 32 lanes of a warp, compiled once per instruction
// set (core/isa.hpp). The table maps names such as "add.s32" to functions.
//
// A register holds 32 lanes of 2, 4 or 8 bytes, one after another. A predicate is a mask of 32
// bits. The functions compute all lanes. If a warp has inactive lanes, the results go to scratch
// memory, and interpreter.cpp copies the active lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/isa.hpp"

namespace ado::emulator {

using u8 = std::uint8_t;
using s8 = std::int8_t;
using u16 = std::uint16_t;
using s16 = std::int16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;

inline constexpr int kLanes = 32;
inline constexpr u32 kAllLanes = 0xffffffffu;

ADO_INLINE int first_of(u32 mask) { return __builtin_ctz(mask); }
// The lanes of a mask: for (const int lane : Lanes{mask}).
struct Lanes {
  u32 mask;

  struct Iterator {
    u32 left;
    ADO_INLINE int operator*() const { return first_of(left); }
    ADO_INLINE void operator++() { left &= left - 1; }
    ADO_INLINE bool operator!=(Iterator other) const { return left != other.left; }
  };
  ADO_INLINE Iterator begin() const { return {mask}; }
  ADO_INLINE Iterator end() const { return {0}; }
};

using AluFunction = void (*)(void* d, const void* a, const void* b, const void* c);

struct AluEntry {
  const char* name;
  AluFunction function;
  // Bytes per lane of the result and the operands. 1: a predicate; 0: no operand.
  u8 bytes[4];
};

struct AluTable {
  const AluEntry* entries;
  std::size_t count;
};

// How the lanes' addresses of one access relate to each other.
enum class Pattern : u8 { kScattered, kContiguous, kUniform };

// Moves elements between memory and `count` registers of 32 lanes. `offsets` are relative to
// `base`, in bytes.
using MoveFunction = void (*)(u8* base, const s64* offsets, Pattern pattern, u32 mask,
                              void* const* registers, int count);

struct MoveEntry {
  const char* type;          // of the memory: u8 s8 b16 s16 b32 s32 b64
  u8 register_bytes;         // per lane
  MoveFunction load, store;  // store: nullptr for signed types
};

struct MoveTable {
  const MoveEntry* entries;
  std::size_t count;
};

// The last accesses of shared memory from an address on. An entry is time << 11 | who: a thread, or
// one of the numbers below.
inline constexpr u32 kWhoBits = 11, kWho = (1u << kWhoBits) - 1;
inline constexpr u32 kLanesOfWarp = 1024;  // + warp: several lanes of a warp
inline constexpr u32 kAtomics = kWho - 1;  // atomics do not race with each other
inline constexpr u32 kManyWarps = kWho;
inline constexpr int kRecordedPart = 128;  // bytes of a bulk copy that are recorded at a time
struct ShadowBytes {
  u32 *writers, *readers;
  u16 *writer_sites, *reader_sites;
};

// The types of elements of matrices.
enum class Number : u8 { kF16, kBf16, kTf32, kF32, kF64, kS8, kU8, kE4m3, kE5m2, kS32 };

// Functions of one instruction set that work on all lanes.
struct LaneFunctions {
  AluTable integers, floats, halves, conversions;
  MoveTable moves;
  // Returns true if the active lanes' addresses equal pattern[lane] + addresses[leader].
  bool (*matches64)(const u64* addresses, const s64* pattern, int leader, u32 mask);
  bool (*matches32)(const u32* addresses, const s64* pattern, int leader, u32 mask);
  // Copies the lanes of `mask`.
  void (*blend)(void* to, const void* from, u32 mask, int bytes);
  // Race checks (races.cpp): record the accesses of the lanes of `mask`, or return false if a byte
  // has been accessed by another thread since the last barrier, or by another lane since the last
  // __syncwarp. Lanes before the one that conflicts are recorded.
  using Record = bool (*)(const ShadowBytes& shadow, const s64* offsets, Pattern pattern, u32 mask,
                          int bytes, u32 since, u32 warp_since, u32 first_stamp, u16 site);
  Record record_reads, record_writes;
  // Matrix products (matrix.cpp): conversions of `count` neighbouring elements, and
  // sum += a b. `tiles`: the layout of the sum and of b (lanes/matrices.cpp); otherwise by rows.
  void (*widen)(double* out, const void* in, Number type, int count);
  void (*narrow)(void* out, const double* in, Number type, bool saturates, int count);
  void (*multiply)(double* sum, const double* a, const double* b, int m, int n, int k, bool tiles,
                   bool fused);
};

const LaneFunctions& lane_functions();  // of the best instruction set of this processor

}  // namespace ado::emulator

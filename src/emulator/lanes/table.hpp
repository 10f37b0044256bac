// Functions that execute one instruction for the 32 lanes of a warp, compiled once per instruction
// set (core/isa.hpp). The table maps names such as "add.s32" to functions.
//
// A register holds 32 lanes of 2, 4 or 8 bytes, one after another. A predicate is a mask of 32
// bits. The functions compute all lanes. Warps with inactive lanes compute into scratch memory,
// and the active lanes are copied (warp.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/isa.hpp"

namespace ado::emulator {

inline constexpr int kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

using AluFunction = void (*)(void* d, const void* a, const void* b, const void* c);

struct AluEntry {
  const char* name;
  AluFunction function;
  // Bytes per lane of the result and the operands. 1: a predicate; 0: no operand.
  std::uint8_t bytes[4];
};

struct AluTable {
  const AluEntry* entries;
  std::size_t count;
};

// How the lanes' addresses of one access relate to each other.
enum class Pattern : std::uint8_t { kScattered, kContiguous, kUniform };

// Moves elements between memory and `count` registers of 32 lanes. `offsets` are relative to
// `base`, in bytes.
using MoveFunction = void (*)(std::uint8_t* base, const std::int64_t* offsets, Pattern pattern,
                              std::uint32_t mask, void* const* registers, int count);

struct MoveEntry {
  const char* type;            // of the memory: u8 s8 b16 s16 b32 s32 b64
  std::uint8_t register_bytes;  // per lane
  MoveFunction load, store;     // store: nullptr for signed types
};

struct MoveTable {
  const MoveEntry* entries;
  std::size_t count;
};

// Functions of one instruction set that work on all lanes.
struct LaneFunctions {
  AluTable integers, floats, halves, conversions;
  MoveTable moves;
  // Returns true if the active lanes' addresses equal pattern[lane] + addresses[leader].
  bool (*matches64)(const std::uint64_t* addresses, const std::int64_t* pattern, int leader,
                    std::uint32_t mask);
  bool (*matches32)(const std::uint32_t* addresses, const std::int64_t* pattern, int leader,
                    std::uint32_t mask);
  // Copies the lanes of `mask`.
  void (*blend)(void* to, const void* from, std::uint32_t mask, int bytes);
  // Race check of `bytes` contiguous bytes per lane, from lane 0 on: returns true if no entry of
  // [from, from + 32 * bytes) has a time of at least `since` and another thread's number, and
  // records the accesses. Otherwise nothing is recorded. (races.hpp)
  bool (*record_reads)(std::uint32_t* writers, std::uint32_t* readers, int bytes,
                       std::uint32_t since, std::uint32_t first_stamp);
  bool (*record_writes)(std::uint32_t* writers, std::uint32_t* readers, int bytes,
                        std::uint32_t since, std::uint32_t first_stamp);
};

const LaneFunctions& lane_functions(Isa isa);

}  // namespace ado::emulator

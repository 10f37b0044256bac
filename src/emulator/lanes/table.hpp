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
  const char* type;             // of the memory: u8 s8 b16 s16 b32 s32 b64
  std::uint8_t register_bytes;  // per lane
  MoveFunction load, store;     // store: nullptr for signed types
};

struct MoveTable {
  const MoveEntry* entries;
  std::size_t count;
};

// The last accesses of shared memory from an address on. An entry is time << 11 | who: a thread, or
// one of the numbers below.
inline constexpr std::uint32_t kWhoBits = 11, kWho = (1u << kWhoBits) - 1;
inline constexpr std::uint32_t kLanesOfWarp = 1024;  // + warp: several lanes of a warp
inline constexpr std::uint32_t kAtomics = kWho - 1;  // atomics do not race with each other
inline constexpr std::uint32_t kManyWarps = kWho;
inline constexpr int kRecordedPart = 128;  // bytes of a bulk copy that are recorded at a time
struct ShadowBytes {
  std::uint32_t *writers, *readers;
  std::uint16_t *writer_sites, *reader_sites;
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
  // Race checks (races.cpp): record the accesses of the lanes of `mask`, or return false if a byte
  // has been accessed by another thread since the last barrier, or by another lane since the last
  // __syncwarp. Lanes before the one that conflicts are recorded.
  using Record = bool (*)(const ShadowBytes& shadow, const std::int64_t* offsets, Pattern pattern,
                          std::uint32_t mask, int bytes, std::uint32_t since,
                          std::uint32_t warp_since, std::uint32_t first_stamp, std::uint16_t site);
  Record record_reads, record_writes;
};

const LaneFunctions& lane_functions(Isa isa);

}  // namespace ado::emulator

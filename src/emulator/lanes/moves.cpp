// Transfers between memory and registers, comparison of address patterns, and race records.
#include "emulator/lanes/lanes.hpp"


namespace ado::ADO_ISA {

AluTable integer_entries();
AluTable float_entries();
AluTable half_entries();
AluTable conversion_entries();

namespace {

using emulator::LaneFunctions;
using emulator::MoveEntry;
using emulator::Pattern;

// kCount neighbouring elements per lane. The loop over lanes is the inner one, so that the loads or
// stores of registers are vectors.
template <class M, class R, int kCount, bool kStore>
void contiguous(u8* base, void* const* registers) {
  M* memory = reinterpret_cast<M*>(base);
  for (int k = 0; k < kCount; ++k) {
    R* lanes = static_cast<R*>(registers[k]);
    if constexpr (kStore) {
      ADO_LANES memory[i * kCount + k] = static_cast<M>(lanes[i]);
    } else {
      ADO_LANES lanes[i] = static_cast<R>(memory[i * kCount + k]);
    }
  }
}

template <class M, class R, bool kStore>
void move(u8* base, const s64* offsets, Pattern pattern, u32 mask, void* const* registers, int count) {
  if (mask == emulator::kAllLanes) {
    if (pattern == Pattern::kContiguous) {
      if (count == 1) return contiguous<M, R, 1, kStore>(base, registers);
      if (count == 2) return contiguous<M, R, 2, kStore>(base, registers);
      if (count == 4) return contiguous<M, R, 4, kStore>(base, registers);
    }
    for (int k = 0; k < count; ++k, base += sizeof(M)) {
      R* lanes = static_cast<R*>(registers[k]);
      if (!kStore && pattern == Pattern::kUniform) {
        const R value = static_cast<R>(*reinterpret_cast<const M*>(base + offsets[0]));
        ADO_LANES lanes[i] = value;
      } else if constexpr (kStore) {
        for (int i = 0; i < kLanes; ++i) *reinterpret_cast<M*>(base + offsets[i]) = static_cast<M>(lanes[i]);
      } else {
        ADO_LANES lanes[i] = static_cast<R>(*reinterpret_cast<const M*>(base + offsets[i]));
      }
    }
    return;
  }
  for (u32 left = mask; left != 0; left &= left - 1) {
    const int i = __builtin_ctz(left);
    M* memory = reinterpret_cast<M*>(base + offsets[i]);
    for (int k = 0; k < count; ++k) {
      R* lanes = static_cast<R*>(registers[k]);
      if constexpr (kStore)
        memory[k] = static_cast<M>(lanes[i]);
      else
        lanes[i] = static_cast<R>(memory[k]);
    }
  }
}

#define MOVE(type, M, R) {type, sizeof(R), move<M, R, false>, move<M, R, true>}
#define SIGNED_MOVE(type, M, R) {type, sizeof(R), move<M, R, false>, nullptr}
constexpr MoveEntry kMoves[] = {
    MOVE("b8", u8, u16),   MOVE("b8", u8, u32),   MOVE("b8", u8, u64),   SIGNED_MOVE("s8", s8, s16),
    SIGNED_MOVE("s8", s8, s32), SIGNED_MOVE("s8", s8, s64), MOVE("b16", u16, u16), MOVE("b16", u16, u32),
    MOVE("b16", u16, u64), SIGNED_MOVE("s16", s16, s16), SIGNED_MOVE("s16", s16, s32), SIGNED_MOVE("s16", s16, s64),
    MOVE("b32", u32, u32), MOVE("b32", u32, u64), SIGNED_MOVE("s32", s32, s32), SIGNED_MOVE("s32", s32, s64),
    MOVE("b64", u64, u64), SIGNED_MOVE("s64", s64, s64),
};

template <class Address>
bool matches(const Address* addresses, const s64* pattern, int leader, u32 mask) {
  using Difference = std::make_signed_t<Address>;
  const Address first = addresses[leader];
  Address difference = 0;
  if (mask == emulator::kAllLanes) {
    ADO_LANES difference |= (addresses[i] - first) ^ static_cast<Address>(static_cast<Difference>(pattern[i]));
  } else {
    ADO_LANES difference |= (mask >> i) & 1 ? (addresses[i] - first) ^ static_cast<Address>(static_cast<Difference>(pattern[i])) : 0;
  }
  return difference == 0;
}

template <class T>
void blend_lanes(void* to, const void* from, u32 mask) {
  auto* out = static_cast<T*>(to);
  const auto* in = static_cast<const T*>(from);
  ADO_LANES out[i] = (mask >> i) & 1 ? in[i] : out[i];
}
void blend(void* to, const void* from, u32 mask, int bytes) {
  if (bytes == 4) return blend_lanes<u32>(to, from, mask);
  if (bytes == 8) return blend_lanes<u64>(to, from, mask);
  if (bytes == 2) return blend_lanes<u16>(to, from, mask);
  u32& predicate = *static_cast<u32*>(to);
  predicate = (predicate & ~mask) | (*static_cast<const u32*>(from) & mask);
}

constexpr u32 kThread = 0x7ff;  // races.hpp: an entry is time << 11 | thread
template <int kShift, bool kWrite>
bool record(u32* writers, u32* readers, u32 since, u32 first_stamp) {
  constexpr int kBytes = kLanes << kShift;
  u32 conflict = 0;
#pragma GCC ivdep
  for (int j = 0; j < kBytes; ++j) {
    const u32 stamp = first_stamp + (static_cast<u32>(j) >> kShift);
    const u32 other_writer = writers[j] >= since && ((writers[j] ^ stamp) & kThread) != 0 ? 1 : 0;
    const u32 other_reader = kWrite && readers[j] >= since && ((readers[j] ^ stamp) & kThread) != 0 ? 1 : 0;
    conflict |= other_writer | other_reader;
  }
  if (conflict != 0) return false;
#pragma GCC ivdep
  for (int j = 0; j < kBytes; ++j) {
    const u32 stamp = first_stamp + (static_cast<u32>(j) >> kShift);
    if (kWrite)
      writers[j] = stamp;
    else
      readers[j] = readers[j] >= since && ((readers[j] ^ stamp) & kThread) != 0 ? stamp | kThread : stamp;
  }
  return true;
}
template <bool kWrite>
bool record_any(u32* writers, u32* readers, int bytes, u32 since, u32 first_stamp) {
  if (bytes == 4) return record<2, kWrite>(writers, readers, since, first_stamp);
  if (bytes == 8) return record<3, kWrite>(writers, readers, since, first_stamp);
  if (bytes == 16) return record<4, kWrite>(writers, readers, since, first_stamp);
  if (bytes == 2) return record<1, kWrite>(writers, readers, since, first_stamp);
  return record<0, kWrite>(writers, readers, since, first_stamp);
}

}  // namespace

LaneFunctions lane_functions() {
  return {integer_entries(),
          float_entries(),
          half_entries(),
          conversion_entries(),
          {kMoves, sizeof kMoves / sizeof kMoves[0]},
          matches<u64>,
          matches<u32>,
          blend,
          record_any<false>,
          record_any<true>};
}

}  // namespace ado::ADO_ISA

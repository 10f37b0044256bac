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
void move(u8* base, const s64* offsets, Pattern pattern, u32 mask, void* const* registers,
          int count) {
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
        for (int i = 0; i < kLanes; ++i)
          *reinterpret_cast<M*>(base + offsets[i]) = static_cast<M>(lanes[i]);
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

#define MOVE(type, M, R) \
  { type, sizeof(R), move<M, R, false>, move<M, R, true> }
#define SIGNED_MOVE(type, M, R) \
  { type, sizeof(R), move<M, R, false>, nullptr }
constexpr MoveEntry kMoves[] = {
    MOVE("b8", u8, u16),          MOVE("b8", u8, u32),          MOVE("b8", u8, u64),
    SIGNED_MOVE("s8", s8, s16),   SIGNED_MOVE("s8", s8, s32),   SIGNED_MOVE("s8", s8, s64),
    MOVE("b16", u16, u16),        MOVE("b16", u16, u32),        MOVE("b16", u16, u64),
    SIGNED_MOVE("s16", s16, s16), SIGNED_MOVE("s16", s16, s32), SIGNED_MOVE("s16", s16, s64),
    MOVE("b32", u32, u32),        MOVE("b32", u32, u64),        SIGNED_MOVE("s32", s32, s32),
    SIGNED_MOVE("s32", s32, s64), MOVE("b64", u64, u64),        SIGNED_MOVE("s64", s64, s64),
};

template <class Address>
bool matches(const Address* addresses, const s64* pattern, int leader, u32 mask) {
  using Difference = std::make_signed_t<Address>;
  const Address first = addresses[leader];
  Address difference = 0;
  if (mask == emulator::kAllLanes) {
    ADO_LANES difference |=
        (addresses[i] - first) ^ static_cast<Address>(static_cast<Difference>(pattern[i]));
  } else {
    ADO_LANES difference |=
        (mask >> i) & 1
            ? (addresses[i] - first) ^ static_cast<Address>(static_cast<Difference>(pattern[i]))
            : 0;
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

using emulator::kLanesOfWarp;
using emulator::kManyWarps;
using emulator::kWho;

ADO_INLINE bool is_of_warp(u32 entry, u32 warp) {
  const u32 who = entry & kWho;
  return who / kLanes == warp || who == kLanesOfWarp + warp;
}

// The loops over a lane's bytes become vectors.
template <int kBytes, bool kWrite>
bool record(const emulator::ShadowBytes& shadow, const s64* offsets, u32 mask, u32 since,
            u32 warp_since, u32 first_stamp, u16 site) {
  const u32 warp = (first_stamp & kWho) / kLanes, time = first_stamp & ~kWho;
  for (u32 left = mask; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const u32 stamp = first_stamp + static_cast<u32>(lane);
    u32* writers = shadow.writers + offsets[lane];
    u32* readers = shadow.readers + offsets[lane];
    u32 conflict = 0;
    const auto conflicts = [&](u32 entry) {
      return entry >= (is_of_warp(entry, warp) ? warp_since : since) &&
                     ((entry ^ stamp) & kWho) != 0
                 ? ~0u
                 : 0u;
    };
    for (int j = 0; j < kBytes; ++j) {
      conflict |= conflicts(writers[j]);
      if (kWrite) conflict |= conflicts(readers[j]);
    }
    if (conflict != 0) return false;
    u16* sites = (kWrite ? shadow.writer_sites : shadow.reader_sites) + offsets[lane];
    for (int j = 0; j < kBytes; ++j) {
      if (kWrite) {
        writers[j] = stamp;
      } else {
        const u32 entry = readers[j];
        const u32 several = time | (is_of_warp(entry, warp) ? kLanesOfWarp + warp : kManyWarps);
        readers[j] = entry >= since && ((entry ^ stamp) & kWho) != 0 ? several : stamp;
      }
    }
    for (int j = 0; j < kBytes; ++j) sites[j] = site;
  }
  return true;
}
template <bool kWrite>
bool record_any(const emulator::ShadowBytes& shadow, const s64* offsets, u32 mask, int bytes,
                u32 since, u32 warp_since, u32 first_stamp, u16 site) {
  switch (bytes) {
    case 1:
      return record<1, kWrite>(shadow, offsets, mask, since, warp_since, first_stamp, site);
    case 2:
      return record<2, kWrite>(shadow, offsets, mask, since, warp_since, first_stamp, site);
    case 4:
      return record<4, kWrite>(shadow, offsets, mask, since, warp_since, first_stamp, site);
    case 8:
      return record<8, kWrite>(shadow, offsets, mask, since, warp_since, first_stamp, site);
    case 16:
      return record<16, kWrite>(shadow, offsets, mask, since, warp_since, first_stamp, site);
    default:
      return false;
  }
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

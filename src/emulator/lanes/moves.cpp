// Transfers between memory and registers, comparison of address patterns, and race records.
#include "emulator/lanes/lanes.hpp"

namespace ado::ADO_ISA {

AluTable integer_entries();
AluTable float_entries();
AluTable half_entries();
AluTable conversion_entries();
void widen(double* out, const void* in, Number type, int count);
void narrow(void* out, const double* in, Number type, bool saturates, int count);
void multiply(double* sum, const double* a, const double* b, int m, int n, int k, bool tiles,
              bool fused);

namespace {

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
  if (mask == kAllLanes) {
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
  for (const int i : Lanes{mask}) {
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
  if (mask == kAllLanes) {
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

ADO_INLINE bool is_of_warp(u32 entry, u32 warp) {
  const u32 who = entry & kWho;
  return who / kLanes == warp || who == kLanesOfWarp + warp;
}

// The thread of `stamp` must not access a byte with this entry.
ADO_INLINE bool conflicts(u32 entry, u32 stamp, u32 since, u32 warp_since) {
  const u32 limit = is_of_warp(entry, (stamp & kWho) / kLanes) ? warp_since : since;
  return entry >= limit && ((entry ^ stamp) & kWho) != 0;
}
// The entry of a byte after the thread of `stamp` has read it.
ADO_INLINE u32 after_read(u32 entry, u32 stamp, u32 since) {
  const u32 warp = (stamp & kWho) / kLanes;
  const u32 several =
      (stamp & ~kWho) | (is_of_warp(entry, warp) ? kLanesOfWarp + warp : kManyWarps);
  return entry >= since && ((entry ^ stamp) & kWho) != 0 ? several : stamp;
}

// kLaneCount lanes with kBytes neighbouring bytes each. The loops become vectors.
template <int kBytes, int kLaneCount, bool kWrite>
ADO_INLINE bool record_bytes(u32* writers, u32* readers, u16* sites, u32 since, u32 warp_since,
                             u32 stamp, u16 site) {
  u32 conflict = 0;
#pragma GCC ivdep
  for (int j = 0; j < kBytes * kLaneCount; ++j) {
    const u32 own = stamp + static_cast<u32>(j) / kBytes;
    conflict |= conflicts(writers[j], own, since, warp_since) ? ~0u : 0u;
    if (kWrite) conflict |= conflicts(readers[j], own, since, warp_since) ? ~0u : 0u;
  }
  if (conflict != 0) return false;
#pragma GCC ivdep
  for (int j = 0; j < kBytes * kLaneCount; ++j) {
    const u32 own = stamp + static_cast<u32>(j) / kBytes;
    if (kWrite)
      writers[j] = own;
    else
      readers[j] = after_read(readers[j], own, since);
  }
  for (int j = 0; j < kBytes * kLaneCount; ++j) sites[j] = site;
  return true;
}
// The same for one lane, whose loop GCC does not vectorise, in steps of four bytes.
typedef u32 Four __attribute__((vector_size(16)));
ADO_INLINE Four four(const u32* from) {
  Four entries;
  __builtin_memcpy(&entries, from, sizeof entries);
  return entries;
}
ADO_INLINE Four four_of_warp(Four entries, u32 warp) {
  const Four who = entries & kWho;
  return reinterpret_cast<Four>(((who >> 5) == warp) | (who == kLanesOfWarp + warp));
}
ADO_INLINE Four four_of_others(Four entries, u32 stamp) {
  return reinterpret_cast<Four>(((entries ^ stamp) & kWho) != 0);
}
template <int kBytes, bool kWrite>
ADO_INLINE bool record_lane(u32* writers, u32* readers, u16* sites, u32 since, u32 warp_since,
                            u32 stamp, u16 site) {
  if constexpr (kBytes < 4) {
    return record_bytes<kBytes, 1, kWrite>(writers, readers, sites, since, warp_since, stamp, site);
  } else {
    const u32 warp = (stamp & kWho) / kLanes;
    const auto conflicting = [&](Four entries) {
      const Four same = four_of_warp(entries, warp), limit = (same & warp_since) | (~same & since);
      return reinterpret_cast<Four>(entries >= limit) & four_of_others(entries, stamp);
    };
    Four conflict = {};
    for (int j = 0; j < kBytes; j += 4) {
      conflict |= conflicting(four(writers + j));
      if (kWrite) conflict |= conflicting(four(readers + j));
    }
    u64 halves[2];
    __builtin_memcpy(halves, &conflict, sizeof conflict);
    if ((halves[0] | halves[1]) != 0) return false;
    for (int j = 0; j < kBytes; j += 4) {
      const Four own = Four{} + stamp, old = four(readers + j), same = four_of_warp(old, warp);
      const Four several = (own & ~kWho) | (same & (kLanesOfWarp + warp)) | (~same & kManyWarps);
      const Four others = reinterpret_cast<Four>(old >= since) & four_of_others(old, stamp);
      const Four entries = kWrite ? own : (others & several) | (~others & own);
      __builtin_memcpy((kWrite ? writers : readers) + j, &entries, sizeof entries);
    }
    for (int j = 0; j < kBytes; ++j) sites[j] = site;
    return true;
  }
}
template <int kBytes, bool kWrite>
bool record(const ShadowBytes& shadow, const s64* offsets, Pattern pattern, u32 mask, u32 since,
            u32 warp_since, u32 first_stamp, u16 site) {
  u16* const sites = kWrite ? shadow.writer_sites : shadow.reader_sites;
  if (pattern == Pattern::kContiguous && mask == kAllLanes)
    return record_bytes<kBytes, kLanes, kWrite>(shadow.writers, shadow.readers, sites, since,
                                                warp_since, first_stamp, site);
  for (const int lane : Lanes{mask}) {
    const s64 at = offsets[lane];
    if (!record_lane<kBytes, kWrite>(shadow.writers + at, shadow.readers + at, sites + at, since,
                                     warp_since, first_stamp + static_cast<u32>(lane), site))
      return false;
  }
  return true;
}
template <bool kWrite>
bool record_any(const ShadowBytes& shadow, const s64* offsets, Pattern pattern, u32 mask, int bytes,
                u32 since, u32 warp_since, u32 first_stamp, u16 site) {
  const auto function = bytes == 4               ? record<4, kWrite>
                        : bytes == 8             ? record<8, kWrite>
                        : bytes == 16            ? record<16, kWrite>
                        : bytes == 2             ? record<2, kWrite>
                        : bytes == 1             ? record<1, kWrite>
                        : bytes == kRecordedPart ? record<kRecordedPart, kWrite>
                                                 : nullptr;
  return function != nullptr &&
         function(shadow, offsets, pattern, mask, since, warp_since, first_stamp, site);
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
          record_any<true>,
          widen,
          narrow,
          multiply};
}

}  // namespace ado::ADO_ISA

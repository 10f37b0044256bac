// Races in shared memory: two threads access a byte, at least one of them writes, and no barrier
// separates the accesses.
//
// Warps run one after another, so a race never shows in the results. The shadow memory holds the
// last writer and reader of each byte. A barrier of the block, or __syncwarp for accesses of one
// warp, orders the accesses before it. A barrier of only some of the block's warps is treated like
// a barrier of the block: races across it are not found, but there are no false reports.
#include <algorithm>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

constexpr u32 kLastTime = (1u << (32 - kWhoBits)) - 2;

void advance(BlockState& block) {
  Shadow& s = block.shadow;
  if (s.writers.empty() || ++s.time < kLastTime) return;
  std::fill(s.writers.begin(), s.writers.end(), 0);
  std::fill(s.readers.begin(), s.readers.end(), 0);
  for (Warp& warp : block.warps) {
    warp.sync_time = warp.fence_time = 0;
    warp.part_time.fill(0);
  }
  s.time = 1, s.released = 0;
}

bool report_race(Worker& worker, const Warp& warp, const BlockState& block, const Access& access,
                 int lane, s64 byte, bool write, bool other_wrote, u32 entry) {
  const Shadow& s = block.shadow;
  const int site = other_wrote ? s.writer_sites[byte] : s.reader_sites[byte];
  const Access& other = worker.program.accesses[site];
  const u32 thread = entry & kWho;
  const std::string who = thread >= kLanesOfWarp
                              ? "other threads"
                              : "thread " + thread_text(worker.launch, static_cast<int>(thread));
  return report(worker, warp, access.line, lane, "race",
                std::string("race in shared memory: this thread ") + (write ? "writes" : "reads") +
                    " byte " + std::to_string(byte) + ", which " + who +
                    (other_wrote ? " wrote" : " read") + " at " +
                    user_line(worker.launch, other.line).text() + " without a barrier in between",
                "shared", byte);
}

}  // namespace

u8 stored_byte(const Warp& warp, const Access& access, int lane, s64 at) {
  const s64 element = at / access.element_bytes;
  const u8* lanes = warp.at(access.data[element]);
  return lanes[lane * access.register_bytes + at % access.element_bytes];
}

void barrier_passed(BlockState& block) {
  advance(block);
  block.shadow.since = block.shadow.time << kWhoBits;
  order_at_barrier(block);
}

void warp_synchronised(Warp& warp, const u32* members, u32 mask) {
  advance(*warp.home);
  const u32 time = warp.home->shadow.time;
  u32 common = mask;
  for (const int lane : Lanes{mask}) common &= members[lane];
  if ((warp.alive & ~common) == 0) {
    warp.sync_time = time;
    return;
  }
  for (const int lane : Lanes{mask}) {
    warp.part_time[lane] = time;
    warp.part_members[lane] = members[lane];
  }
}

void fence_passed(Warp& warp, bool between_blocks) {
  if (between_blocks) order_at_fence(warp);
  advance(*warp.home);
  warp.fence_time = warp.home->shadow.time;
}

bool record_shared(Worker& worker, Warp& warp, BlockState& block, const Access& access, int site,
                   const s64* offsets, Pattern pattern, s64 base, u32 mask, int bytes, bool write) {
  Shadow& s = block.shadow;
  if (write && (access.strong || access.atomic)) share_known(warp);
  // Only barriers of the cluster order accesses to other blocks' memory. These accesses are not
  // checked.
  if (s.writers.empty() || warp.home != &block) return true;
  if (static_cast<u64>(base) - worker.program.reserved_shared < Program::kReservedBytes) {
    if (access.atomic) barrier_passed(block);  // the barrier of a tile of several warps
    return true;
  }
  const auto index = static_cast<u32>(warp.index);
  const u32 time = s.time << kWhoBits, first = time | index * kLanes;
  const u32 warp_since = std::max(s.since, warp.sync_time << kWhoBits);
  const LaneFunctions& f = worker.launch.functions;
  const bool once = pattern == Pattern::kUniform && !write && (mask & (mask - 1)) != 0;
  if (access.synchronises) {
    const u32 thread = index * kLanes + static_cast<u32>(first_of(mask));
    const bool acquires = !write || access.atomic;
    if (acquires && s.released != 0 && (s.releaser != thread || (mask & (mask - 1)) != 0))
      s.since = std::max(s.since, s.released << kWhoBits);
    // Releases of several variables are not distinguished, so the latest one counts.
    if (write && warp.fence_time != 0 && warp.fence_time >= s.released)
      s.released = warp.fence_time, s.releaser = thread;
  } else if (!once) {
    const ShadowBytes at{&s.writers[base], &s.readers[base], &s.writer_sites[base],
                         &s.reader_sites[base]};
    const auto record = write ? f.record_writes : f.record_reads;
    const auto recorded = [&](s64 from, int count) {
      return record(
          {at.writers + from, at.readers + from, at.writer_sites + from, at.reader_sites + from},
          offsets, pattern, mask, count, s.since, warp_since, first, static_cast<u16>(site));
    };
    const int part = bytes % kRecordedPart == 0 ? kRecordedPart : std::min(bytes, 16);
    bool fine = bytes % part == 0;
    for (s64 from = 0; from < bytes && fine; from += part) fine = recorded(from, part);
    if (fine) return true;
  }
  const auto is_of_warp = [&](u32 entry) {
    return (entry & kWho) / kLanes == index || (entry & kWho) == kLanesOfWarp + index;
  };
  const auto conflicts = [&](u32 entry, u32 thread) {
    const u32 other = entry & kWho, lane = thread % kLanes;
    if (other == thread || (access.synchronises && other == kAtomics)) return false;
    if (!is_of_warp(entry)) return entry >= s.since;
    const bool together = other >= kLanesOfWarp || (warp.part_members[lane] >> other % kLanes) & 1;
    return entry >= std::max(warp_since, together ? warp.part_time[lane] << kWhoBits : 0);
  };
  // Threads may store the same value to the same byte, with one instruction or several.
  const bool plain_store = write && !access.synchronises && access.move != nullptr;
  const auto same_store = [&](u32 entry, int lane, s64 byte) {
    if (!plain_store) return false;
    const u8 value = stored_byte(warp, access, lane, byte - base - offsets[lane]);
    const u32 other = (entry & kWho) - index * kLanes;
    if (other < kLanes && ((mask >> other) & 1) && s.writer_sites[byte] == site) {
      const s64 at = byte - base - offsets[other];
      if (at >= 0 && at < bytes)
        return stored_byte(warp, access, static_cast<int>(other), at) == value;
    }
    return block.shared.data()[byte] == value;
  };
  for (const int lane : Lanes{mask}) {
    const u32 thread = index * kLanes + static_cast<u32>(lane);
    const u32 stamp = time | (access.synchronises ? kAtomics : thread);
    bool written = false;
    for (s64 byte = base + offsets[lane], end = byte + bytes; byte < end; ++byte) {
      written = written || s.writers[byte] >= s.since;
      if (conflicts(s.writers[byte], thread) && !same_store(s.writers[byte], lane, byte))
        return report_race(worker, warp, block, access, lane, byte, write, true, s.writers[byte]);
      if (!write && access.synchronises) continue;
      if (!write) {
        const u32 reader = s.readers[byte];
        const bool others = reader >= s.since && (reader & kWho) != thread;
        const u32 several =
            time | (others && !is_of_warp(reader) ? kManyWarps : kLanesOfWarp + index);
        s.readers[byte] = once || others ? several : stamp;
        s.reader_sites[byte] = static_cast<u16>(site);
        continue;
      }
      if (conflicts(s.readers[byte], thread))
        return report_race(worker, warp, block, access, lane, byte, true, false, s.readers[byte]);
      // A thread's own store before its atomic operation still races with other threads' ones.
      if (access.synchronises && s.writers[byte] >= s.since && (s.writers[byte] & kWho) == thread)
        continue;
      s.writers[byte] = stamp;
      s.writer_sites[byte] = static_cast<u16>(site);
    }
    // The other lanes read the same bytes, which have no writer.
    if (once && !written) break;
  }
  return true;
}

}  // namespace ado::emulator

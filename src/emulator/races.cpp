// Races in shared memory: two threads access a byte, at least one writes, and no barrier lies in
// between.
//
// Warps run one after another, so a race never shows in the results. The shadow memory holds the
// last writer and reader of each byte. A barrier of the block, or __syncwarp for accesses of one
// warp, orders what came before. A barrier that only some of the block's warps take part in is
// treated like a barrier of the block: races across it are not found, but nothing is reported
// falsely.
#include <algorithm>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

constexpr std::uint32_t kThreadBits = 11, kThread = (1u << kThreadBits) - 1;
constexpr std::uint32_t kLastTime = (1u << (32 - kThreadBits)) - 2;

// Atomics of different threads do not race with each other.
constexpr std::uint32_t kAtomicThread = kThread - 1;

void advance(BlockState& block) {
  Shadow& s = block.shadow;
  if (s.writers.empty() || ++s.time < kLastTime) return;
  std::fill(s.writers.begin(), s.writers.end(), 0);
  std::fill(s.readers.begin(), s.readers.end(), 0);
  for (Warp& warp : block.warps) warp.sync_time = 0;
  s.time = 1;
}

bool report_race(Worker& worker, const Warp& warp, const BlockState& block, const Access& access, int lane,
                 std::int64_t byte, bool write, bool other_wrote, std::uint32_t entry) {
  const Shadow& s = block.shadow;
  const int site = other_wrote ? s.writer_sites[byte] : s.reader_sites[byte];
  const Access& other = worker.program.accesses[site];
  const SourceLine at = source_line(worker.launch, other.line);
  const std::uint32_t thread = entry & kThread;
  const std::string who = thread == kThread || thread == kAtomicThread
                              ? "other threads"
                              : "thread " + thread_text(worker.launch, static_cast<int>(thread));
  return report(worker, warp, access.line, lane, "race",
                std::string("race in shared memory: this thread ") + (write ? "writes" : "reads") + " byte " +
                    std::to_string(byte) + ", which " + who + (other_wrote ? " wrote" : " read") + " at " + at.file + ":" +
                    std::to_string(at.line) + " without a barrier in between",
                "shared", byte);
}

}  // namespace

void barrier_passed(BlockState& block) {
  advance(block);
  block.shadow.since = block.shadow.time << kThreadBits;
}

void warp_synchronised(Warp& warp) {
  advance(*warp.home);
  warp.sync_time = warp.home->shadow.time;
}

bool record_shared(Worker& worker, Warp& warp, BlockState& block, const Access& access, int site,
                   const std::int64_t* offsets, Pattern pattern, std::int64_t base, std::uint32_t mask,
                   int bytes, bool write) {
  Shadow& s = block.shadow;
  // Only barriers of the cluster order accesses to other blocks' memory; those are not followed.
  if (s.writers.empty() || warp.home != &block) return true;
  const std::uint32_t first = s.time << kThreadBits | static_cast<std::uint32_t>(warp.index * kLanes);
  const LaneFunctions& f = worker.launch.functions;
  if (mask == kAllLanes && pattern == Pattern::kContiguous && !access.atomic && bytes <= 16) {
    const auto record = write ? f.record_writes : f.record_reads;
    if (record(&s.writers[base], &s.readers[base], bytes, s.since, first)) {
      std::fill_n(&(write ? s.writer_sites : s.reader_sites)[base], bytes * kLanes, static_cast<std::uint16_t>(site));
      return true;
    }
  }
  const std::uint32_t warp_since = std::max(s.since, warp.sync_time << kThreadBits);
  const auto conflicts = [&](std::uint32_t entry, std::uint32_t thread) {
    const std::uint32_t other = entry & kThread;
    if (entry < s.since || other == thread || (access.atomic && other == kAtomicThread)) return false;
    const bool same_warp = other / kLanes == static_cast<std::uint32_t>(warp.index) && other < kAtomicThread;
    return !same_warp || entry >= warp_since;
  };
  const bool once = pattern == Pattern::kUniform && !write && (mask & (mask - 1)) != 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const std::uint32_t thread = (first & kThread) + static_cast<std::uint32_t>(lane);
    const std::uint32_t stamp = (first & ~kThread) | (access.atomic ? kAtomicThread : thread);
    bool written = false;
    for (std::int64_t byte = base + offsets[lane], end = byte + bytes; byte < end; ++byte) {
      written = written || s.writers[byte] >= s.since;
      if (conflicts(s.writers[byte], thread))
        return report_race(worker, warp, block, access, lane, byte, write, true, s.writers[byte]);
      if (!write) {
        const std::uint32_t reader = s.readers[byte];
        const bool shared = once || (reader >= s.since && (reader & kThread) != thread);
        s.readers[byte] = shared ? stamp | kThread : stamp;
        s.reader_sites[byte] = static_cast<std::uint16_t>(site);
        continue;
      }
      if (conflicts(s.readers[byte], thread))
        return report_race(worker, warp, block, access, lane, byte, true, false, s.readers[byte]);
      s.writers[byte] = stamp;
      s.writer_sites[byte] = static_cast<std::uint16_t>(site);
    }
    // The other lanes read the same bytes, which have no writer.
    if (once && !written) break;
  }
  return true;
}

}  // namespace ado::emulator

// mbarriers, and bulk copies, whose completion mbarriers or commit groups report.
//
// A copy is performed when a thread first learns that it is complete: when it waits for the
// mbarrier or for the group. Until then its bytes in shared memory are marked as pending, so a
// missing wait is found.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

constexpr int kChunk = 16;  // bytes that a swizzle keeps together
constexpr u8 kPending = 2;
constexpr u32 kOffsetMask = (1u << kRankShift) - 1;

// --- The 64 bits of an mbarrier ------------------------------------------------------------------

struct Phase {
  u32 expected = 0, pending = 0;  // arrivals
  s32 bytes = 0;                  // of copies; negative if copies end before expect_tx
  bool odd = false, valid = false;

  static Phase of(u64 bits) {
    constexpr u64 kCount = (1u << 20) - 1;
    return {static_cast<u32>(bits & kCount), static_cast<u32>(bits >> 20 & kCount),
            static_cast<s32>(static_cast<s64>(bits << 2) >> 42), bits >> 63 != 0,
            (bits >> 62 & 1) != 0};
  }
  u64 bits() const {
    return expected | u64{pending} << 20 | (static_cast<u64>(bytes) & ((1u << 22) - 1)) << 40 |
           u64{valid} << 62 | u64{odd} << 63;
  }
  // Begins the next phase if nothing is missing.
  bool end() {
    if (pending != 0 || bytes != 0) return false;
    pending = expected;
    odd = !odd;
    return true;
  }
};

Phase load_phase(const BlockState& block, u32 at) {
  u64 bits;
  std::memcpy(&bits, block.shared.data() + at, sizeof bits);
  return Phase::of(bits);
}
void store_phase(Worker& worker, BlockState& block, u32 at, Phase phase) {
  if (phase.end()) barrier_passed(block);
  const u64 bits = phase.bits();
  std::memcpy(block.shared.data() + at, &bits, sizeof bits);
  ++worker.changes;
}

// --- Transfers -----------------------------------------------------------------------------------

u32 swizzled(u32 at, int bytes) {
  return bytes == 0 ? at : at ^ ((at >> 3) & (static_cast<u32>(bytes) - kChunk));
}

int elements_of_box(const TensorMap& map, int dimension) {
  return (map.box[dimension] + map.steps[dimension] - 1) / map.steps[dimension];
}
u32 bytes_of_box(const TensorMap& map) {
  u32 bytes = map.element_bytes;
  for (int i = 0; i < map.dimensions; ++i) bytes *= static_cast<u32>(elements_of_box(map, i));
  return bytes;
}

// One row of a copy: `bytes` bytes of shared memory from `at` on. Its bytes [first, last) are in
// global memory from `address` on.
struct Row {
  u32 at, bytes, first, last;
  u64 address;
};

// Calls visit(row) for the rows of a copy until it returns false.
template <class Visit>
bool for_rows(const BulkCopy& copy, const Visit& visit) {
  if (copy.map == nullptr) return visit(Row{copy.at, copy.bytes, 0, copy.bytes, copy.other});
  const TensorMap& map = *copy.map;
  const int size = map.element_bytes, step = map.steps[0], count = elements_of_box(map, 0);
  std::array<int, 5> index{};
  for (u32 at = copy.at;; at += static_cast<u32>(count * size)) {
    bool inside = true;
    u64 address = map.address;
    for (int i = 1; i < map.dimensions; ++i) {
      const s64 element = s64{copy.coordinates[i]} + index[i] * map.steps[i];
      inside = inside && element >= 0 && element < map.lengths[i];
      address += static_cast<u64>(element) * map.strides[i - 1];
    }
    const s64 begin = copy.coordinates[0], length = map.lengths[0];
    const auto index_from = [&](s64 element) {
      return std::clamp<s64>((element - begin + step - 1) / step, 0, count);
    };
    const s64 first = inside ? index_from(0) : 0, last = inside ? index_from(length) : 0;
    if (step == 1 || first == last) {
      if (!visit(Row{at, static_cast<u32>(count * size), static_cast<u32>(first * size),
                     static_cast<u32>(last * size),
                     address + static_cast<u64>((begin + first) * size)}))
        return false;
    } else {
      for (int i = 0; i < count; ++i) {
        const bool valid = i >= first && i < last;
        if (!visit(Row{at + static_cast<u32>(i * size), static_cast<u32>(size), 0,
                       static_cast<u32>(valid ? size : 0),
                       address + static_cast<u64>((begin + i * step) * size)}))
          return false;
      }
    }
    int i = 1;
    while (i < map.dimensions && ++index[i] == elements_of_box(map, i)) index[i++] = 0;
    if (i >= map.dimensions) return true;
  }
}

// Calls visit(address in shared memory, position in the row, bytes) for parts of a row that a
// swizzle keeps together.
template <class Visit>
void for_chunks(const BulkCopy& copy, const Row& row, const Visit& visit) {
  const int swizzle = copy.map == nullptr ? 0 : copy.map->swizzle_bytes;
  if (swizzle == 0) return visit(row.at, 0u, row.bytes);
  for (u32 done = 0; done < row.bytes;) {
    const u32 at = row.at + done, count = std::min(row.bytes - done, kChunk - at % kChunk);
    visit(swizzled(at, swizzle), done, count);
    done += count;
  }
}

void fill_outside(const BulkCopy& copy, std::vector<u8>& line) {
  std::fill(line.begin(), line.end(), 0);
  if (copy.map == nullptr || !copy.map->nan_outside) return;
  const std::size_t size = copy.map->element_bytes;
  static constexpr u8 kNan[] = {0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f};
  for (std::size_t i = 0; i < line.size(); ++i)
    line[i] = size == 4 ? kNan[i % 4] : size == 2 ? (i % 2 == 0 ? 0xff : 0x7f) : kNan[i % 8];
}

void perform_load(const BulkCopy& copy) {
  BlockState& block = *copy.shared;
  u8* const shared = block.shared.data();
  std::vector<u8> line;
  for_rows(copy, [&](const Row& row) {
    const auto* from = reinterpret_cast<const u8*>(row.address);
    if (row.first != 0 || row.last != row.bytes) {
      line.resize(row.bytes);
      fill_outside(copy, line);
      if (row.last > row.first) std::memcpy(&line[row.first], from, row.last - row.first);
      from = line.data();
    }
    for_chunks(copy, row, [&](u32 at, u32 done, u32 count) {
      if (count == kChunk)  // a constant size becomes loads and stores
        std::memcpy(shared + at, from + done, kChunk);
      else
        std::memcpy(shared + at, from + done, count);
    });
    return true;
  });
  if (!block.written.empty()) std::memset(&block.written[copy.at], 1, copy.bytes);
}

// Records the accesses of a copy to global memory for the check for races between blocks.
void record_rows(Worker& worker, const BulkCopy& copy) {
  if (worker.launch.shadow == nullptr) return;
  constexpr s64 kZeros[kLanes] = {};
  for_rows(copy, [&](const Row& row) {
    if (row.first != row.last)
      record_global(worker, *copy.warp, worker.program.accesses[copy.access],
                    static_cast<u32>(copy.access), kZeros, row.address, 1u << copy.lane,
                    static_cast<int>(row.last - row.first), copy.mode == BulkMode::kStore);
    return true;
  });
}

void perform_store(Worker& worker, const BulkCopy& copy) {
  record_rows(worker, copy);
  std::vector<u8> line;
  for_rows(copy, [&](const Row& row) {
    line.resize(row.bytes);
    for_chunks(copy, row, [&](u32 at, u32 to, u32 count) {
      std::memcpy(&line[to], copy.shared->shared.data() + at, count);
    });
    auto* const to = reinterpret_cast<u8*>(row.address);
    const u32 bytes = row.last - row.first;
    std::copy_n(line.data() + row.first, bytes, to);
    worker.launch.memory.mark_written(to, bytes);
    return true;
  });
  ++worker.changes;
}

// Completes the loads of a barrier, and the arrivals that wait for cp.async.
bool complete_loads(Worker& worker, BlockState& block, u32 barrier, Phase& phase) {
  bool fine = true;
  std::erase_if(block.bulk_loads, [&](const BulkCopy& copy) {
    if (copy.barrier != barrier || !fine) return false;
    if (copy.arrival) {
      fine = wait_copies(worker, *copy.warp, 1u << copy.lane,
                         copy.warp->commits[copy.lane] - copy.group - 1);
      if (phase.pending > 0) --phase.pending;
    } else {
      perform_load(copy);
      phase.bytes -= static_cast<s32>(copy.bytes);
    }
    ++worker.changes;
    return true;
  });
  return fine;
}

// --- Checks of a copy when it starts -------------------------------------------------------------

class Check {
 public:
  Check(Worker& worker, const BulkCopy& copy)
      : worker_(worker), copy_(copy), a_(worker.program.accesses[copy.access]) {}

  bool shared_memory() {
    const BlockState& block = *copy_.shared;
    const bool tensor = copy_.map != nullptr;
    if (u64{copy_.at} + copy_.bytes > block.shared_size)
      return fail("out of bounds",
                  "bulk copy of " + std::to_string(copy_.bytes) + " bytes at byte " +
                      std::to_string(copy_.at) + " of shared memory, which has " +
                      std::to_string(block.shared_size) + " bytes",
                  "shared", copy_.at);
    if (copy_.at % (tensor ? 128 : kChunk) != 0)
      return fail("misaligned",
                  std::string(tensor ? "the shared memory of a tensor copy must be aligned to 128"
                                     : "the shared memory of a bulk copy must be aligned to 16") +
                      " bytes, got byte " + std::to_string(copy_.at),
                  "shared", copy_.at);
    if (!tensor && copy_.bytes % kChunk != 0)
      return fail("misaligned", "the size of a bulk copy must be a multiple of 16 bytes, got " +
                                    std::to_string(copy_.bytes));
    return true;
  }

  bool global_memory() {
    if (copy_.map == nullptr && copy_.other % kChunk != 0)
      return fail("misaligned", "the global memory of a bulk copy must be aligned to 16 bytes");
    const bool store = copy_.mode == BulkMode::kStore;
    AccessCounts& counts = store ? worker_.bulk_stores : worker_.bulk_loads;
    ++counts.requests, ++counts.lanes;
    const Allocation* range = nullptr;
    return for_rows(copy_, [&](const Row& row) {
      if (row.first == row.last) return true;
      const u64 end = row.address + row.last - row.first;
      counts.bytes += row.last - row.first;
      counts.sectors += static_cast<s64>((end + 31) / 32 - row.address / 32);
      counts.ideal += (row.last - row.first + 31) / 32;
      if (range == nullptr || row.address < range->begin || end > range->end)
        range = worker_.launch.memory.find(row.address);
      for (const u64 byte : {row.address, end - 1})
        if (range == nullptr || byte < range->begin || byte >= range->end)
          return report_bounds(worker_, *copy_.warp, a_, copy_.lane, byte, store);
      const auto at = static_cast<s64>(row.address - range->begin);
      if (store && !range->writable)
        return fail("read-only", "bulk copy to '" + range->name + "', which is read-only",
                    range->name, at);
      if (store || range->written.empty() || !worker_.launch.options.checks.initcheck) return true;
      const u8* const written = range->written.data();
      const void* const missing = std::memchr(written + at, 0, row.last - row.first);
      if (missing == nullptr) return true;
      const s64 byte = static_cast<const u8*>(missing) - written;
      return fail("uninitialised",
                  "bulk copy of byte " + std::to_string(byte) + " of '" + range->name +
                      "', which nothing has written",
                  range->name, byte);
    });
  }

  // Shared memory that a copy reads must have been written.
  bool source_in_shared(const BlockState& block, u32 at) {
    if (block.written.empty()) return true;
    for (u32 i = at; i < at + copy_.bytes; ++i) {
      const bool pending = block.written[i] == kPending;
      if (block.written[i] == 1 || (!pending && !worker_.launch.options.checks.shared_initcheck))
        continue;
      return fail(pending ? "missing wait" : "uninitialised",
                  "bulk copy of byte " + std::to_string(i) + " of shared memory, " +
                      (pending ? "which is written by another copy that was not waited for"
                               : "which nothing has written"),
                  "shared", i);
    }
    return true;
  }

  bool recorded(BlockState& block, u32 at, bool write) {
    constexpr s64 kZeros[kLanes] = {};
    return record_shared(worker_, *copy_.warp, block, a_, copy_.access, kZeros, Pattern::kScattered,
                         at, 1u << copy_.lane, static_cast<int>(copy_.bytes), write);
  }

  bool fail(std::string kind, std::string message, std::string array = "", s64 byte = 0) {
    return report(worker_, *copy_.warp, a_.line, copy_.lane, std::move(kind), std::move(message),
                  std::move(array), byte);
  }

 private:
  Worker& worker_;
  const BulkCopy& copy_;
  const Access& a_;
};

// Reads the tensor map and the coordinates of a copy.
bool read_tensor(Worker& worker, BulkCopy& copy, const Extra& e, u64 address) {
  Check check(worker, copy);
  u8* const bytes = resolve(worker, *copy.warp, address, sizeof(TensorMap), copy.lane);
  const auto* map = reinterpret_cast<const TensorMap*>(bytes);
  if (map == nullptr || reinterpret_cast<u64>(bytes) % alignof(TensorMap) != 0 ||
      map->mark != TensorMap::kMark)
    return check.fail("invalid tensor map",
                      "the tensor map must be encoded by cuTensorMapEncodeTiled and aligned to 64 "
                      "bytes");
  if (e[kBulkCoordinates + map->dimensions - 1] == kNone ||
      (map->dimensions < 5 && e[kBulkCoordinates + map->dimensions] != kNone))
    return check.fail("invalid tensor map", "the tensor map has " +
                                                std::to_string(map->dimensions) +
                                                " dimensions, but the instruction does not");
  copy.map = map;
  copy.bytes = bytes_of_box(*map);
  for (int i = 0; i < map->dimensions; ++i)
    copy.coordinates[i] = static_cast<s32>(copy.warp->value(e[kBulkCoordinates + i], copy.lane, 4));
  return true;
}

bool start_load(Worker& worker, BulkCopy copy) {
  Check check(worker, copy);
  if (!check.shared_memory()) return false;
  if (copy.mode == BulkMode::kSharedToShared) {
    BlockState* from = shared_block(*copy.warp, copy.other & 0xffffffffu);
    const auto at = static_cast<u32>(copy.other & kOffsetMask);
    u8* memory = resolve(worker, *copy.warp, copy.other, static_cast<int>(copy.bytes), copy.lane);
    if (memory == nullptr)
      return check.fail("out of bounds", "bulk copy from outside shared memory", "shared", at);
    if (!check.source_in_shared(*from, at) || !check.recorded(*from, at, false)) return false;
    copy.other = reinterpret_cast<u64>(memory);
  } else if (!check.global_memory()) {
    return false;
  } else {
    record_rows(worker, copy);
  }
  BlockState& block = *copy.shared;
  if (!check.recorded(block, copy.at, true)) return false;
  if (!block.written.empty()) std::memset(&block.written[copy.at], kPending, copy.bytes);
  block.bulk_loads.push_back(copy);
  ++worker.changes;
  return true;
}

bool start_store(Worker& worker, BulkCopy copy) {
  Check check(worker, copy);
  if (!check.shared_memory() || !check.global_memory() ||
      !check.source_in_shared(*copy.shared, copy.at) ||
      !check.recorded(*copy.shared, copy.at, false))
    return false;
  copy.warp->bulk_stores.push_back(copy);
  return true;
}

}  // namespace

bool copy_bulk(Worker& worker, Warp& warp, const Inst& inst, u32 mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const Extra& e = worker.program.extras[a.extra];
  for (const int lane : Lanes{mask}) {
    const u64 shared = warp.value(e[kBulkShared], lane, 8);
    BulkCopy copy{.warp = &warp,
                  .lane = lane,
                  .access = static_cast<int>(inst.aux),
                  .mode = static_cast<BulkMode>(inst.mode),
                  .shared = shared_block(warp, shared & 0xffffffffu),
                  .at = static_cast<u32>(shared & kOffsetMask),
                  .other = warp.value(e[kBulkOther], lane, 8),
                  .group = warp.bulk_commits[lane]};
    if (copy.shared == nullptr)
      return Check(worker, copy)
          .fail("out of bounds",
                "bulk copy with a block that is not in the "
                "cluster");
    if (e[kBulkBytes] == kNone) {
      if (!read_tensor(worker, copy, e, copy.other)) return false;
    } else {
      copy.bytes = static_cast<u32>(warp.value(e[kBulkBytes], lane, 4));
    }
    if (copy.mode == BulkMode::kStore) {
      if (!start_store(worker, copy)) return false;
      continue;
    }
    const u64 barrier = warp.value(e[kBulkBarrier], lane, 8);
    copy.barrier = static_cast<u32>(barrier & kOffsetMask);
    if (e[kBulkBlocks] == kNone) {
      if (!start_load(worker, copy)) return false;
      continue;
    }
    const auto& blocks = warp.home->cluster->blocks;
    const u64 chosen = warp.value(e[kBulkBlocks], lane, 4);
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      if (!((chosen >> rank) & 1)) continue;
      copy.shared = blocks[rank].get();
      if (!start_load(worker, copy)) return false;
    }
  }
  return true;
}

void wait_bulk_stores(Worker& worker, Warp& warp, u32 mask, s64 pending) {
  std::erase_if(warp.bulk_stores, [&](const BulkCopy& copy) {
    const bool ready =
        ((mask >> copy.lane) & 1) && copy.group < warp.bulk_commits[copy.lane] - pending;
    if (ready) perform_store(worker, copy);
    return ready;
  });
}

bool check_bulk_done(Worker& worker, Warp& warp) {
  BlockState& block = *warp.home;
  const BulkCopy* left = warp.bulk_stores.empty() ? nullptr : &warp.bulk_stores.front();
  if (left == nullptr && block.done == static_cast<int>(block.warps.size()))
    for (const BulkCopy& copy : block.bulk_loads)
      if (!copy.arrival) left = &copy;
  if (left == nullptr) return true;
  return Check(worker, *left)
      .fail("missing wait", left->mode == BulkMode::kStore
                                ? "a thread ends before it has waited for this bulk copy, which "
                                  "reads its block's shared memory"
                                : "the block ends before a thread has waited for this bulk copy, "
                                  "which writes its shared memory");
}

std::string awaited(const Warp& warp, u64 address) {
  const BlockState* block = shared_block(warp, address & 0xffffffffu);
  const Phase phase = load_phase(*block, static_cast<u32>(address & kOffsetMask));
  return std::to_string(phase.pending) + " arrivals and " + std::to_string(phase.bytes) +
         " bytes of copies are missing";
}

bool mbarrier(Worker& worker, Warp& warp, const Inst& inst, u32 mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const Extra& e = worker.program.extras[a.extra];
  const auto mode = static_cast<MbarrierMode>(inst.mode);
  const auto set_result = [&](int lane, u64 value, std::size_t bytes) {
    if (e[kMbarrierResult] != kNone)
      std::memcpy(warp.at(e[kMbarrierResult]) + static_cast<std::size_t>(lane) * bytes, &value,
                  bytes);
  };
  u32 ended = 0;
  for (const int lane : Lanes{mask}) {
    const u64 address = warp.value(e[kMbarrierAddress], lane, 8);
    const auto operand = [&](MbarrierOperand which, u32 otherwise) {
      return e[which] == kNone ? otherwise : static_cast<u32>(warp.value(e[which], lane, 4));
    };
    const auto fail = [&](const char* kind, const std::string& message) {
      return report(worker, warp, a.line, lane, kind, message, "shared",
                    static_cast<s64>(address & kOffsetMask));
    };
    if (mode == MbarrierMode::kPendingCount) {
      set_result(lane, Phase::of(address).pending, 4);
      continue;
    }
    if (resolve(worker, warp, address, 8, lane) == nullptr || address >> 48 != kSharedWindow >> 48)
      return fail("out of bounds", "an mbarrier must be in shared memory");
    if (address % 8 != 0) return fail("misaligned", "an mbarrier must be aligned to 8 bytes");
    BlockState& block = *shared_block(warp, address & 0xffffffffu);
    const auto at = static_cast<u32>(address & kOffsetMask);
    constexpr s64 kZeros[kLanes] = {};
    if (!record_shared(worker, warp, block, a, static_cast<int>(inst.aux), kZeros,
                       Pattern::kScattered, at, 1u << lane, 8, true))
      return false;
    if (mode == MbarrierMode::kInit) {
      const u32 count = operand(kMbarrierValue, 0);
      if (count == 0 || count >= 1u << 20)
        return fail("invalid barrier", "the count of an mbarrier must be between 1 and 2^20 - 1");
      store_phase(worker, block, at, {count, count, 0, false, true});
      if (!block.written.empty()) std::memset(&block.written[at], 1, 8);
      continue;
    }
    Phase phase = load_phase(block, at);
    if (!phase.valid || (!block.written.empty() && block.written[at] == 0))
      return fail("uninitialised", "the mbarrier has not been initialised");
    const auto drop = [&](u32 count) {
      // Copies that end in the meantime may end the phase.
      if (phase.pending < count && !complete_loads(worker, block, at, phase)) return false;
      if (phase.end()) barrier_passed(block);
      if (phase.pending < count)
        return fail("invalid barrier", "more arrivals at an mbarrier than it expects: " +
                                           std::to_string(phase.expected) + " per phase");
      phase.pending -= count;
      return true;
    };
    switch (mode) {
      case MbarrierMode::kInvalidate:
        store_phase(worker, block, at, {1, 1, 0, false, false});
        break;
      case MbarrierMode::kExpect:
        phase.bytes += static_cast<s32>(operand(kMbarrierBytes, 0));
        store_phase(worker, block, at, phase);
        break;
      case MbarrierMode::kComplete:
        phase.bytes -= static_cast<s32>(operand(kMbarrierBytes, 0));
        store_phase(worker, block, at, phase);
        break;
      case MbarrierMode::kArrive:
      case MbarrierMode::kArriveAndDrop: {
        const u64 before = phase.bits();
        phase.bytes += static_cast<s32>(operand(kMbarrierBytes, 0));
        const u32 count = operand(kMbarrierValue, 1);
        if (!drop(count)) return false;
        if (mode == MbarrierMode::kArriveAndDrop) phase.expected -= std::min(phase.expected, count);
        store_phase(worker, block, at, phase);
        set_result(lane, before, 8);
        break;
      }
      case MbarrierMode::kArriveOfCopies: {
        const bool counted = inst.bytes == 1;
        if (!counted) ++phase.pending;
        store_phase(worker, block, at, phase);
        block.bulk_loads.push_back({.warp = &warp,
                                    .lane = lane,
                                    .access = static_cast<int>(inst.aux),
                                    .mode = BulkMode::kLoad,
                                    .arrival = true,
                                    .shared = &block,
                                    .group = warp.commits[lane]++,
                                    .barrier = at});
        break;
      }
      default: {
        if (!complete_loads(worker, block, at, phase)) return false;
        if (phase.bits() != load_phase(block, at).bits()) store_phase(worker, block, at, phase);
        phase = load_phase(block, at);
        const u64 value = mode == MbarrierMode::kTest ? warp.value(e[kMbarrierValue], lane, 8) >> 63
                                                      : operand(kMbarrierValue, 0) & 1;
        const bool complete = phase.odd != (value != 0);
        ended |= static_cast<u32>(complete) << lane;
        warp.polled = complete ? 0 : address;
        warp.polling = static_cast<int>(&inst - worker.program.code.data());
        if (!complete) warp.strong = kPollsBeforeYield;
      }
    }
  }
  if (mode == MbarrierMode::kTest || mode == MbarrierMode::kTestParity) {
    auto& predicate = *reinterpret_cast<u32*>(warp.at(e[kMbarrierResult]));
    predicate = (predicate & ~mask) | ended;
  }
  return true;
}

}  // namespace ado::emulator

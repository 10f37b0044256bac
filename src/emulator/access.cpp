// Loads, stores, atomics and asynchronous copies: checks, counters and the transfer.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

constexpr s64 kSectorBytes = 32;

// Counts different numbers: at most two per lane.
class Different {
 public:
  void add(u64 number) {
    const u64 key = number + 1;  // 0: an empty slot
    std::size_t slot = key * 0x9e3779b97f4a7c15u >> (64 - kBits);
    while (slots_[slot] != 0 && slots_[slot] != key) slot = (slot + 1) % kSlots;
    count_ += slots_[slot] == 0;
    slots_[slot] = key;
  }
  int count() const { return count_; }

 private:
  static constexpr int kBits = 7, kSlots = 1 << kBits;
  u64 slots_[kSlots] = {};
  int count_ = 0;
};

// The number of different 32-byte sectors that the lanes access.
int count_sectors(const s64* offsets, u64 base, u32 mask, int bytes) {
  Different sectors;
  u64 last = ~u64{0};
  for (const int lane : Lanes{mask}) {
    const u64 first = base + static_cast<u64>(offsets[lane]);
    for (u64 s = first / kSectorBytes; s <= (first + bytes - 1) / kSectorBytes; ++s)
      if (s != last) sectors.add(last = s);
  }
  return sectors.count();
}

// The number of different bytes that the lanes access, at aligned addresses.
int count_unique(const s64* offsets, u32 mask, int bytes) {
  Different addresses;
  for (const int lane : Lanes{mask}) addresses.add(static_cast<u64>(offsets[lane]));
  return addresses.count() * bytes;
}

// The number of sectors of an atomic operation. Each sector counts once per lane that updates the
// most frequent address in it.
int count_updates(const u64* addresses, u32 mask) {
  int most[kLanes] = {};  // per sector, stored at the index of its first lane
  for (const int lane : Lanes{mask}) {
    int same = 0, first = lane;
    for (const int other : Lanes{mask}) {
      same += addresses[other] == addresses[lane];
      if (addresses[other] / kSectorBytes == addresses[lane] / kSectorBytes)
        first = std::min(first, other);
    }
    most[first] = std::max(most[first], same);
  }
  return std::accumulate(most, most + kLanes, 0);
}

// The largest number of lanes that update one bank. For 8 bytes per lane, the hardware serves the
// two halves of the warp one after another, so their numbers are added.
int most_updates_of_a_bank(const u64* addresses, u32 mask, int bytes) {
  int per_bank[2][32] = {}, most[2] = {};
  for (const int lane : Lanes{mask}) {
    const int group = bytes > 4 ? lane / 16 : 0;
    most[group] = std::max(most[group], ++per_bank[group][addresses[lane] / 4 % 32]);
  }
  return most[0] + most[1];
}

// The largest number of different words that the lanes access in one bank. A bank returns one word
// per wavefront, to all lanes that access it. Elements are aligned, so one bank of each is counted.
int most_words_of_a_bank(const s64* offsets, s64 base, u32 mask, int bytes) {
  constexpr int kMostBanks = 32;
  const int unit = std::max(bytes, 4), banks = 4 * kMostBanks / unit;
  s64 seen[kMostBanks][kLanes];
  int per_bank[kMostBanks] = {}, most = 0;
  for (const int lane : Lanes{mask}) {
    const s64 element = (base + offsets[lane]) / unit;
    const auto bank = static_cast<int>(element & (banks - 1));
    s64* const end = seen[bank] + per_bank[bank];
    if (std::find(seen[bank], end, element) != end) continue;
    *end = element;
    most = std::max(most, ++per_bank[bank]);
  }
  return most;
}

// The number of wavefronts of an access. All lanes are served together if each accesses up to 4
// bytes. Otherwise, groups of 16 lanes of 8 bytes, or of 8 lanes of 16 bytes, are served one after
// another. Two neighbouring groups of a load are served together if each lane i has the same
// address as lane i ^ 1, or each lane i has the same address as lane i ^ 2. This rule reproduces
// counters of an H100 (tests/data/emulator/counters.json).
int count_wavefronts(const s64* offsets, s64 base, u32 mask, int bytes, bool store) {
  const auto paired = [&](u32 lanes, int distance) {
    for (const int lane : Lanes{lanes})
      if (!((lanes >> (lane ^ distance)) & 1) || offsets[lane] != offsets[lane ^ distance])
        return false;
    return true;
  };
  if (bytes <= 4) return most_words_of_a_bank(offsets, base, mask, bytes);
  const int group = bytes == 8 ? 16 : 8;
  int total = 0;
  for (int first = 0; first < kLanes; first += 2 * group) {
    const u32 lower = ((1u << group) - 1) << first;
    const u32 both = mask & (lower | lower << group);
    if (!store && (paired(both, 1) || paired(both, 2)))
      total += most_words_of_a_bank(offsets, base, both, bytes);
    else
      total += most_words_of_a_bank(offsets, base, mask & lower, bytes) +
               most_words_of_a_bank(offsets, base, mask & (lower << group), bytes);
  }
  return total;
}

// Brings the cache up to date with the lanes' addresses. `addresses` are 64 bits wide.
void analyse(SiteCache& site, const u64* addresses, u32 mask, int bytes) {
  const int leader = first_of(mask);
  site.mask = mask;
  site.phase = ~0u;
  site.low = site.high = site.bits = 0;
  bool contiguous = mask == kAllLanes, uniform = true;
  for (int i = 0; i < kLanes; ++i) {
    if (!((mask >> i) & 1)) {
      site.offsets[i] = 0;
      continue;
    }
    const auto offset = static_cast<s64>(addresses[i] - addresses[leader]);
    site.offsets[i] = offset;
    site.low = std::min(site.low, offset);
    site.high = std::max(site.high, offset);
    site.bits |= offset;
    contiguous = contiguous && offset == i * bytes;
    uniform = uniform && offset == 0;
  }
  site.pattern = contiguous ? Pattern::kContiguous
                 : uniform  ? Pattern::kUniform
                            : Pattern::kScattered;
}

std::string size_text(const Access& a, bool write) {
  return std::string(a.atomic ? "atomic operation on "
                     : write  ? "store of "
                              : "load of ") +
         std::to_string(a.bytes()) + " bytes";
}
// An access outside shared memory, or outside the variable that it refers to.
bool report_shared(Worker& worker, const Warp& warp, const Access& a, int lane, s64 byte,
                   bool write) {
  const bool known = a.variable != 0;
  const SharedVariable all{"", 0, static_cast<s64>(warp.home->shared_size)};
  const SharedVariable& v = known ? worker.program.variables[a.variable - 1] : all;
  const s64 size = std::min(v.last, all.last) - v.first;
  const std::string name = known ? readable_variable(v.name) : "shared";
  return report(worker, warp, a.line, lane, "out of bounds",
                size_text(a, write) + " at byte " + std::to_string(byte - v.first) + " of " +
                    (known ? "'" + name + "' in shared memory" : "shared memory") + ", which has " +
                    std::to_string(size) + " bytes",
                name, byte - v.first);
}
std::string hex(u64 value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void count_request(AccessCounts& counts, u32 mask, int bytes) {
  const int lanes = std::popcount(mask);
  ++counts.requests;
  counts.lanes += lanes;
  counts.bytes += s64{lanes} * bytes;
}

// Reports a lane whose address, `base` plus its offset, is not aligned. The array begins at
// `begin`.
bool check_aligned(Worker& worker, const Warp& warp, const Access& a, const SiteCache& site,
                   u32 mask, u64 base, const std::string& array, u64 begin) {
  const auto bits = static_cast<u64>(a.bytes() - 1);
  if (((base | static_cast<u64>(site.bits)) & bits) == 0) return true;
  for (const int lane : Lanes{mask}) {
    const u64 address = base + static_cast<u64>(site.offsets[lane]);
    if ((address & bits) == 0) continue;
    const auto byte = static_cast<s64>(address - begin);
    return report(worker, warp, a.line, lane, "misaligned",
                  size_text(a, a.store) + " at byte " + std::to_string(byte) + " of '" + array +
                      "', which is not aligned",
                  array, byte);
  }
  return true;
}

// The range that contains the addresses [base + low, base + high + bytes), or nullptr.
Allocation* range_of(Worker& worker, SiteCache& site, u64 low, u64 end) {
  Allocation* range = site.allocation;
  const auto holds = [&] { return range != nullptr && end >= low && range->holds(low, end - low); };
  if (holds()) return range;
  range = worker.launch.memory.find(low);
  return holds() ? site.allocation = range : nullptr;
}

bool global_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                   const u64* addresses, u32 mask);

// Lanes that access different ranges are handled one after another, and counted as one request.
bool global_by_lane(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                    const u64* addresses, u32 mask, int sectors) {
  AccessCounts& counts = worker.counts[inst.aux];
  const AccessCounts before = counts;
  for (const int lane : Lanes{mask}) {
    const u64 address = addresses[lane] + static_cast<u64>(a.offset);
    const Allocation* range = worker.launch.memory.find(address);
    if (range == nullptr || !range->holds(address, static_cast<u64>(a.bytes())))
      return report_bounds(worker, warp, a, lane, address, a.store);
    if (!global_access(worker, warp, inst, a, addresses, 1u << lane)) return false;
  }
  counts.requests = before.requests + 1;
  counts.sectors = before.sectors + sectors;
  return true;
}

bool check_lane_initialised(Worker& worker, const Warp& warp, const Access& a, int lane,
                            const u8* written, s64 at, int bytes, const std::string& name,
                            bool only_pending = false) {
  for (const s64 end = at + bytes; at < end; ++at) {
    if (written[at] == 1 || (only_pending && written[at] == 0)) continue;
    const bool pending = written[at] == 2;
    return report(worker, warp, a.line, lane, pending ? "missing wait" : "uninitialised",
                  size_text(a, false) + " at byte " + std::to_string(at) + " of '" + name + "', " +
                      (pending ? "which is written by a cp.async that was not waited for"
                               : "which nothing has written"),
                  name, at);
  }
  return true;
}

bool check_initialised(Worker& worker, const Warp& warp, const Access& a, const SiteCache& site,
                       u32 mask, const u8* written, s64 base, const std::string& name,
                       bool only_pending = false) {
  const int bytes = a.bytes();
  const auto valid = [&](s64 at, s64 count) {
    u64 difference = 0;
    for (; count >= 8; at += 8, count -= 8) {
      u64 eight;
      std::memcpy(&eight, written + at, sizeof eight);
      difference |= eight ^ 0x0101010101010101u;
    }
    for (; count > 0; ++at, --count) difference |= written[at] ^ 1u;
    return difference == 0;
  };
  if (site.pattern == Pattern::kContiguous && mask == kAllLanes && valid(base, s64{bytes} * kLanes))
    return true;
  for (const int lane : Lanes{mask}) {
    const s64 at = base + site.offsets[lane];
    if (valid(at, bytes)) {
      if (site.pattern == Pattern::kUniform) return true;
      continue;
    }
    if (!check_lane_initialised(worker, warp, a, lane, written, at, bytes, name, only_pending))
      return false;
  }
  return true;
}

// Calls visit(bytes). Usual sizes are constants, so that the compiler generates loads and stores.
template <class Visit>
void with_size(int bytes, const Visit& visit) {
  if (bytes == 4) return visit(std::integral_constant<std::size_t, 4>{});
  if (bytes == 16) return visit(std::integral_constant<std::size_t, 16>{});
  if (bytes == 8) return visit(std::integral_constant<std::size_t, 8>{});
  visit(static_cast<std::size_t>(bytes));
}

void fill_bytes(u8* at, u8 value, int bytes) {
  with_size(bytes, [&](auto size) { std::memset(at, value, size); });
}

void mark_written(u8* written, const SiteCache& site, u32 mask, s64 base, int bytes) {
  if (site.pattern == Pattern::kContiguous && mask == kAllLanes) {
    std::memset(written + base, 1, static_cast<std::size_t>(bytes) * kLanes);
    return;
  }
  for (const int lane : Lanes{mask}) fill_bytes(written + base + site.offsets[lane], 1, bytes);
}

void transfer(Warp& warp, const Access& a, const SiteCache& site, u8* base, u32 mask) {
  void* registers[8];
  for (int k = 0; k < a.count; ++k) registers[k] = warp.at(a.data[k]);
  a.move(base, site.offsets, site.pattern, mask, registers, a.count);
}

// Updates the cache of an access to global memory and counts it. Returns the first address.
u64 classify_global(Worker& worker, SiteCache& site, AccessCounts& counts, const u64* addresses,
                    s64 offset, u32 mask, int bytes) {
  const int leader = first_of(mask);
  const bool known =
      site.mask == mask && worker.launch.functions.matches64(addresses, site.offsets, leader, mask);
  if (!known) analyse(site, addresses, mask, bytes);
  const u64 base = addresses[leader] + static_cast<u64>(offset);
  const auto phase = static_cast<u32>(base & (kSectorBytes - 1));
  if (site.phase != phase) {
    site.phase = phase;
    site.cost = count_sectors(site.offsets, base, mask, bytes);
    site.unique = site.pattern == Pattern::kUniform      ? bytes
                  : site.pattern == Pattern::kContiguous ? kLanes * bytes
                                                         : count_unique(site.offsets, mask, bytes);
    site.ideal = (site.unique + 31) / 32;
  }
  count_request(counts, mask, bytes);
  counts.sectors += site.cost;
  counts.ideal += site.ideal;
  counts.unique += site.unique;
  return base;
}

bool global_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                   const u64* addresses, u32 mask) {
  SiteCache& site = worker.sites[inst.aux];
  const int bytes = a.bytes();
  const u64 base =
      classify_global(worker, site, worker.counts[inst.aux], addresses, a.offset, mask, bytes);
  Allocation* range = range_of(worker, site, base + site.low, base + site.high + bytes);
  if (range == nullptr) {
    if ((mask & (mask - 1)) == 0)
      return report_bounds(worker, warp, a, first_of(mask), base, a.store);
    return global_by_lane(worker, warp, inst, a, addresses, mask, site.cost);
  }
  if (!check_aligned(worker, warp, a, site, mask, base, range->name, range->begin)) return false;
  if (a.store) {
    if (!range->writable)
      return report(worker, warp, a.line, first_of(mask), "read-only",
                    size_text(a, true) + " to '" + range->name + "', which is read-only",
                    range->name, static_cast<s64>(base - range->begin));
    if (!range->written.empty())
      mark_written(range->written.data(), site, mask, static_cast<s64>(base - range->begin), bytes);
    ++worker.changes;
  } else {
    if (!range->written.empty() && worker.launch.options.checks.initcheck &&
        !check_initialised(worker, warp, a, site, mask, range->written.data(),
                           static_cast<s64>(base - range->begin), range->name))
      return false;
    if (a.strong) ++warp.strong, warp.polled = 0;
  }
  const bool recorded = worker.launch.shadow != nullptr && range->writable;
  if (recorded) record_global(worker, warp, a, inst.aux, site.offsets, base, mask, bytes, a.store);
  // Other workers may access this memory. x86-64 orders its loads and stores, 64-bit Arm does not.
  if (a.strong && a.store) std::atomic_thread_fence(std::memory_order_release);
  transfer(warp, a, site, reinterpret_cast<u8*>(base), mask);
  if (a.strong && !a.store) std::atomic_thread_fence(std::memory_order_acquire);
  if (recorded && a.strong && a.between_blocks && !a.store)
    observe_global(worker, warp, site.offsets, base, mask, bytes);
  return true;
}

bool shared_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a, const u64* wide,
                   const u32* narrow, u32 mask) {
  SiteCache& site = worker.sites[inst.aux];
  const int leader = first_of(mask), bytes = a.bytes();
  const LaneFunctions& f = worker.launch.functions;
  const bool known =
      site.mask == mask && (narrow != nullptr ? f.matches32(narrow, site.offsets, leader, mask)
                                              : f.matches64(wide, site.offsets, leader, mask));
  if (!known) {
    u64 addresses[kLanes];
    for (int i = 0; i < kLanes; ++i) addresses[i] = narrow != nullptr ? narrow[i] : wide[i];
    analyse(site, addresses, mask, bytes);
  }
  const u64 first = narrow != nullptr ? narrow[leader] : wide[leader];
  const u64 address = (first + static_cast<u64>(a.offset)) & 0xffffffffu;
  const auto base = static_cast<s64>(address & ((1u << kRankShift) - 1));
  const auto phase = static_cast<u32>(base & 3);
  if (site.phase != phase) {
    site.phase = phase;
    site.cost = count_wavefronts(site.offsets, base, mask, bytes, a.store);
    site.ideal = std::min(site.cost, (std::popcount(mask) * bytes + 127) / 128);
  }
  BlockState* block = shared_block(warp, address);
  const auto outside = [&](s64 offset) {
    return block == nullptr || base + offset < a.first ||
           base + offset + bytes > std::min(a.last, static_cast<s64>(block->shared_size));
  };
  if (outside(site.low) || outside(site.high)) {
    if (site.low != site.high && (mask & (mask - 1)) != 0 &&
        warp.home->cluster->blocks.size() > 1) {
      // Perhaps the lanes access different blocks of the cluster.
      for (const int lane : Lanes{mask})
        if (!shared_access(worker, warp, inst, a, wide, narrow, 1u << lane)) return false;
      return true;
    }
    int lane = first_of(mask);
    for (const int i : Lanes{mask & ~(1u << lane)})
      if (!outside(site.offsets[lane])) lane = i;
    return report_shared(worker, warp, a, lane, base + site.offsets[lane], a.store);
  }
  if (!check_aligned(worker, warp, a, site, mask, static_cast<u64>(base), "shared", 0))
    return false;
  AccessCounts& counts = worker.counts[inst.aux];
  count_request(counts, mask, bytes);
  counts.wavefronts += site.cost;
  counts.ideal += site.ideal;
  if (!block->written.empty()) {
    if (a.store)
      mark_written(block->written.data(), site, mask, base, bytes);
    else if (!check_initialised(worker, warp, a, site, mask, block->written.data(), base, "shared",
                                !worker.launch.options.checks.shared_initcheck))
      return false;
  }
  if (!record_shared(worker, warp, *block, a, static_cast<int>(inst.aux), site.offsets,
                     site.pattern, base, mask, bytes, a.store))
    return false;
  if (a.store)
    ++worker.changes;
  else if (a.strong)
    ++warp.strong;
  transfer(warp, a, site, block->shared.data() + base, mask);
  return true;
}

// The hardware interleaves the local memory of a warp: words with the same index are adjacent.
int count_local_sectors(const s64* offsets, s64 size, u32 mask, int bytes) {
  Different sectors;
  for (const int lane : Lanes{mask})
    for (s64 at = offsets[lane] % size, end = at + bytes; at < end; at += 4)
      sectors.add(static_cast<u64>(at / 4 * 4 + lane / 8));
  return sectors.count();
}

// Local memory: one range per lane.
bool local_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a, const u64* wide,
                  const u32* narrow, u32 mask) {
  const auto size = static_cast<s64>(worker.program.local_bytes);
  SiteCache& site = worker.sites[inst.aux];
  site.mask = 0;
  site.pattern = Pattern::kScattered;
  for (const int lane : Lanes{mask}) {
    const u64 lanes_address = narrow != nullptr ? narrow[lane] : wide[lane];
    const auto address = static_cast<s64>(lanes_address + static_cast<u64>(a.offset));
    if (address < 0 || address > size - a.bytes())
      return report(worker, warp, a.line, lane, "out of bounds",
                    size_text(a, a.store) + " at byte " + std::to_string(address) +
                        " of local memory, which has " + std::to_string(size) + " bytes",
                    "local", address);
    if ((address & (a.bytes() - 1)) != 0)
      return report(worker, warp, a.line, lane, "misaligned",
                    size_text(a, a.store) + " in local memory", "local", address);
    site.offsets[lane] = (s64{warp.index} * kLanes + lane) * size + address;
  }
  AccessCounts& counts = worker.local[inst.aux];
  count_request(counts, mask, a.bytes());
  counts.sectors += count_local_sectors(site.offsets, size, mask, a.bytes());
  counts.ideal += (std::popcount(mask) * a.bytes() + 31) / 32;
  transfer(warp, a, site, warp.home->local.data(), mask);
  return true;
}

// Generic addresses: the window decides, per lane.
bool generic_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                    const u64* addresses, u32 mask) {
  u32 shared = 0, local = 0;
  for (int i = 0; i < kLanes; ++i) {
    const u64 window = (addresses[i] + static_cast<u64>(a.offset)) >> 48;
    shared |= static_cast<u32>(window == kSharedWindow >> 48) << i;
    local |= static_cast<u32>(window == kLocalWindow >> 48) << i;
  }
  shared &= mask, local &= mask;
  const u32 global = mask & ~shared & ~local;
  if (global != 0 && !global_access(worker, warp, inst, a, addresses, global)) return false;
  u64 relative[kLanes];
  for (int i = 0; i < kLanes; ++i) relative[i] = addresses[i] & 0xffffffffffffu;
  if (shared != 0 && !shared_access(worker, warp, inst, a, relative, nullptr, shared)) return false;
  return local == 0 || local_access(worker, warp, inst, a, relative, nullptr, local);
}

// Replaces bits in memory by next(bits) atomically, because other workers may change them.
template <class Bits, class Next>
Bits exchange(void* memory, const Next& next) {
  auto* at = static_cast<Bits*>(memory);
  Bits old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
  for (;;) {
    const Bits wanted = next(old);
    if (wanted == old ||
        __atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
      return old;
  }
}

// Combines values of type T atomically. The operands contain their bits.
template <class T, class Bits>
u64 apply_to(const Access& a, void* memory, u64 operand, u64 second) {
  const auto of = [](u64 bits) { return std::bit_cast<T>(static_cast<Bits>(bits)); };
  return exchange<Bits>(memory, [&](Bits old) {
    return std::bit_cast<Bits>(
        combine(a.operation, std::bit_cast<T>(old), of(operand), of(second)));
  });
}

// The same for 16-bit floats. `combine` works on all lanes; the first one is used.
template <class Bits>
u64 apply_to_halves(const Access& a, void* memory, u64 operand) {
  alignas(64) Bits operands[kLanes] = {static_cast<Bits>(operand)};
  return exchange<Bits>(memory, [&](Bits old) {
    alignas(64) Bits olds[kLanes] = {old}, wanted[kLanes];
    a.combine(wanted, olds, operands, nullptr);
    return wanted[0];
  });
}

u64 apply(const Access& a, void* memory, u64 operand, u64 second) {
  const bool halves = a.combine != nullptr, wide = a.element_bytes == 8;
  if (a.element_bytes == 2)
    return halves ? apply_to_halves<u16>(a, memory, operand)
                  : apply_to<u16, u16>(a, memory, operand, second);
  if (halves) return apply_to_halves<u32>(a, memory, operand);
  const bool logic = a.operation == AtomicOp::kCompare || a.operation == AtomicOp::kExchange;
  const auto function = a.is_float && !logic ? wide ? apply_to<double, u64> : apply_to<float, u32>
                        : a.is_signed ? wide ? apply_to<s64, u64> : apply_to<s32, u32>
                        : wide ? apply_to<u64, u64>
                                             : apply_to<u32, u32>;
  return function(a, memory, operand, second);
}

u64 address_of_lane(const Warp& warp, const Access& a, int lane) {
  return warp.value(a.address, lane, a.address_bytes) + static_cast<u64>(a.offset);
}

}  // namespace

bool report_bounds(Worker& worker, const Warp& warp, const Access& a, int lane, u64 address,
                   bool write) {
  const Allocation* near = worker.launch.memory.nearest(address);
  if (near == nullptr)
    return report(worker, warp, a.line, lane, "out of bounds",
                  size_text(a, write) + " at " + hex(address) + ", which is in no array");
  const auto byte = static_cast<s64>(address - near->begin);
  return report(worker, warp, a.line, lane, "out of bounds",
                size_text(a, write) + " at byte " + std::to_string(byte) + " of '" + near->name +
                    "', which has " + std::to_string(near->end - near->begin) + " bytes",
                near->name, byte);
}

// The block whose shared memory an address refers to. The rank is removed from the address.
BlockState* shared_block(const Warp& warp, u64 address) {
  const u64 rank = address >> kRankShift;
  if (rank == 0) return warp.home;
  const Cluster& cluster = *warp.home->cluster;
  return rank <= cluster.blocks.size() ? cluster.blocks[rank - 1].get() : nullptr;
}

bool load_or_store(Worker& worker, Warp& warp, const Inst& inst, u32 mask) {
  const Access& a = worker.program.accesses[inst.aux];
  mask &= a.lanes;
  const u8* addresses = warp.at(a.address);
  const auto* wide = a.address_bytes == 8 ? reinterpret_cast<const u64*>(addresses) : nullptr;
  const auto* narrow = a.address_bytes == 4 ? reinterpret_cast<const u32*>(addresses) : nullptr;
  switch (a.space) {
    case Space::kShared:
      return shared_access(worker, warp, inst, a, wide, narrow, mask);
    case Space::kLocal:
      return local_access(worker, warp, inst, a, wide, narrow, mask);
    case Space::kGeneric:
      if (wide == nullptr) break;
      return generic_access(worker, warp, inst, a, wide, mask);
    default:
      if (wide == nullptr) break;
      return global_access(worker, warp, inst, a, wide, mask);
  }
  return report(worker, warp, a.line, first_of(mask), "unsupported",
                "32-bit addresses of global memory are not supported");
}

bool atomic(Worker& worker, Warp& warp, const Inst& inst, u32 mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const int bytes = a.element_bytes, whole = a.bytes();
  AccessCounts& counts = worker.counts[inst.aux];
  ++worker.atomics;
  count_request(counts, mask, whole);
  SiteCache& site = worker.sites[inst.aux];
  u64 addresses[kLanes] = {};
  bool in_global = false;
  for (const int lane : Lanes{mask}) {
    u64 address = address_of_lane(warp, a, lane);
    if (a.space == Space::kShared) address = kSharedWindow | (address & 0xffffffffu);
    addresses[lane] = address;
    if ((address & (whole - 1)) != 0)
      return report(worker, warp, a.line, lane, "misaligned",
                    size_text(a, true) + " at " + hex(address));
    u8* memory = resolve(worker, warp, address, whole, lane);
    const auto in_shared = static_cast<s64>(address & ((1u << kRankShift) - 1));
    if (memory == nullptr || (address >> 48 == kSharedWindow >> 48 &&
                              (in_shared < a.first || in_shared + whole > a.last)))
      return address >> 48 == kSharedWindow >> 48
                 ? report_shared(worker, warp, a, lane, in_shared, true)
                 : report_bounds(worker, warp, a, lane, address, true);
    SiteCache one;  // this lane at offset 0
    one.offsets[lane] = 0;
    const bool reads = a.operation != AtomicOp::kExchange;
    const auto initialised = [&](std::vector<u8>& written, s64 at, const std::string& name,
                                 bool only_pending) {
      if (written.empty()) return true;
      if (reads && !check_initialised(worker, warp, a, one, 1u << lane, written.data(), at, name,
                                      only_pending))
        return false;
      std::memset(&written[static_cast<std::size_t>(at)], 1, static_cast<std::size_t>(whole));
      return true;
    };
    const Options& options = worker.launch.options;
    std::unique_lock<std::mutex> updates;
    if (address >> 48 == kSharedWindow >> 48) {
      BlockState* block = shared_block(warp, address & 0xffffffffu);
      const s64 zeros[kLanes] = {}, at = memory - block->shared.data();
      if (!initialised(block->written, at, "shared", !options.checks.shared_initcheck) ||
          !record_shared(worker, warp, *block, a, static_cast<int>(inst.aux), zeros,
                         Pattern::kScattered, at, 1u << lane, whole, true))
        return false;
    } else if (address >> 48 == 0) {
      in_global = true;
      Allocation* range = worker.launch.memory.find(address);
      const auto at = static_cast<s64>(address - range->begin);
      if (!range->writable)
        return report(worker, warp, a.line, lane, "read-only",
                      size_text(a, true) + " '" + range->name + "', which is read-only",
                      range->name, at);
      if (!initialised(range->written, at, range->name, !options.checks.initcheck)) return false;
      if (worker.launch.shadow != nullptr) {
        updates = lock_updates(worker, address);
        record_global(worker, warp, a, inst.aux, one.offsets, address, 1u << lane, whole, true);
      }
    }
    for (int k = 0; k < a.count; ++k, memory += bytes) {
      const bool vector = a.count > 1;
      const u64 operand = warp.value(vector ? a.data[k] : a.operand, lane, bytes);
      const u64 second = a.second == kNone ? 0 : warp.value(a.second, lane, bytes);
      const u64 old = apply(a, memory, operand, second);
      if (std::memcmp(memory, &old, static_cast<std::size_t>(bytes)) != 0) ++worker.changes;
      if (const u32 d = vector ? a.data[Access::kOldValues + k] : a.result; d != kNone)
        std::memcpy(warp.at(d) + static_cast<std::size_t>(lane) * bytes, &old,
                    static_cast<std::size_t>(bytes));
    }
    if (worker.launch.shadow != nullptr && address >> 48 == 0 && a.between_blocks &&
        a.uses_old_value())
      observe_global(worker, warp, one.offsets, address, 1u << lane, whole);
  }
  if (in_global) {
    analyse(site, addresses, mask, whole);
    counts.sectors += count_updates(addresses, mask);
    counts.ideal += count_sectors(site.offsets, addresses[first_of(mask)], mask, whole);
    for (const int lane : Lanes{mask})
      if (worker.atomic_addresses.size() < Counts::kManyAddresses)
        worker.atomic_addresses.insert(addresses[lane]);
  } else {
    s64 offsets[kLanes];
    std::copy(addresses, addresses + kLanes, offsets);
    const int apart = most_words_of_a_bank(offsets, 0, mask, whole);
    counts.wavefronts += a.counts_lanes ? apart : most_updates_of_a_bank(addresses, mask, whole);
    counts.ideal += whole > 4 ? 2 : 1;
  }
  ++warp.strong;
  return true;
}

u8* resolve(Worker& worker, Warp& warp, u64 address, int bytes, int lane) {
  const u64 window = address >> 48;
  if (window == kSharedWindow >> 48) {
    BlockState* block = shared_block(warp, address & 0xffffffffu);
    const u64 at = address & ((1u << kRankShift) - 1);
    return block != nullptr && at + bytes <= block->shared_size ? block->shared.data() + at
                                                                : nullptr;
  }
  if (window == kLocalWindow >> 48) {
    const u64 at = address & 0xffffffffu, size = worker.program.local_bytes;
    if (at + bytes > size) return nullptr;
    return warp.home->local.data() +
           (u64{static_cast<unsigned>(warp.index)} * kLanes + lane) * size + at;
  }
  const Allocation* range = worker.launch.memory.find(address);
  if (range == nullptr || !range->holds(address, static_cast<u64>(bytes))) return nullptr;
  return reinterpret_cast<u8*>(address);
}

bool copy_async(Worker& worker, Warp& warp, const Inst& inst, u32 mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const int bytes = a.element_bytes;
  ++worker.copies;
  const auto* sources = reinterpret_cast<const u64*>(warp.at(a.operand));
  PendingCopy copy{.mask = mask, .bytes = bytes, .access = static_cast<int>(inst.aux)};
  u32 reading = 0;
  SiteCache& site = worker.sites[inst.aux];
  for (const int lane : Lanes{mask}) {
    u64 count = static_cast<u64>(bytes);
    if (a.second != kNone)
      count = a.is_signed ? ((warp.predicate(a.second) >> lane) & 1 ? 0 : count)
                          : std::min(count, warp.value(a.second, lane, 4));
    copy.source_bytes[lane] = static_cast<u8>(count);
    if (count > 0) reading |= 1u << lane;
    copy.from[lane] = sources[lane] + static_cast<u64>(a.source_offset);
    const u64 to = address_of_lane(warp, a, lane) & 0xffffffffu;
    copy.to[lane] = static_cast<u32>(to);
    if (static_cast<s64>(to) < a.first ||
        static_cast<s64>(to) + bytes > std::min(a.last, static_cast<s64>(warp.home->shared_size)))
      return report_shared(worker, warp, a, lane, static_cast<s64>(to), true);
    if (((to | copy.from[lane]) & (bytes - 1)) != 0)
      return report(
          worker, warp, a.line, lane, "misaligned",
          "cp.async of " + std::to_string(bytes) + " bytes with an address that is not aligned");
  }
  if (reading != 0) {
    const u64 base = classify_global(worker, site, worker.copy_sources[inst.aux], sources,
                                     a.source_offset, reading, bytes);
    if (range_of(worker, site, base + site.low, base + site.high + bytes) == nullptr)
      for (const int lane : Lanes{reading}) {
        if (resolve(worker, warp, copy.from[lane], copy.source_bytes[lane], lane) == nullptr ||
            copy.from[lane] >> 48 != 0)
          return report_bounds(worker, warp, a, lane, copy.from[lane], false);
      }
    for (const int lane : Lanes{worker.launch.options.checks.initcheck ? reading : 0}) {
      const Allocation* range = worker.launch.memory.find(copy.from[lane]);
      if (range != nullptr && !range->written.empty() &&
          !check_lane_initialised(worker, warp, a, lane, range->written.data(),
                                  static_cast<s64>(copy.from[lane] - range->begin),
                                  copy.source_bytes[lane], range->name))
        return false;
    }
    for (const int lane : Lanes{worker.launch.shadow != nullptr ? reading : 0})
      record_global(worker, warp, a, inst.aux, site.offsets, base, 1u << lane,
                    copy.source_bytes[lane], false);
  }
  AccessCounts& counts = worker.counts[inst.aux];
  count_request(counts, mask, bytes);
  bool contiguous = mask == kAllLanes;
  s64 offsets[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    offsets[i] = copy.to[i];
    contiguous = contiguous && copy.to[i] == copy.to[0] + static_cast<u32>(i * bytes);
  }
  counts.wavefronts += contiguous ? bytes / 4 : count_wavefronts(offsets, 0, mask, bytes, true);
  counts.ideal += (std::popcount(mask) * bytes + 127) / 128;
  if (auto& written = warp.home->written; !written.empty())
    for (const int lane : Lanes{mask}) fill_bytes(&written[copy.to[lane]], 2, bytes);
  // Lanes of different groups are separate copies.
  while (mask != 0) {
    const s64 group = warp.commits[first_of(mask)];
    u32 same = 0;
    for (const int lane : Lanes{mask})
      if (warp.commits[lane] == group) same |= 1u << lane;
    copy.mask = same, copy.group = group;
    warp.copies.push_back(copy);
    mask &= ~same;
  }
  return true;
}

bool wait_copies(Worker& worker, Warp& warp, u32 mask, s64 pending) {
  BlockState& block = *warp.home;
  const bool all = pending == kNone;
  s64 newest = 0;  // the newest group for which any lane waits
  for (const int lane : Lanes{mask}) newest = std::max(newest, warp.commits[lane] - pending - 1);
  for (PendingCopy& copy : warp.copies) {
    if (!all && copy.group > newest) break;
    u32 ready = copy.mask & mask;
    for (const int lane : Lanes{ready}) {
      if (!all && copy.group >= warp.commits[lane] - pending) ready &= ~(1u << lane);
    }
    if (ready == 0) continue;
    const Access& a = worker.program.accesses[copy.access];
    s64 offsets[kLanes] = {};
    bool contiguous = ready == kAllLanes;
    for (const int lane : Lanes{ready}) {
      u8* to = block.shared.data() + copy.to[lane];
      const int count = copy.source_bytes[lane];
      const void* const from = reinterpret_cast<const void*>(copy.from[lane]);
      with_size(count, [&](auto size) { std::memcpy(to, from, size); });
      if (count < copy.bytes)
        std::memset(to + count, 0, static_cast<std::size_t>(copy.bytes - count));
      if (!block.written.empty()) fill_bytes(&block.written[copy.to[lane]], 1, copy.bytes);
      offsets[lane] = s64{copy.to[lane]} - copy.to[first_of(ready)];
      contiguous = contiguous && offsets[lane] == lane * copy.bytes;
    }
    if (!record_shared(worker, warp, block, a, copy.access, offsets,
                       contiguous ? Pattern::kContiguous : Pattern::kScattered,
                       copy.to[first_of(ready)], ready, copy.bytes, true))
      return false;
    copy.mask &= ~ready;
    ++worker.changes;
  }
  while (!warp.copies.empty() && warp.copies.front().mask == 0) warp.copies.pop_front();
  return true;
}

}  // namespace ado::emulator

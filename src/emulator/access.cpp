// Loads, stores, atomics and asynchronous copies: checks, counters and the transfer.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

constexpr std::int64_t kSectorBytes = 32;

int leader_of(std::uint32_t mask) { return std::countr_zero(mask); }

// Counts different numbers: at most two per lane.
class Different {
 public:
  void add(std::uint64_t number) {
    const std::uint64_t key = number + 1;  // 0: an empty slot
    std::size_t slot = key * 0x9e3779b97f4a7c15u >> (64 - kBits);
    while (slots_[slot] != 0 && slots_[slot] != key) slot = (slot + 1) % kSlots;
    count_ += slots_[slot] == 0;
    slots_[slot] = key;
  }
  int count() const { return count_; }

 private:
  static constexpr int kBits = 7, kSlots = 1 << kBits;
  std::uint64_t slots_[kSlots] = {};
  int count_ = 0;
};

// The number of different 32-byte sectors that the lanes access.
int count_sectors(const std::int64_t* offsets, std::uint64_t base, std::uint32_t mask, int bytes) {
  Different sectors;
  std::uint64_t last = ~std::uint64_t{0};
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const std::uint64_t first = base + static_cast<std::uint64_t>(offsets[leader_of(left)]);
    for (std::uint64_t s = first / kSectorBytes; s <= (first + bytes - 1) / kSectorBytes; ++s)
      if (s != last) sectors.add(last = s);
  }
  return sectors.count();
}

// The number of different bytes that the lanes access, at aligned addresses.
int count_unique(const std::int64_t* offsets, std::uint32_t mask, int bytes) {
  Different addresses;
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    addresses.add(static_cast<std::uint64_t>(offsets[leader_of(left)]));
  return addresses.count() * bytes;
}

// The largest number of different words that the lanes access in one bank. A bank returns one word
// per wavefront, to all lanes that access it.
int most_words_of_a_bank(const std::int64_t* offsets, std::int64_t base, std::uint32_t mask,
                         int bytes) {
  constexpr int kBanks = 32;
  std::int64_t seen[kBanks][kLanes];
  int per_bank[kBanks] = {}, most = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    for (int w = 0; w < std::max(bytes / 4, 1); ++w) {
      const std::int64_t word = (base + offsets[leader_of(left)]) / 4 + w;
      const auto bank = static_cast<int>(word & (kBanks - 1));
      std::int64_t* const end = seen[bank] + per_bank[bank];
      if (std::find(seen[bank], end, word) != end) continue;
      *end = word;
      most = std::max(most, ++per_bank[bank]);
    }
  return most;
}

// The number of wavefronts of an access. All lanes are served together if each accesses up to 4
// bytes. Otherwise, groups of 16 lanes of 8 bytes, or of 8 lanes of 16 bytes, are served one after
// another. Two neighbouring groups of a load are served together if each lane i has the same
// address as lane i ^ 1, or each lane i has the same address as lane i ^ 2. This rule reproduces
// counters of an H100 (tests/data/emulator/counters.json).
int count_wavefronts(const std::int64_t* offsets, std::int64_t base, std::uint32_t mask, int bytes,
                     bool store) {
  const auto paired = [&](std::uint32_t lanes, int distance) {
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
      const int lane = leader_of(left), other = lane ^ distance;
      if (!((lanes >> other) & 1) || offsets[lane] != offsets[other]) return false;
    }
    return true;
  };
  if (bytes <= 4) return most_words_of_a_bank(offsets, base, mask, bytes);
  const int group = bytes == 8 ? 16 : 8;
  int total = 0;
  for (int first = 0; first < kLanes; first += 2 * group) {
    const std::uint32_t lower = ((1u << group) - 1) << first;
    const std::uint32_t both = mask & (lower | lower << group);
    if (!store && (paired(both, 1) || paired(both, 2)))
      total += most_words_of_a_bank(offsets, base, both, bytes);
    else
      total += most_words_of_a_bank(offsets, base, mask & lower, bytes) +
               most_words_of_a_bank(offsets, base, mask & (lower << group), bytes);
  }
  return total;
}

// Brings the cache up to date with the lanes' addresses. `addresses` are 64 bits wide.
void analyse(SiteCache& site, const std::uint64_t* addresses, std::uint32_t mask, int bytes) {
  const int leader = leader_of(mask);
  site.mask = mask;
  site.phase = ~0u;
  site.low = site.high = 0;
  bool contiguous = mask == kAllLanes, uniform = true;
  for (int i = 0; i < kLanes; ++i) {
    if (!((mask >> i) & 1)) {
      site.offsets[i] = 0;
      continue;
    }
    const auto offset = static_cast<std::int64_t>(addresses[i] - addresses[leader]);
    site.offsets[i] = offset;
    site.low = std::min(site.low, offset);
    site.high = std::max(site.high, offset);
    contiguous = contiguous && offset == i * bytes;
    uniform = uniform && offset == 0;
  }
  site.pattern = contiguous ? Pattern::kContiguous
                 : uniform  ? Pattern::kUniform
                            : Pattern::kScattered;
}

bool misaligned(const SiteCache& site, std::uint64_t base, int bytes) {
  if ((base & (bytes - 1)) != 0) return true;
  if (site.pattern != Pattern::kScattered) return false;
  std::int64_t bits = 0;
  for (const std::int64_t offset : site.offsets) bits |= offset;
  return (bits & (bytes - 1)) != 0;
}

template <class Fault>
int first_lane(const SiteCache& site, std::uint32_t mask, const Fault& fault) {
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    if (fault(site.offsets[leader_of(left)])) return leader_of(left);
  return leader_of(mask);
}

std::string size_text(const Access& a, bool write) {
  return std::string(a.atomic ? "atomic operation on "
                     : write  ? "store of "
                              : "load of ") +
         std::to_string(a.bytes()) + " bytes";
}
std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// The range that contains the addresses [base + low, base + high + bytes), or nullptr.
Allocation* range_of(Worker& worker, SiteCache& site, std::uint64_t low, std::uint64_t end) {
  Allocation* range = site.allocation;
  if (range != nullptr && low >= range->begin && end <= range->end) return range;
  range = worker.launch.memory.find(low);
  if (range == nullptr || low < range->begin || end > range->end) return nullptr;
  return site.allocation = range;
}

bool global_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                   const std::uint64_t* addresses, std::uint32_t mask);

// Lanes that access different ranges are handled one after another, and counted as one request.
bool global_by_lane(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                    const std::uint64_t* addresses, std::uint32_t mask, int sectors) {
  AccessCounts& counts = worker.counts[inst.aux];
  const AccessCounts before = counts;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = leader_of(left);
    const std::uint64_t address = addresses[lane] + static_cast<std::uint64_t>(a.offset);
    const Allocation* range = worker.launch.memory.find(address);
    if (range == nullptr || address + a.bytes() > range->end)
      return report_bounds(worker, warp, a, lane, address, a.store);
    if (!global_access(worker, warp, inst, a, addresses, 1u << lane)) return false;
  }
  counts.requests = before.requests + 1;
  counts.sectors = before.sectors + sectors;
  return true;
}

bool check_initialised(Worker& worker, const Warp& warp, const Access& a, const SiteCache& site,
                       std::uint32_t mask, const std::uint8_t* written, std::int64_t base,
                       const std::string& name, bool only_pending = false) {
  const int bytes = a.bytes();
  const auto valid = [&](std::int64_t at, std::int64_t count) {
    std::uint64_t difference = 0;
    for (; count >= 8; at += 8, count -= 8) {
      std::uint64_t eight;
      std::memcpy(&eight, written + at, sizeof eight);
      difference |= eight ^ 0x0101010101010101u;
    }
    for (; count > 0; ++at, --count) difference |= written[at] ^ 1u;
    return difference == 0;
  };
  if (site.pattern == Pattern::kContiguous && mask == kAllLanes &&
      valid(base, std::int64_t{bytes} * kLanes))
    return true;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = leader_of(left);
    const std::int64_t at = base + site.offsets[lane];
    if (valid(at, bytes)) {
      if (site.pattern == Pattern::kUniform) return true;
      continue;
    }
    for (int i = 0; i < bytes; ++i) {
      if (written[at + i] == 1 || (only_pending && written[at + i] == 0)) continue;
      const bool pending = written[at + i] == 2;
      return report(worker, warp, a.line, lane, pending ? "missing wait" : "uninitialised",
                    size_text(a, false) + " at byte " + std::to_string(at + i) + " of '" + name +
                        "', " +
                        (pending ? "which is written by a cp.async that was not waited for"
                                 : "which nothing has written"),
                    name, at + i);
    }
  }
  return true;
}

// memset with constant sizes, which the compiler turns into stores.
void fill_bytes(std::uint8_t* at, std::uint8_t value, int bytes) {
  switch (bytes) {
    case 1:
      *at = value;
      break;
    case 4:
      std::memset(at, value, 4);
      break;
    case 8:
      std::memset(at, value, 8);
      break;
    case 16:
      std::memset(at, value, 16);
      break;
    default:
      std::memset(at, value, static_cast<std::size_t>(bytes));
  }
}

void mark_written(std::uint8_t* written, const SiteCache& site, std::uint32_t mask,
                  std::int64_t base, int bytes) {
  if (site.pattern == Pattern::kContiguous && mask == kAllLanes) {
    std::memset(written + base, 1, static_cast<std::size_t>(bytes) * kLanes);
    return;
  }
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    fill_bytes(written + base + site.offsets[leader_of(left)], 1, bytes);
}

void transfer(Warp& warp, const Access& a, const SiteCache& site, std::uint8_t* base,
              std::uint32_t mask) {
  void* registers[8];
  for (int k = 0; k < a.count; ++k) registers[k] = warp.at(a.data[k]);
  a.move(base, site.offsets, site.pattern, mask, registers, a.count);
}

// Updates the cache of an access to global memory and counts it. Returns the first address.
std::uint64_t classify_global(Worker& worker, SiteCache& site, AccessCounts& counts,
                              const std::uint64_t* addresses, std::int64_t offset,
                              std::uint32_t mask, int bytes) {
  const int leader = leader_of(mask);
  const bool known =
      site.mask == mask && worker.launch.functions.matches64(addresses, site.offsets, leader, mask);
  if (!known) analyse(site, addresses, mask, bytes);
  const std::uint64_t base = addresses[leader] + static_cast<std::uint64_t>(offset);
  const auto phase = static_cast<std::uint32_t>(base & (kSectorBytes - 1));
  if (site.phase != phase) {
    site.phase = phase;
    site.cost = count_sectors(site.offsets, base, mask, bytes);
    site.unique = site.pattern == Pattern::kUniform      ? bytes
                  : site.pattern == Pattern::kContiguous ? kLanes * bytes
                                                         : count_unique(site.offsets, mask, bytes);
    site.ideal = (site.unique + 31) / 32;
  }
  ++counts.requests;
  counts.sectors += site.cost;
  counts.ideal += site.ideal;
  counts.unique += site.unique;
  counts.lanes += std::popcount(mask);
  counts.bytes += std::int64_t{std::popcount(mask)} * bytes;
  return base;
}

bool global_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                   const std::uint64_t* addresses, std::uint32_t mask) {
  SiteCache& site = worker.sites[inst.aux];
  const int bytes = a.bytes();
  const std::uint64_t base =
      classify_global(worker, site, worker.counts[inst.aux], addresses, a.offset, mask, bytes);
  Allocation* range = range_of(worker, site, base + site.low, base + site.high + bytes);
  if (range == nullptr) {
    if ((mask & (mask - 1)) == 0)
      return report_bounds(worker, warp, a, leader_of(mask), base, a.store);
    return global_by_lane(worker, warp, inst, a, addresses, mask, site.cost);
  }
  if (misaligned(site, base, bytes)) {
    const int lane =
        first_lane(site, mask, [&](std::int64_t o) { return ((base + o) & (bytes - 1)) != 0; });
    const std::uint64_t address = base + static_cast<std::uint64_t>(site.offsets[lane]);
    return report(worker, warp, a.line, lane, "misaligned",
                  size_text(a, a.store) + " at " + hex(address) + ", which is not aligned",
                  range->name, static_cast<std::int64_t>(address - range->begin));
  }
  if (a.store) {
    if (!range->writable)
      return report(worker, warp, a.line, leader_of(mask), "read-only",
                    size_text(a, true) + " to '" + range->name + "', which is read-only",
                    range->name, static_cast<std::int64_t>(base - range->begin));
    if (!range->written.empty())
      mark_written(range->written.data(), site, mask,
                   static_cast<std::int64_t>(base - range->begin), bytes);
    ++worker.changes;
  } else {
    if (!range->written.empty() && worker.launch.options.initcheck &&
        !check_initialised(worker, warp, a, site, mask, range->written.data(),
                           static_cast<std::int64_t>(base - range->begin), range->name))
      return false;
    if (a.strong) ++warp.strong, warp.polled = 0;
  }
  // Other workers may access this memory. x86-64 orders its loads and stores, 64-bit Arm does not.
  if (a.strong && a.store) std::atomic_thread_fence(std::memory_order_release);
  transfer(warp, a, site, reinterpret_cast<std::uint8_t*>(base), mask);
  if (a.strong && !a.store) std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

bool shared_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                   const std::uint64_t* wide, const std::uint32_t* narrow, std::uint32_t mask) {
  SiteCache& site = worker.sites[inst.aux];
  const int leader = leader_of(mask), bytes = a.bytes();
  const LaneFunctions& f = worker.launch.functions;
  const bool known =
      site.mask == mask && (narrow != nullptr ? f.matches32(narrow, site.offsets, leader, mask)
                                              : f.matches64(wide, site.offsets, leader, mask));
  if (!known) {
    std::uint64_t addresses[kLanes];
    for (int i = 0; i < kLanes; ++i) addresses[i] = narrow != nullptr ? narrow[i] : wide[i];
    analyse(site, addresses, mask, bytes);
  }
  const std::uint64_t first = narrow != nullptr ? narrow[leader] : wide[leader];
  const std::uint64_t address = (first + static_cast<std::uint64_t>(a.offset)) & 0xffffffffu;
  const auto base = static_cast<std::int64_t>(address & ((1u << kRankShift) - 1));
  const auto phase = static_cast<std::uint32_t>(base & 3);
  if (site.phase != phase) {
    site.phase = phase;
    site.cost = count_wavefronts(site.offsets, base, mask, bytes, a.store);
    site.ideal = std::min(site.cost, (std::popcount(mask) * bytes + 127) / 128);
  }
  BlockState* block = shared_block(warp, address);
  const auto outside = [&](std::int64_t offset) {
    return block == nullptr || base + offset < 0 ||
           base + offset + bytes > static_cast<std::int64_t>(block->shared_size);
  };
  if (outside(site.low) || outside(site.high)) {
    if (site.low != site.high && (mask & (mask - 1)) != 0 &&
        warp.home->cluster->blocks.size() > 1) {
      // Perhaps the lanes access different blocks of the cluster.
      for (std::uint32_t left = mask; left != 0; left &= left - 1)
        if (!shared_access(worker, warp, inst, a, wide, narrow, left & -left)) return false;
      return true;
    }
    const int lane = first_lane(site, mask, outside);
    const std::int64_t byte = base + site.offsets[lane];
    return report(worker, warp, a.line, lane, "out of bounds",
                  size_text(a, a.store) + " at byte " + std::to_string(byte) +
                      " of shared memory, which has " + std::to_string(warp.home->shared_size) +
                      " bytes",
                  "shared", byte);
  }
  if (misaligned(site, static_cast<std::uint64_t>(base), bytes)) {
    const int lane =
        first_lane(site, mask, [&](std::int64_t o) { return ((base + o) & (bytes - 1)) != 0; });
    return report(worker, warp, a.line, lane, "misaligned",
                  size_text(a, a.store) + " at byte " + std::to_string(base + site.offsets[lane]) +
                      " of shared memory, which is not aligned",
                  "shared", base + site.offsets[lane]);
  }
  AccessCounts& counts = worker.counts[inst.aux];
  ++counts.requests;
  counts.wavefronts += site.cost;
  counts.ideal += site.ideal;
  counts.lanes += std::popcount(mask);
  counts.bytes += std::int64_t{std::popcount(mask)} * bytes;
  if (!block->written.empty()) {
    if (a.store)
      mark_written(block->written.data(), site, mask, base, bytes);
    else if (!check_initialised(worker, warp, a, site, mask, block->written.data(), base, "shared",
                                !worker.launch.options.shared_initcheck))
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

// Local memory: one range per lane.
bool local_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                  const std::uint64_t* wide, const std::uint32_t* narrow, std::uint32_t mask) {
  const auto size = static_cast<std::int64_t>(worker.program.local_bytes);
  SiteCache& site = worker.sites[inst.aux];
  site.mask = 0;
  site.pattern = Pattern::kScattered;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = leader_of(left);
    const auto address =
        static_cast<std::int64_t>(narrow != nullptr ? narrow[lane] : wide[lane]) + a.offset;
    if (address < 0 || address + a.bytes() > size)
      return report(worker, warp, a.line, lane, "out of bounds",
                    size_text(a, a.store) + " at byte " + std::to_string(address) +
                        " of local memory, which has " + std::to_string(size) + " bytes",
                    "local", address);
    if ((address & (a.bytes() - 1)) != 0)
      return report(worker, warp, a.line, lane, "misaligned",
                    size_text(a, a.store) + " in local memory", "local", address);
    site.offsets[lane] = (std::int64_t{warp.index} * kLanes + lane) * size + address;
  }
  AccessCounts& counts = worker.counts[inst.aux];
  ++counts.requests;
  counts.lanes += std::popcount(mask);
  counts.bytes += std::int64_t{std::popcount(mask)} * a.bytes();
  transfer(warp, a, site, warp.home->local.data(), mask);
  return true;
}

// Generic addresses: the window decides, per lane.
bool generic_access(Worker& worker, Warp& warp, const Inst& inst, const Access& a,
                    const std::uint64_t* addresses, std::uint32_t mask) {
  std::uint32_t shared = 0, local = 0;
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t window = (addresses[i] + static_cast<std::uint64_t>(a.offset)) >> 48;
    shared |= static_cast<std::uint32_t>(window == kSharedWindow >> 48) << i;
    local |= static_cast<std::uint32_t>(window == kLocalWindow >> 48) << i;
  }
  shared &= mask, local &= mask;
  const std::uint32_t global = mask & ~shared & ~local;
  if (global != 0 && !global_access(worker, warp, inst, a, addresses, global)) return false;
  std::uint64_t relative[kLanes];
  for (int i = 0; i < kLanes; ++i) relative[i] = addresses[i] & 0xffffffffffffu;
  if (shared != 0 && !shared_access(worker, warp, inst, a, relative, nullptr, shared)) return false;
  return local == 0 || local_access(worker, warp, inst, a, relative, nullptr, local);
}

template <class T>
T combine(const Access& a, T old, T operand, T second) {
  switch (a.operation) {
    case AtomicOp::kAdd:
      return static_cast<T>(old + operand);
    case AtomicOp::kMin:
      return old < operand ? old : operand;
    case AtomicOp::kMax:
      return old > operand ? old : operand;
    case AtomicOp::kExchange:
      return operand;
    case AtomicOp::kCompare:
      return old == operand ? second : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (a.operation) {
      case AtomicOp::kAnd:
        return old & operand;
      case AtomicOp::kOr:
        return old | operand;
      case AtomicOp::kXor:
        return old ^ operand;
      case AtomicOp::kIncrement:
        return old >= operand ? 0 : old + 1;
      case AtomicOp::kDecrement:
        return old == 0 || old > operand ? operand : old - 1;
      default:
        break;
    }
  }
  return old;
}

// Applies combine() atomically to the bits of a T in memory, because other workers may change them.
template <class T, class Bits>
Bits exchange(const Access& a, void* memory, Bits operand, Bits second) {
  auto* at = static_cast<Bits*>(memory);
  Bits old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
  for (;;) {
    const Bits wanted = std::bit_cast<Bits>(
        combine(a, std::bit_cast<T>(old), std::bit_cast<T>(operand), std::bit_cast<T>(second)));
    if (wanted == old ||
        __atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
      return old;
  }
}

// The same for 16-bit floats. `combine` works on all lanes; the first one is used.
template <class Bits>
Bits exchange_halves(const Access& a, void* memory, Bits operand) {
  auto* at = static_cast<Bits*>(memory);
  alignas(64) Bits olds[kLanes] = {}, operands[kLanes] = {operand}, wanted[kLanes];
  olds[0] = __atomic_load_n(at, __ATOMIC_RELAXED);
  for (;;) {
    a.combine(wanted, olds, operands, nullptr);
    if (__atomic_compare_exchange_n(at, &olds[0], wanted[0], false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED))
      return olds[0];
  }
}

std::uint64_t apply(const Access& a, void* memory, std::uint64_t operand, std::uint64_t second) {
  if (a.combine != nullptr && a.element_bytes == 2)
    return exchange_halves(a, memory, static_cast<std::uint16_t>(operand));
  if (a.combine != nullptr) return exchange_halves(a, memory, static_cast<std::uint32_t>(operand));
  const bool logic = a.operation == AtomicOp::kCompare || a.operation == AtomicOp::kExchange;
  if (a.element_bytes == 2)
    return exchange<std::uint16_t, std::uint16_t>(a, memory, static_cast<std::uint16_t>(operand),
                                                  static_cast<std::uint16_t>(second));
  if (a.element_bytes == 4) {
    const auto x = static_cast<std::uint32_t>(operand), y = static_cast<std::uint32_t>(second);
    if (a.is_float && !logic) return exchange<float, std::uint32_t>(a, memory, x, y);
    if (a.is_signed) return exchange<std::int32_t, std::uint32_t>(a, memory, x, y);
    return exchange<std::uint32_t, std::uint32_t>(a, memory, x, y);
  }
  if (a.is_float && !logic) return exchange<double, std::uint64_t>(a, memory, operand, second);
  if (a.is_signed) return exchange<std::int64_t, std::uint64_t>(a, memory, operand, second);
  return exchange<std::uint64_t, std::uint64_t>(a, memory, operand, second);
}

std::uint64_t lane_value(const Warp& warp, std::uint32_t r, int lane, int bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, warp.at(r) + static_cast<std::size_t>(lane) * bytes,
              static_cast<std::size_t>(bytes));
  return value;
}

std::uint64_t address_of_lane(const Warp& warp, const Access& a, int lane) {
  return lane_value(warp, a.address, lane, a.address_bytes) + static_cast<std::uint64_t>(a.offset);
}

}  // namespace

bool report_bounds(Worker& worker, const Warp& warp, const Access& a, int lane,
                   std::uint64_t address, bool write) {
  const Allocation* near = worker.launch.memory.find(address);
  if (near == nullptr || address - near->end > (std::uint64_t{1} << 32))
    return report(worker, warp, a.line, lane, "out of bounds",
                  size_text(a, write) + " at " + hex(address) + ", which is in no array");
  const auto byte = static_cast<std::int64_t>(address - near->begin);
  return report(worker, warp, a.line, lane, "out of bounds",
                size_text(a, write) + " at byte " + std::to_string(byte) + " of '" + near->name +
                    "', which has " + std::to_string(near->end - near->begin) + " bytes",
                near->name, byte);
}

// The block whose shared memory an address refers to. The rank is removed from the address.
BlockState* shared_block(Warp& warp, std::uint64_t address) {
  const std::uint64_t rank = address >> kRankShift;
  if (rank == 0) return warp.home;
  const Cluster& cluster = *warp.home->cluster;
  return rank <= cluster.blocks.size() ? cluster.blocks[rank - 1].get() : nullptr;
}

bool load_or_store(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const std::uint8_t* addresses = warp.at(a.address);
  const auto* wide =
      a.address_bytes == 8 ? reinterpret_cast<const std::uint64_t*>(addresses) : nullptr;
  const auto* narrow =
      a.address_bytes == 4 ? reinterpret_cast<const std::uint32_t*>(addresses) : nullptr;
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
  return report(worker, warp, a.line, leader_of(mask), "unsupported",
                "32-bit addresses of global memory are not supported");
}

bool atomic(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const int bytes = a.element_bytes, whole = a.bytes();
  AccessCounts& counts = worker.counts[inst.aux];
  ++worker.atomics;
  ++counts.requests;
  counts.lanes += std::popcount(mask);
  counts.bytes += std::int64_t{std::popcount(mask)} * a.bytes();
  SiteCache& site = worker.sites[inst.aux];
  std::uint64_t addresses[kLanes] = {};
  bool in_global = false;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = leader_of(left);
    std::uint64_t address = address_of_lane(warp, a, lane);
    if (a.space == Space::kShared) address = kSharedWindow | (address & 0xffffffffu);
    addresses[lane] = address;
    if ((address & (whole - 1)) != 0)
      return report(worker, warp, a.line, lane, "misaligned",
                    size_text(a, true) + " at " + hex(address));
    std::uint8_t* memory = resolve(worker, warp, address, whole, lane);
    if (memory == nullptr) {
      if (address >> 48 == 0) return report_bounds(worker, warp, a, lane, address, true);
      return report(worker, warp, a.line, lane, "out of bounds",
                    size_text(a, true) + " outside shared or local memory", "shared",
                    static_cast<std::int64_t>(address & 0xffffffff));
    }
    if (address >> 48 == kSharedWindow >> 48) {
      BlockState* block = shared_block(warp, address & 0xffffffffu);
      const std::int64_t zeros[kLanes] = {};
      const std::int64_t at = memory - block->shared.data();
      if (!block->written.empty()) {
        SiteCache one;
        one.offsets[lane] = 0;
        if (a.operation != AtomicOp::kExchange &&
            !check_initialised(worker, warp, a, one, 1u << lane, block->written.data(), at,
                               "shared", !worker.launch.options.shared_initcheck))
          return false;
        std::memset(&block->written[at], 1, static_cast<std::size_t>(whole));
      }
      if (!record_shared(worker, warp, *block, a, static_cast<int>(inst.aux), zeros,
                         Pattern::kScattered, at, 1u << lane, whole, true))
        return false;
    } else if (address >> 48 == 0) {
      in_global = true;
      Allocation* range = worker.launch.memory.find(address);
      if (!range->writable)
        return report(worker, warp, a.line, lane, "read-only",
                      size_text(a, true) + " '" + range->name + "', which is read-only",
                      range->name, static_cast<std::int64_t>(address - range->begin));
      if (!range->written.empty()) {
        const std::size_t at = address - range->begin;
        if (worker.launch.options.initcheck && a.operation != AtomicOp::kExchange &&
            range->written[at] == 0)
          return report(worker, warp, a.line, lane, "uninitialised",
                        size_text(a, true) + " at byte " + std::to_string(at) + " of '" +
                            range->name + "', which nothing has written",
                        range->name, static_cast<std::int64_t>(at));
        std::memset(&range->written[at], 1, static_cast<std::size_t>(whole));
      }
    }
    for (int k = 0; k < a.count; ++k, memory += bytes) {
      const bool vector = a.count > 1;
      const std::uint64_t operand = lane_value(warp, vector ? a.data[k] : a.operand, lane, bytes);
      const std::uint64_t second = a.second == kNone ? 0 : lane_value(warp, a.second, lane, bytes);
      const std::uint64_t old = apply(a, memory, operand, second);
      if (std::memcmp(memory, &old, static_cast<std::size_t>(bytes)) != 0) ++worker.changes;
      if (const std::uint32_t d = vector ? a.data[Access::kOldValues + k] : a.result; d != kNone)
        std::memcpy(warp.at(d) + static_cast<std::size_t>(lane) * bytes, &old,
                    static_cast<std::size_t>(bytes));
    }
  }
  if (in_global) {
    analyse(site, addresses, mask, whole);
    counts.sectors += count_sectors(site.offsets, addresses[leader_of(mask)], mask, whole);
  }
  ++warp.strong;
  return true;
}

std::uint8_t* resolve(Worker& worker, Warp& warp, std::uint64_t address, int bytes, int lane) {
  const std::uint64_t window = address >> 48;
  if (window == kSharedWindow >> 48) {
    BlockState* block = shared_block(warp, address & 0xffffffffu);
    const std::uint64_t at = address & ((1u << kRankShift) - 1);
    return block != nullptr && at + bytes <= block->shared_size ? block->shared.data() + at
                                                                : nullptr;
  }
  if (window == kLocalWindow >> 48) {
    const std::uint64_t at = address & 0xffffffffu, size = worker.program.local_bytes;
    if (at + bytes > size) return nullptr;
    return warp.home->local.data() +
           (std::uint64_t{static_cast<unsigned>(warp.index)} * kLanes + lane) * size + at;
  }
  const Allocation* range = worker.launch.memory.find(address);
  if (range == nullptr || address + bytes > range->end) return nullptr;
  return reinterpret_cast<std::uint8_t*>(address);
}

bool copy_async(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask) {
  const Access& a = worker.program.accesses[inst.aux];
  const int bytes = a.element_bytes;
  ++worker.copies;
  const auto* sources = reinterpret_cast<const std::uint64_t*>(warp.at(a.operand));
  PendingCopy copy{.mask = mask,
                   .group = 0,
                   .bytes = bytes,
                   .access = static_cast<int>(inst.aux),
                   .to = {},
                   .from = {},
                   .source_bytes = {}};
  std::uint32_t reading = 0;
  SiteCache& site = worker.sites[inst.aux];
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = leader_of(left);
    std::uint64_t count = static_cast<std::uint64_t>(bytes);
    if (a.second != kNone)
      count = a.is_signed ? ((warp.predicate(a.second) >> lane) & 1 ? 0 : count)
                          : std::min(count, lane_value(warp, a.second, lane, 4));
    copy.source_bytes[lane] = static_cast<std::uint8_t>(count);
    if (count > 0) reading |= 1u << lane;
    copy.from[lane] = sources[lane] + static_cast<std::uint64_t>(a.source_offset);
    const std::uint64_t to = address_of_lane(warp, a, lane) & 0xffffffffu;
    copy.to[lane] = static_cast<std::uint32_t>(to);
    if (to + bytes > warp.home->shared_size)
      return report(worker, warp, a.line, lane, "out of bounds",
                    "cp.async of " + std::to_string(bytes) + " bytes to byte " +
                        std::to_string(to) + " of shared memory, which has " +
                        std::to_string(warp.home->shared_size) + " bytes",
                    "shared", static_cast<std::int64_t>(to));
    if (((to | copy.from[lane]) & (bytes - 1)) != 0)
      return report(
          worker, warp, a.line, lane, "misaligned",
          "cp.async of " + std::to_string(bytes) + " bytes with an address that is not aligned");
  }
  if (reading != 0) {
    const std::uint64_t base = classify_global(worker, site, worker.copy_sources[inst.aux], sources,
                                               a.source_offset, reading, bytes);
    if (range_of(worker, site, base + site.low, base + site.high + bytes) == nullptr)
      for (std::uint32_t left = reading; left != 0; left &= left - 1) {
        const int lane = leader_of(left);
        if (resolve(worker, warp, copy.from[lane], copy.source_bytes[lane], lane) == nullptr ||
            copy.from[lane] >> 48 != 0)
          return report_bounds(worker, warp, a, lane, copy.from[lane], false);
      }
    const Allocation* range = site.allocation;
    if (worker.launch.options.initcheck && range != nullptr && !range->written.empty() &&
        base >= range->begin && base < range->end &&
        !check_initialised(worker, warp, a, site, reading, range->written.data(),
                           static_cast<std::int64_t>(base - range->begin), range->name))
      return false;
  }
  AccessCounts& counts = worker.counts[inst.aux];
  ++counts.requests;
  counts.lanes += std::popcount(mask);
  counts.bytes += std::int64_t{std::popcount(mask)} * bytes;
  bool contiguous = mask == kAllLanes;
  std::int64_t offsets[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    offsets[i] = copy.to[i];
    contiguous = contiguous && copy.to[i] == copy.to[0] + static_cast<std::uint32_t>(i * bytes);
  }
  counts.wavefronts += contiguous ? bytes / 4 : count_wavefronts(offsets, 0, mask, bytes, true);
  counts.ideal += (std::popcount(mask) * bytes + 127) / 128;
  if (auto& written = warp.home->written; !written.empty())
    for (std::uint32_t left = mask; left != 0; left &= left - 1)
      fill_bytes(&written[copy.to[leader_of(left)]], 2, bytes);
  // Lanes of different groups are separate copies.
  while (mask != 0) {
    const std::int64_t group = warp.commits[leader_of(mask)];
    std::uint32_t same = 0;
    for (std::uint32_t left = mask; left != 0; left &= left - 1)
      if (warp.commits[leader_of(left)] == group) same |= left & -left;
    copy.mask = same, copy.group = group;
    warp.copies.push_back(copy);
    mask &= ~same;
  }
  return true;
}

bool wait_copies(Worker& worker, Warp& warp, std::uint32_t mask, std::int64_t pending) {
  BlockState& block = *warp.home;
  const bool all = pending == kNone;
  std::int64_t newest = 0;  // the newest group for which any lane waits
  for (std::uint32_t left = mask; left != 0; left &= left - 1)
    newest = std::max(newest, warp.commits[leader_of(left)] - pending - 1);
  for (PendingCopy& copy : warp.copies) {
    if (!all && copy.group > newest) break;
    std::uint32_t ready = copy.mask & mask;
    for (std::uint32_t left = ready; left != 0; left &= left - 1) {
      const int lane = leader_of(left);
      if (!all && copy.group >= warp.commits[lane] - pending) ready &= ~(1u << lane);
    }
    if (ready == 0) continue;
    const Access& a = worker.program.accesses[copy.access];
    std::int64_t offsets[kLanes] = {};
    bool contiguous = ready == kAllLanes;
    for (std::uint32_t left = ready; left != 0; left &= left - 1) {
      const int lane = leader_of(left);
      std::uint8_t* to = block.shared.data() + copy.to[lane];
      const int count = copy.source_bytes[lane];
      const void* const from = reinterpret_cast<const void*>(copy.from[lane]);
      if (count == 16) {  // constant sizes become loads and stores
        std::memcpy(to, from, 16);
      } else if (count == 8) {
        std::memcpy(to, from, 8);
      } else if (count == 4) {
        std::memcpy(to, from, 4);
      } else {
        std::memcpy(to, from, static_cast<std::size_t>(count));
      }
      if (count < copy.bytes)
        std::memset(to + count, 0, static_cast<std::size_t>(copy.bytes - count));
      if (!block.written.empty()) fill_bytes(&block.written[copy.to[lane]], 1, copy.bytes);
      offsets[lane] = std::int64_t{copy.to[lane]} - copy.to[leader_of(ready)];
      contiguous = contiguous && offsets[lane] == lane * copy.bytes;
    }
    if (!record_shared(worker, warp, block, a, copy.access, offsets,
                       contiguous ? Pattern::kContiguous : Pattern::kScattered,
                       copy.to[leader_of(ready)], ready, copy.bytes, true))
      return false;
    copy.mask &= ~ready;
    ++worker.changes;
  }
  while (!warp.copies.empty() && warp.copies.front().mask == 0) warp.copies.pop_front();
  return true;
}

}  // namespace ado::emulator

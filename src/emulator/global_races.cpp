// Races in global memory: blocks of two clusters access a byte, at least one block writes, and
// nothing orders the accesses.
//
// Each cluster has a clock (Order). A fence followed by a strong store or an atomic operation
// releases: it stores the cluster's clock at the address. A strong load or an atomic operation
// whose old value is used observes the clock at its address. The warp knows it, so that accesses
// are ordered, after the next fence. The other warps know it after the next barrier. The shadow
// memory holds the last writers and readers of each byte. Unordered accesses conflict in any order
// of execution.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

using Entry = ShadowPage::Entry;
constexpr u64 kPageBytes = u64{1} << ShadowPage::kBits;
constexpr u32 kLastEpoch = (1u << Touch::kEpochBits) - 1;

// --- Clocks --------------------------------------------------------------------------------------

Epochs joined(const Epochs& a, const Epochs& b) {
  if (b == nullptr || a == b) return a;
  if (a == nullptr) return b;
  auto node = std::make_shared<EpochNode>();
  bool is_a = true, is_b = true;
  for (int i = 0; i < EpochNode::kChildren; ++i) {
    node->children[i] = joined(a->children[i], b->children[i]);
    node->epochs[i] = std::max(a->epochs[i], b->epochs[i]);
    is_a = is_a && node->children[i] == a->children[i] && node->epochs[i] == a->epochs[i];
    is_b = is_b && node->children[i] == b->children[i] && node->epochs[i] == b->epochs[i];
  }
  return is_a ? a : is_b ? b : node;
}

Epochs with_epoch(const Epochs& clock, u64 cluster, u32 epoch, int bits) {
  auto node =
      clock == nullptr ? std::make_shared<EpochNode>() : std::make_shared<EpochNode>(*clock);
  const u64 child = cluster >> bits & (EpochNode::kChildren - 1);
  if (bits == 0)
    node->epochs[child] = static_cast<u16>(epoch);
  else
    node->children[child] =
        with_epoch(node->children[child], cluster, epoch, bits - EpochNode::kBits);
  return node;
}

u32 epoch_of(const EpochNode* node, u64 cluster, int bits) {
  for (; node != nullptr; bits -= EpochNode::kBits) {
    const u64 child = cluster >> bits & (EpochNode::kChildren - 1);
    if (bits == 0) return node->epochs[child];
    node = node->children[child].get();
  }
  return 0;
}

// --- Shadow memory -------------------------------------------------------------------------------

ShadowPage& page_at(Worker& worker, u64 address) {
  const u64 number = address >> ShadowPage::kBits;
  auto& [known, page] = worker.pages[number % worker.pages.size()];
  if (page != nullptr && known == number) return *page;
  GlobalShadow& shadow = *worker.launch.shadow;
  const std::lock_guard guard(shadow.lock);
  std::unique_ptr<ShadowPage>& at = shadow.pages[number];
  if (at == nullptr) at = std::make_unique<ShadowPage>();
  known = number, page = at.get();
  return *page;
}

// The number of lanes between two bytes of a run. A bulk copy has one lane.
u64 lanes_between(const Access& access, u64 bytes) {
  return access.extra != kNone ? 0 : bytes / static_cast<u64>(access.bytes());
}

// Divides the entries until each is either inside or outside of the range.
void refine(const Program& program, ShadowPage& page, u64 begin, u64 end) {
  const auto fits = [&](int bits) { return ((begin | end) & ((u64{1} << bits) - 1)) == 0; };
  if (fits(page.entry_bits)) return;
  const int bits = fits(2) ? 2 : 0, more = page.entry_bits - bits;
  std::vector<Entry> entries(page.entries.size() << more);
  // Lanes with consecutive threads have accessed consecutive bytes.
  const auto moved = [&](Touch touch, std::size_t bytes) {
    if (touch.block != 0) touch.thread += lanes_between(program.accesses[touch.site], bytes);
    return touch;
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& from = page.entries[i >> more];
    const std::size_t bytes = (i & ((std::size_t{1} << more) - 1)) << bits;
    for (int k = 0; k < 2; ++k) {
      entries[i].writers[k] = moved(from.writers[k], bytes);
      entries[i].readers[k] = moved(from.readers[k], bytes);
    }
  }
  page.entries = std::move(entries);
  page.entry_bits = bits;
}

// One run of consecutive lanes that access consecutive bytes.
class Recorder {
 public:
  Recorder(Worker& worker, Warp& warp, const Access& access, u32 site, bool write)
      : worker_(worker),
        warp_(warp),
        a_(access),
        order_(warp.home->cluster->order),
        write_(write),
        stores_(write && access.move != nullptr) {
    touch_.site = std::min(site, (1u << Touch::kSiteBits) - 1);
    // A thread that observes a strong store also knows that it has been performed.
    const bool published = access.between_blocks && order_.fenced != 0;
    touch_.epoch = published ? order_.fenced : order_.epoch;
    touch_.block = order_.first + static_cast<u32>(warp.home->rank);
    order_.accessed = true;
    if (write && access.strong) share_known(warp);
  }

  void record(u64 begin, u64 end, int lane) {
    begin_ = begin, end_ = end, lane_ = lane;
    while (begin < end) {
      const u64 part_end = std::min(end, begin / kPageBytes * kPageBytes + kPageBytes);
      if (begin / kPageBytes != number_) {
        if (guard_) guard_.unlock();
        number_ = begin / kPageBytes;
        page_ = &page_at(worker_, begin);
        guard_ = std::unique_lock(page_->lock);
      }
      ShadowPage& page = *page_;
      refine(worker_.program, page, begin, part_end);
      const u64 size = u64{1} << page.entry_bits;
      for (u64 at = begin; at < part_end; at += size) {
        touch_.thread = static_cast<u64>(warp_.index * kLanes + lane_of(at));
        visit(page.entries[at % kPageBytes >> page.entry_bits], at, static_cast<int>(size));
      }
      if (stores_ && !a_.between_blocks) store(begin, part_end);
      if (write_ && a_.between_blocks && order_.fenced != 0) release(page, begin, part_end);
      begin = part_end;
    }
  }

 private:
  int lane_of(u64 at) const { return lane_ + static_cast<int>(lanes_between(a_, at - begin_)); }
  bool is_own(Touch t) const { return t.block - order_.first < order_.size; }
  bool is_strong(Touch t) const { return worker_.program.accesses[t.site].between_blocks; }
  // An access of another cluster that does not precede this one.
  bool is_unordered(Touch t) const {
    if (t.block == 0 || is_own(t)) return false;
    const u64 cluster = (t.block - 1) / order_.size;
    const int bits = worker_.launch.shadow->clock_bits;
    return epoch_of(order_.known.get(), cluster, bits) < t.epoch &&
           epoch_of(warp_.others.known.get(), cluster, bits) < t.epoch;
  }
  bool conflicts(Touch t) const { return is_unordered(t) && !(a_.between_blocks && is_strong(t)); }

  void visit(Entry& entry, u64 address, int size) {
    std::array<Touch, 2>& own = write_ ? entry.writers : entry.readers;
    const auto is_harmless = [&](Touch t) { return t.block == 0 || is_own(t); };
    const bool repeated = own[0].block == touch_.block && own[0].epoch == touch_.epoch &&
                          is_strong(own[0]) == a_.between_blocks;
    if (repeated && is_harmless(entry.writers[0]) && is_harmless(entry.writers[1]) &&
        (!write_ || (is_harmless(entry.readers[0]) && is_harmless(entry.readers[1]))))
      return;
    const auto conflict = [&](Touch t) { return conflicts(t); };
    const bool after_write = std::any_of(entry.writers.begin(), entry.writers.end(), conflict);
    const bool after_read =
        write_ && std::any_of(entry.readers.begin(), entry.readers.end(), conflict);
    if (after_write || after_read) {
      if (write_ ? repeats_store(entry, address, size) : order_.agreed.contains(address / 4)) {
        for (u64 word = address / 4; write_ && word <= (address + size - 1) / 4; ++word)
          order_.agreed.insert(word);
        return;  // the first writer remains
      }
      for (const Touch& other : entry.writers)
        if (conflicts(other) && (write_ || is_written(touch_, address)))
          report(other, true, address);
      for (const Touch& other : entry.readers)
        if (write_ && conflicts(other) && is_written(other, address)) report(other, false, address);
    }
    keep(own);
  }

  // Whether other clusters write all bytes of a thread's load. Otherwise the thread may ignore the
  // bytes that they write, as in kernels that load whole vectors.
  bool is_written(Touch load, u64 address) const {
    const auto size = static_cast<u64>(worker_.program.accesses[load.site].bytes());
    const u64 first = address / size * size, cluster = (load.block - 1) / order_.size;
    const auto writes = [&](Touch t) {
      return t.block != 0 && (t.block - 1) / order_.size != cluster;
    };
    for (u64 at = first; at < first + size; at += u64{1} << page_->entry_bits) {
      if (write_ && at >= begin_ && at < end_) continue;
      const Entry& entry = page_->entries[at % kPageBytes >> page_->entry_bits];
      if (std::none_of(entry.writers.begin(), entry.writers.end(), writes)) return false;
    }
    return true;
  }

  // Stores this access. If several clusters have unordered accesses, the entry keeps the accesses
  // of the first two blocks. If a cluster has several in one epoch, the entry keeps the first one.
  void keep(std::array<Touch, 2>& touches) {
    // A thread that uses the old value has observed the strong stores before its operation.
    if (a_.atomic && a_.between_blocks && a_.uses_old_value()) {
      for (Touch& t : touches)
        if (is_strong(t)) t = {};
      if (touches[0].block == 0) std::swap(touches[0], touches[1]);
    }
    for (Touch& t : touches) {
      if (t.block != 0 && !is_own(t)) continue;
      const bool weaker = a_.between_blocks && t.block != 0 && !is_strong(t);
      const bool stronger = !a_.between_blocks && t.block != 0 && is_strong(t);
      if (t.block == 0 || stronger || (!weaker && t.epoch < touch_.epoch)) t = touch_;
      return;
    }
    Touch* replaced = &touches[touches[1].block > touches[0].block];
    for (Touch& t : touches)
      if (!is_unordered(t)) replaced = &t;
    if (!is_unordered(*replaced) || touch_.block < replaced->block) *replaced = touch_;
  }

  // Returns true if a plain store repeats the value that another plain store has written. A reader
  // of this value can only race with the other store.
  bool repeats_store(const Entry& entry, u64 address, int size) const {
    const auto [first, second] = entry.writers;
    if (!stores_ || first.block == 0 || is_strong(first)) return false;
    if (second.block != 0 && is_strong(second)) return false;
    for (u64 at = address; at < address + static_cast<u64>(size); ++at) {
      const int lane = lane_of(at);
      const s64 within = static_cast<s64>(at - begin_) - s64{lane - lane_} * a_.bytes();
      if (stored_byte(warp_, a_, lane, within) != *reinterpret_cast<const u8*>(at)) return false;
    }
    return true;
  }

  // Stores the lanes' values while the page is locked, because other workers compare theirs.
  void store(u64 begin, u64 end) const {
    for (u64 at = begin; at < end; at += a_.element_bytes) {
      const int lane = lane_of(at);
      const u64 element = (at - begin_) / a_.element_bytes % a_.count;
      std::memcpy(reinterpret_cast<void*>(at),
                  warp_.at(a_.data[element]) + lane * a_.register_bytes, a_.element_bytes);
    }
  }

  void release(ShadowPage& page, u64 begin, u64 end) const {
    const u64 cluster = (touch_.block - 1) / order_.size;
    for (u64 word = begin / 4; word <= (end - 1) / 4; ++word) {
      Epochs& clock = page.released[word];
      const int bits = worker_.launch.shadow->clock_bits;
      Epochs next = joined(clock, order_.known);
      if (next != clock || epoch_of(clock.get(), cluster, bits) < order_.fenced)
        clock = with_epoch(next, cluster, order_.fenced, bits);
    }
  }

  void report(Touch other, bool other_wrote, u64 address) const {
    using Race = GlobalShadow::Race;
    const Race race = other.block < touch_.block
                          ? Race{{other, touch_}, {other_wrote, write_}, address}
                          : Race{{touch_, other}, {write_, other_wrote}, address};
    GlobalShadow& shadow = *worker_.launch.shadow;
    const std::lock_guard guard(shadow.lock);
    if (!shadow.race || race.key() < shadow.race->key()) shadow.race = race;
  }

  Worker& worker_;
  const Warp& warp_;
  const Access& a_;
  Order& order_;
  const bool write_, stores_;
  Touch touch_;
  u64 begin_ = 0, end_ = 0, number_ = ~u64{0};  // the run; the page that is locked
  int lane_ = 0;
  ShadowPage* page_ = nullptr;
  std::unique_lock<std::mutex> guard_;
};

}  // namespace

void record_global(Worker& worker, Warp& warp, const Access& access, u32 site, const s64* offsets,
                   u64 base, u32 mask, int bytes, bool write) {
  Recorder recorder(worker, warp, access, site, write);
  while (mask != 0) {
    const int lane = first_of(mask);
    mask &= mask - 1;
    int next = lane + 1;
    // Lanes that read the same bytes are recorded once.
    const bool same = !write && next < kLanes && offsets[next] == offsets[lane];
    while (next < kLanes && (mask >> next & 1) != 0 &&
           offsets[next] == offsets[lane] + (same ? 0 : s64{next - lane} * bytes)) {
      mask &= mask - 1;
      ++next;
    }
    const u64 begin = base + static_cast<u64>(offsets[lane]);
    recorder.record(begin, base + static_cast<u64>(offsets[next - 1] + bytes), lane);
  }
}

std::unique_lock<std::mutex> lock_updates(Worker& worker, u64 address) {
  return std::unique_lock(page_at(worker, address).updates);
}

void observe_global(Worker& worker, Warp& warp, const s64* offsets, u64 base, u32 mask, int bytes) {
  for (const int lane : Lanes{mask}) {
    const u64 address = base + static_cast<u64>(offsets[lane]);
    ShadowPage& page = page_at(worker, address);
    const std::lock_guard guard(page.lock);
    if (page.released.empty()) continue;
    for (u64 word = address / 4; word <= (address + bytes - 1) / 4; ++word)
      if (const auto at = page.released.find(word); at != page.released.end())
        warp.others.observed = joined(warp.others.observed, at->second);
  }
  if (warp.others.observed != nullptr) warp.home->cluster->order.warps_know = true;
}

void begin_order(Cluster& cluster) {
  const auto size = static_cast<u32>(cluster.blocks.size());
  cluster.order = {};
  cluster.order.first = static_cast<u32>(cluster.index) * size + 1;
  cluster.order.size = size;
}

void order_at_fence(Warp& warp) {
  Known& others = warp.others;
  others.known = joined(others.known, std::exchange(others.observed, nullptr));
  Order& order = warp.home->cluster->order;
  if (!order.accessed) return;
  order.accessed = false;
  order.fenced = order.epoch;
  if (order.epoch < kLastEpoch) ++order.epoch;
}

void order_at_barrier(BlockState& block) {
  Order& order = block.cluster->order;
  if (!order.warps_know) return;
  for (Warp& warp : block.warps) {
    const Known others = std::exchange(warp.others, {});
    order.known = joined(joined(order.known, others.known), others.observed);
  }
  order.warps_know = order.size > 1;  // warps of other blocks
}

void share_known(Warp& warp) {
  Order& order = warp.home->cluster->order;
  if (order.warps_know) order.known = joined(order.known, warp.others.known);
}

void report_global_race(const LaunchState& launch) {
  const GlobalShadow::Race& race = *launch.shadow->race;
  const auto [first, second] = race.touch;
  const auto access = [&](int i) -> const Access& {
    return launch.program.accesses[race.touch[i].site];
  };
  const auto block = [&](Touch t) {
    const u64 size = launch.shape.cluster.volume(), index = t.block - u64{1};
    return block_index(launch, static_cast<s64>(index / size), static_cast<int>(index % size));
  };
  const Allocation* const range = launch.memory.find(race.address);
  const auto byte = static_cast<s64>(race.address - range->begin);
  Error& error = launch.result.error.emplace();
  error.kind = "race";
  error.message = std::string("race in global memory: this thread ") +
                  (race.wrote[1] ? "writes" : "reads") + " byte " + std::to_string(byte) + " of '" +
                  range->name + "', which thread " +
                  thread_text(launch, static_cast<int>(first.thread)) + " of block " +
                  triple(block(first)) + (race.wrote[0] ? " wrote" : " read") + " at " +
                  user_line(launch, access(0).line).text() + ", and nothing orders the two blocks";
  error.at = user_line(launch, access(1).line);
  error.thread = thread_of(launch, static_cast<int>(second.thread));
  error.block = block(second);
  error.array = range->name;
  error.byte = byte;
}

}  // namespace ado::emulator

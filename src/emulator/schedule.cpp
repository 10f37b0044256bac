// Blocks and warps: which one runs next, barriers, and the detection of deadlocks.
//
// A worker executes one cluster (usually one block) at a time, each warp until it waits. A warp
// that polls memory yields. If all warps of a cluster wait or poll, the worker keeps the cluster
// and starts another one, so kernels whose blocks wait for each other make progress.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "core/poll.hpp"
#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatience = 1000, kMostReleases = 100000;  // turns in which warps only poll
// Bytes of uninitialised shared and local memory, in even and in odd blocks. In most types, they
// give large positive and negative numbers, so that sums, minima and maxima become wrong.
constexpr int kUnwritten[] = {0x7f, 0xfe};
constexpr auto kDeadlockAfter = std::chrono::seconds(2);  // without any change in memory

void broadcast(u8* to, u64 bits, int bytes) {
  if (bytes == 1) {
    const u32 mask = bits != 0 ? kAllLanes : 0;
    std::memcpy(to, &mask, sizeof mask);
    return;
  }
  for (int i = 0; i < kLanes; ++i)
    std::memcpy(to + i * bytes, &bits, static_cast<std::size_t>(bytes));
}

u64 parameter(const std::byte* params, const Constant& c) {
  u64 bits = 0;
  std::memcpy(&bits, params + c.bits, c.read_bytes);
  const int unused = 64 - 8 * c.read_bytes;
  if (c.sign_extended) return static_cast<u64>(static_cast<s64>(bits << unused) >> unused);
  return bits;
}

std::array<unsigned, 3> coordinates(s64 index, const Extent& extent) {
  return {static_cast<unsigned>(index % extent.x),
          static_cast<unsigned>(index / extent.x % extent.y),
          static_cast<unsigned>(index / extent.x / extent.y)};
}

std::array<unsigned, 3> lengths(const Extent& extent) { return {extent.x, extent.y, extent.z}; }

// Sets everything that depends on the block's index, and starts its warps.
void start_block(const LaunchState& launch, BlockState& block) {
  const LaunchShape& shape = launch.shape;
  const std::array<unsigned, 3> cluster = coordinates(block.cluster->index, launch.clusters);
  const std::array<unsigned, 3> within = coordinates(block.rank, shape.cluster);
  block.index = block_index(launch, block.cluster->index, block.rank);
  const u64 linear =
      block.index[0] + u64{shape.grid.x} * (block.index[1] + u64{shape.grid.y} * block.index[2]);
  u64 values[kBlockValues];
  const auto set = [&](BlockValue first, const std::array<unsigned, 3>& xyz) {
    std::copy(xyz.begin(), xyz.end(), values + first);
  };
  set(kThreads, lengths(shape.block));
  set(kBlockIndex, block.index);
  set(kBlocks, lengths(shape.grid));
  set(kClusterIndex, cluster);
  set(kClusters, lengths(launch.clusters));
  set(kIndexInCluster, within);
  set(kClusterBlocks, lengths(shape.cluster));
  values[kRank] = static_cast<u64>(block.rank);
  values[kClusterSize] = shape.cluster.volume();
  values[kMultiprocessors] = static_cast<u64>(launch.options.multiprocessors);
  values[kMultiprocessor] = linear % values[kMultiprocessors];
  values[kDynamicShared] = shape.dynamic_shared_bytes;
  values[kTotalShared] = block.shared_size;
  values[kWorkspaceLow] = reinterpret_cast<u64>(launch.workspace) & 0xffffffffu;
  values[kWorkspaceHigh] = reinterpret_cast<u64>(launch.workspace) >> 32;
  for (const Constant& c : launch.program.constants)
    if (c.source == Source::kBlock)
      broadcast(block.constants.data() + c.offset, values[c.bits], c.bytes);
  const int unwritten = kUnwritten[linear % 2];
  std::memset(block.shared.data(), unwritten, block.shared.size());
  std::memset(block.local.data(), unwritten, block.local.size());
  std::fill(block.written.begin(), block.written.end(), 0);
  if (const u32 reserved = launch.program.reserved_shared; reserved != kNone) {
    std::memset(block.shared.data() + reserved, 0, Program::kReservedBytes);
    if (!block.written.empty()) std::memset(&block.written[reserved], 1, Program::kReservedBytes);
  }
  barrier_passed(block);
  block.done = 0;
  block.barriers.fill({});
  block.bulk_loads.clear();
  const std::size_t threads = shape.block.volume();
  for (Warp& warp : block.warps) {
    const std::size_t first = static_cast<std::size_t>(warp.index) * kLanes,
                      count = std::min<std::size_t>(threads - first, kLanes);
    static_cast<WarpProgress&>(warp) = {};
    warp.alive = warp.mask = count == kLanes ? kAllLanes : (1u << count) - 1;
    warp.stack.clear();
    warp.copies.clear();
    warp.commits.fill(0);
    warp.bulk_stores.clear();
    warp.bulk_commits.fill(0);
  }
}

// Reports warps that wait for each other at barriers in different lines.
bool check_same_barrier(Worker& worker, const BlockState& block, int index) {
  const Program& p = worker.program;
  const auto line = [&](const Warp& warp) { return p.line_of_code[warp.pc - 1]; };
  const Warp* first = nullptr;
  for (const Warp& warp : block.warps) {
    if (warp.state != WarpState::kBarrier || warp.barrier != index) continue;
    if (first == nullptr) first = &warp;
    if (p.lines[line(warp)] == p.lines[line(*first)]) continue;
    return report(worker, warp, line(warp), -1, "divergent barrier",
                  "barrier in divergent code: this warp waits at another barrier than thread " +
                      thread_text(worker.launch, first->index * kLanes) + ", which waits at " +
                      user_line(worker.launch, line(*first)).text());
  }
  return true;
}

// Releases the barriers at which all expected warps have arrived. Returns false after an error.
bool release_barriers(Worker& worker, BlockState& block) {
  const Program& program = worker.program;
  const int warps = static_cast<int>(block.warps.size());
  for (int i = 0; i < static_cast<int>(block.barriers.size()); ++i) {
    Barrier& barrier = block.barriers[i];
    const int expected = barrier.expected != 0 ? barrier.expected : warps - block.done;
    if (barrier.arrived == 0 || barrier.arrived < expected) continue;
    if (barrier.expected == 0 && worker.launch.options.checks.synccheck &&
        !check_same_barrier(worker, block, i))
      return false;
    for (Warp& warp : block.warps) {
      if (warp.state != WarpState::kBarrier || warp.barrier != i) continue;
      warp.state = WarpState::kReady;
      const Inst& inst = program.code[warp.pc - 1];
      if (inst.d == kNone) continue;
      const auto mode = static_cast<BarrierMode>(inst.mode);
      const bool yes = mode == BarrierMode::kAnd ? barrier.all : barrier.any;
      broadcast(warp.at(inst.d), mode == BarrierMode::kPopulation ? barrier.population : yes,
                inst.bytes);
    }
    barrier = {};
    barrier_passed(block);
  }
  return true;
}

enum class Outcome { kFinished, kStalled, kFailed };

// The first warp of the cluster with a property, or nullptr.
template <class Property>
const Warp* find_warp(const Cluster& cluster, const Property& has) {
  for (const auto& block : cluster.blocks)
    for (const Warp& warp : block->warps)
      if (has(warp)) return &warp;
  return nullptr;
}

bool report_deadlock(Worker& worker, const Cluster& cluster) {
  const Program& p = worker.program;
  const auto fail = [&](const Warp& warp, std::size_t position, const std::string& message) {
    return report(worker, warp, p.line_of_code[position], -1, "deadlock",
                  "deadlock: this warp " + message);
  };
  if (const Warp* w = find_warp(cluster, [](const Warp& warp) {
        return warp.state == WarpState::kReady && warp.polled != 0;
      }))
    return fail(*w, w->polling,
                "waits for a phase of an mbarrier that does not end: " + awaited(*w, w->polled));
  if (const Warp* w = find_warp(cluster, [](const Warp& warp) {
        return warp.state == WarpState::kBarrier || warp.state == WarpState::kCluster;
      }))
    return fail(*w, w->pc - 1,
                std::string("waits at a barrier of the ") +
                    (w->state == WarpState::kCluster ? "cluster" : "block") +
                    " that the other warps do not reach");
  if (const Warp* w =
          find_warp(cluster, [](const Warp& warp) { return warp.state != WarpState::kDone; }))
    return fail(*w, std::min<std::size_t>(p.blocks[w->block].begin, p.line_of_code.size() - 1),
                "polls memory that no running block changes");
  return false;
}

// Returns true if all warps wait for barriers, which no other cluster can change.
bool only_cluster_can_help(const Cluster& cluster) {
  return find_warp(cluster, [](const Warp& warp) {
           return warp.state == WarpState::kReady && warp.polled == 0;
         }) == nullptr;
}

Outcome run_cluster(Worker& worker, Cluster& cluster) {
  for (;;) {
    bool ran = false, yields = true, finished = true;
    const s64 before = worker.changes;
    for (const auto& block : cluster.blocks) {
      for (Warp& warp : block->warps) {
        if (warp.state == WarpState::kCluster && warp.phase != cluster.phase)
          warp.state = WarpState::kReady;
        if (warp.state != WarpState::kReady) continue;
        ran = true;
        if (!run_warp(worker, warp)) return Outcome::kFailed;
        yields = yields && warp.yielded;
        if (warp.state == WarpState::kDone) complete_cluster_barrier(cluster);
        if ((warp.state != WarpState::kReady || !warp.yielded) && !release_barriers(worker, *block))
          return Outcome::kFailed;
      }
      finished = finished && block->done == static_cast<int>(block->warps.size());
    }
    if (finished) return Outcome::kFinished;
    if (!ran) {
      report_deadlock(worker, cluster);
      return Outcome::kFailed;
    }
    if (!yields || worker.changes != before) {
      cluster.fruitless = 0;
      continue;
    }
    // Lanes of a warp that wait for its polling lanes may have to go on before these can.
    const bool alone = worker.launch.cluster_count == 1;
    if (++cluster.fruitless > (alone ? 0 : kPatience)) {
      bool released = false;
      for (const auto& block : cluster.blocks)
        for (Warp& warp : block->warps)
          if (warp.state == WarpState::kReady && warp.polled == 0 && let_waiting_lanes_run(warp))
            released = true;
      if (released && cluster.fruitless < kMostReleases) continue;
    }
    if (!only_cluster_can_help(cluster)) return Outcome::kStalled;
    report_deadlock(worker, cluster);
    return Outcome::kFailed;
  }
}

std::unique_ptr<Cluster> make_cluster(const LaunchState& launch) {
  auto cluster = std::make_unique<Cluster>();
  const int blocks = static_cast<int>(launch.shape.cluster.volume());
  const int warps = static_cast<int>((launch.shape.block.volume() + kLanes - 1) / kLanes);
  for (int rank = 0; rank < blocks; ++rank) {
    cluster->blocks.push_back(std::make_unique<BlockState>(launch, warps));
    cluster->blocks.back()->rank = rank;
    cluster->blocks.back()->cluster = cluster.get();
  }
  return cluster;
}

void merge(Worker& worker) {
  LaunchState& launch = worker.launch;
  const Program& p = worker.program;
  const std::lock_guard guard(launch.lock);
  Counts& total = launch.result.counts;
  total.branches += worker.branches, total.divergent_branches += worker.divergent;
  total.barriers += worker.barriers, total.atomics += worker.atomics,
      total.async_copies += worker.copies;
  total.bulk_loads += worker.bulk_loads, total.bulk_stores += worker.bulk_stores;
  // All workers number the lines in the same way: in the order of p.lines, without repetitions.
  std::size_t position = 0;
  const bool first = total.lines.empty();
  std::map<Line, std::size_t> index;
  for (const Line& line : p.lines)
    if (index.emplace(line, position).second) ++position;
  if (first) {
    total.lines.resize(position);
    for (std::size_t i = 0; i < p.lines.size(); ++i)
      total.lines[index.at(p.lines[i])].at = source_line(launch, static_cast<int>(i));
  }
  const auto at = [&](int line) -> LineCounts& { return total.lines[index.at(p.lines[line])]; };
  for (std::size_t b = 0; b < p.blocks.size(); ++b) {
    const BlockCounts& counts = worker.blocks[b];
    if (counts.executions == 0) continue;
    for (const LineCost& cost : p.blocks[b].costs)
      for (Work* of : {static_cast<Work*>(&at(cost.line)), static_cast<Work*>(&total)}) {
        of->instructions += cost.instructions * counts.executions;
        of->lanes += cost.instructions * counts.lanes;
        for (int i = 0; i < kCounted; ++i) of->operations[i] += cost.operations[i] * counts.lanes;
      }
  }
  for (std::size_t i = 0; i < p.accesses.size(); ++i) {
    const Access& a = p.accesses[i];
    const AccessCounts& counts = worker.counts[i];
    const bool generic_shared = a.space == Space::kGeneric && counts.sectors == 0;
    // The hardware does not count the writes of cp.async among the stores.
    const bool copy = !a.atomic && a.operand != kNone;
    for (Work* of : {static_cast<Work*>(&at(a.line)), static_cast<Work*>(&total)}) {
      of->global_loads += worker.copy_sources[i];
      (a.store ? of->local_stores : of->local_loads) += worker.local[i];
      if (counts.requests == 0 || copy) continue;
      if (a.space == Space::kConst) {
        of->constant_loads += counts;
        of->constant_loads.wavefronts += counts.unique / a.bytes();
      } else if (a.space == Space::kShared || generic_shared) {
        (a.atomic ? of->shared_atomics : a.store ? of->shared_stores : of->shared_loads) += counts;
      } else {
        (a.atomic ? of->global_atomics : a.store ? of->global_stores : of->global_loads) += counts;
      }
    }
  }
  launch.atomic_addresses.merge(worker.atomic_addresses);
  total.atomic_addresses =
      static_cast<s64>(std::min(launch.atomic_addresses.size(), Counts::kManyAddresses));
}

}  // namespace

std::array<unsigned, 3> block_index(const LaunchState& launch, s64 cluster, int rank) {
  const std::array<unsigned, 3> first = coordinates(cluster, launch.clusters);
  const std::array<unsigned, 3> within = coordinates(rank, launch.shape.cluster);
  const std::array<unsigned, 3> shape = lengths(launch.shape.cluster);
  return {first[0] * shape[0] + within[0], first[1] * shape[1] + within[1],
          first[2] * shape[2] + within[2]};
}

void complete_cluster_barrier(Cluster& cluster) {
  int alive = 0;
  for (const auto& block : cluster.blocks)
    alive += static_cast<int>(block->warps.size()) - block->done;
  if (cluster.arrived == 0 || cluster.arrived < alive) return;
  cluster.arrived = 0;
  ++cluster.phase;
  for (const auto& block : cluster.blocks) barrier_passed(*block);
}

BlockState::BlockState(const LaunchState& launch, int warp_count)
    : registers(std::size_t{launch.program.register_bytes} * warp_count),
      constants(launch.program.constant_bytes),
      shared(launch.program.static_shared + launch.shape.dynamic_shared_bytes),
      local(std::size_t{launch.program.local_bytes} * kLanes * warp_count),
      shared_size(launch.shape.dynamic_shared_bytes == 0 ? launch.program.shared_end
                                                         : shared.size()),
      warps(warp_count) {
  const Program& p = launch.program;
  std::memset(registers.data(), 0, registers.size());
  if (launch.options.checks.initcheck || launch.options.checks.shared_initcheck)
    written.resize(shared_size);
  if (launch.options.checks.racecheck && shared_size > 0) {
    shadow.writers.resize(shared_size), shadow.readers.resize(shared_size);
    shadow.writer_sites.resize(shared_size), shadow.reader_sites.resize(shared_size);
  }
  for (const Constant& c : p.constants) {
    const u64 bits = c.source == Source::kParam ? parameter(launch.params, c)
                     : c.source == Source::kParamAddress
                         ? reinterpret_cast<u64>(launch.params) + c.bits
                         : c.bits;
    if (c.source != Source::kBlock) broadcast(constants.data() + c.offset, bits, c.bytes);
  }
  for (int i = 0; i < warp_count; ++i) {
    Warp& warp = warps[i];
    warp.home = this;
    warp.index = i;
    warp.bases[0] = registers.data() + std::size_t{p.register_bytes} * i;
    warp.bases[1] = constants.data() - kInConstants;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::array<u32, 3> thread = thread_of(launch, i * kLanes + static_cast<int>(lane));
      const u32 bit = 1u << lane, below = bit - 1, warp_index = static_cast<u32>(i);
      const u32 values[kThreadValues] = {thread[0],      thread[1], thread[2], lane,
                                         warp_index,     bit,       below,     bit | below,
                                         ~(bit | below), ~below};
      for (u32 r = 0; r < kThreadValues; ++r)
        reinterpret_cast<u32*>(warp.at(r * 4 * kLanes))[lane] = values[r];
    }
  }
}

Worker::Worker(LaunchState& shared_state)
    : launch(shared_state),
      program(launch.program),
      sites(program.accesses.size()),
      counts(program.accesses.size()),
      copy_sources(program.accesses.size()),
      local(program.accesses.size()),
      blocks(program.blocks.size()),
      pages(launch.shadow == nullptr ? 0 : 256) {}

void run_worker(LaunchState& launch) {
  Worker worker(launch);
  std::vector<std::unique_ptr<Cluster>> idle;
  std::deque<std::unique_ptr<Cluster>> waiting;
  std::size_t stalled_in_turn = 0;
  Clock::time_point last_progress = Clock::now();
  s64 seen_progress = -1;
  launch.running.fetch_add(1);
  const auto run = [&](std::unique_ptr<Cluster> cluster) {
    const s64 before = worker.changes;
    const Outcome outcome = run_cluster(worker, *cluster);
    if (worker.changes != before) launch.progress.fetch_add(1);
    stalled_in_turn =
        outcome == Outcome::kStalled && worker.changes == before ? stalled_in_turn + 1 : 0;
    if (outcome == Outcome::kStalled)
      waiting.push_back(std::move(cluster));
    else
      idle.push_back(std::move(cluster));
  };
  while (launch.failed.load(std::memory_order_relaxed) == LaunchState::kNone) {
    poll();
    const s64 index = launch.next_cluster.load() < launch.cluster_count
                          ? launch.next_cluster.fetch_add(1)
                          : launch.cluster_count;
    if (index < launch.cluster_count) {
      std::unique_ptr<Cluster> cluster;
      if (idle.empty()) {
        cluster = make_cluster(launch);
      } else {
        cluster = std::move(idle.back());
        idle.pop_back();
      }
      cluster->index = index;
      cluster->arrived = cluster->fruitless = 0;
      begin_order(*cluster);
      for (const auto& block : cluster->blocks) start_block(launch, *block);
      run(std::move(cluster));
      // A waiting cluster runs between two new ones.
      if (waiting.empty()) continue;
    }
    if (waiting.empty()) break;
    std::unique_ptr<Cluster> next = std::move(waiting.front());
    waiting.pop_front();
    Cluster& polled = *next;
    run(std::move(next));
    if (index < launch.cluster_count || stalled_in_turn < waiting.size() + 1) continue;
    // No cluster of this worker has made progress.
    poll();
    stalled_in_turn = 0;
    const s64 progress = launch.progress.load();
    if (progress != seen_progress) {
      seen_progress = progress;
      last_progress = Clock::now();
    } else if (Clock::now() - last_progress > kDeadlockAfter) {
      launch.stalled.fetch_add(1);
      if (launch.stalled.load() >= launch.running.load())
        report_deadlock(worker, polled);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      launch.stalled.fetch_sub(1);
    } else {
      std::this_thread::yield();
    }
  }
  launch.running.fetch_sub(1);
  merge(worker);
}

}  // namespace ado::emulator

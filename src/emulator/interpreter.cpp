// Executes the instructions of one warp.
//
// At a divergent branch the warp executes one side, then the other one. Both end at the branch's
// immediate post-dominator, where the remaining lanes continue together. The stack holds the
// paths that remain to be executed.
#include <bit>
#include <utility>

#include "core/poll.hpp"
#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

void take(Warp& warp, const StackEntry& entry, u32 mask) {
  warp.reconverges = entry.reconverges, warp.block = entry.next, warp.mask = mask;
  warp.resumes = entry.pc >= 0;
  warp.awaited = entry.awaits;
  warp.pc = entry.pc;
}

// Takes the next path from the stack. Returns false if there is none: all lanes have ended.
bool next_path(Warp& warp) {
  while (!warp.stack.empty()) {
    const StackEntry entry = warp.stack.back();
    warp.stack.pop_back();
    if ((entry.mask & warp.alive) == 0) continue;
    take(warp, entry, entry.mask & warp.alive);
    return true;
  }
  return false;
}

// Moves to the block `next`, where the path may end.
bool enter(Warp& warp, int next) {
  warp.block = next;
  while (warp.block == warp.reconverges)
    if (!next_path(warp)) return false;
  return true;
}

bool end_warp(Worker& worker, Warp& warp) {
  // The end of a thread completes its copies that were not waited for.
  const bool fine = warp.copies.empty() || wait_copies(worker, warp, kAllLanes, kNone);
  warp.state = WarpState::kDone;
  ++warp.home->done;
  ++worker.changes;
  return fine && check_bulk_done(worker, warp);
}

Arrival arrive_at_barrier(Worker& worker, Warp& warp, const Inst& inst, int position, u32 mask) {
  const Program& p = worker.program;
  const int line = p.line_of_code[position];
  BlockState& block = *warp.home;
  warp.awaited = 0;
  const u32 index = *reinterpret_cast<const u32*>(warp.at(inst.a));
  if (index >= block.barriers.size()) {
    report(worker, warp, line, std::countr_zero(mask), "invalid barrier",
           "a block has barriers 0 to 15, got " + std::to_string(index));
    return Arrival::kFailed;
  }
  if (mask != warp.alive) end_idle_lanes(worker.program, warp);
  if (const u32 missing = warp.alive & ~mask; missing != 0) {
    const bool plain = mask == warp.mask && inst.d == kNone && inst.b == kNone;
    // The compiler may have copied the barrier, so that paths of the warp arrive at several copies.
    const auto waits_here = [&](const StackEntry& entry) {
      return plain && entry.awaits != 0 && p.code[entry.pc].op == Op::kBarrier &&
             warp.barrier == static_cast<int>(index) &&
             p.lines[p.line_of_code[entry.pc]] == p.lines[line];
    };
    u32 waiting = 0;
    for (const StackEntry& entry : warp.stack)
      if (waits_here(entry)) waiting |= entry.mask;
    const bool copied = (missing & ~waiting) == 0;
    if (plain && !copied && run_others_first(warp, position, missing)) {
      warp.barrier = static_cast<int>(index);
      return Arrival::kParked;
    }
    if (!copied && worker.launch.options.checks.synccheck) {
      const int lane = std::countr_zero(missing & ~waiting);
      report(worker, warp, line, lane, "divergent barrier",
             "barrier in divergent code: this thread does not take part with the others of its "
             "warp" +
                 waits_at(worker, warp, lane));
      return Arrival::kFailed;
    }
    for (StackEntry& entry : warp.stack)
      if (copied && waits_here(entry)) ++entry.pc, entry.awaits = 0;
  }
  ++worker.barriers;
  Barrier& barrier = block.barriers[index];
  const auto mode = static_cast<BarrierMode>(inst.mode);
  if (inst.b != kNone) {
    const u32 threads = *reinterpret_cast<const u32*>(warp.at(inst.b));
    if (threads % kLanes != 0) {
      report(worker, warp, line, std::countr_zero(mask), "invalid barrier",
             "the number of threads of a barrier must be a multiple of 32");
      return Arrival::kFailed;
    }
    barrier.expected = static_cast<int>(threads / kLanes);
  } else {
    barrier.expected = 0;  // all warps that have not ended
  }
  if (inst.c != kNone) {
    const u32 yes = warp.predicate(inst.c) & mask;
    barrier.population += static_cast<u32>(std::popcount(yes));
    barrier.all = barrier.all && yes == mask;
    barrier.any = barrier.any || yes != 0;
  }
  ++barrier.arrived;
  ++worker.changes;
  warp.barrier = static_cast<int>(index);
  warp.state = mode == BarrierMode::kArrive ? WarpState::kReady : WarpState::kBarrier;
  return Arrival::kArrived;
}

// Throws Interrupted if the call must end. Called at least once per loop of a kernel.
void poll_sometimes(Worker& worker) {
  constexpr s64 kInstructions = 1 << 16;  // take 1 to 10 ms
  if (worker.executed < worker.next_poll) return;
  worker.next_poll = worker.executed + kInstructions;
  poll();
}

// Returns whether an error of another warp ends this warp. After an error in a later cluster, this
// warp continues, because an error of its own would be reported instead. Its loop may be endless,
// so it ends after kTransitions, about one second.
bool is_superseded(const LaunchState& launch, const Warp& warp) {
  constexpr s64 kTransitions = 1 << 20;
  const s64 failed = launch.failed.load(std::memory_order_relaxed);
  return failed <= warp.home->cluster->index ||
         (failed != LaunchState::kNone && warp.transitions > kTransitions);
}

}  // namespace

bool run_others_first(Warp& warp, int position, u32 awaits) {
  u32 busy = warp.mask;  // also lanes that wait for the end of a path
  for (std::size_t i = warp.stack.size(); i-- > 0;) {
    const StackEntry entry = warp.stack[i];
    const u32 lanes = entry.mask & warp.alive;
    if (lanes != 0 && (lanes & busy) == 0 && entry.awaits == 0) {
      warp.stack.erase(warp.stack.begin() + static_cast<std::ptrdiff_t>(i));
      warp.stack.push_back({warp.reconverges, warp.block, warp.mask, position, awaits});
      take(warp, entry, lanes);
      return true;
    }
    busy |= lanes;
  }
  return false;
}

void end_idle_lanes(const Program& p, Warp& warp) {
  u32 busy = warp.mask;
  for (auto entry = warp.stack.rbegin(); entry != warp.stack.rend(); ++entry) {
    const u32 waiting = entry->mask & ~busy;
    busy |= entry->mask;
    int block = entry->next;
    if (block < 0) continue;
    int first = entry->pc < 0 ? p.blocks[block].begin : entry->pc;
    while (first == p.blocks[block].end) first = p.blocks[++block].begin;
    if (p.code[first].op == Op::kExit && p.code[first].guard == kNone) warp.alive &= ~waiting;
  }
}

bool let_waiting_lanes_run(Warp& warp) {
  u32 busy = warp.mask;
  for (std::size_t i = warp.stack.size(); i-- > 0;) {
    StackEntry& entry = warp.stack[i];
    const u32 waiting = entry.mask & warp.alive & ~busy;
    busy |= entry.mask;
    if (waiting == 0 || entry.next < 0 || entry.awaits != 0) continue;
    const StackEntry polling{warp.reconverges, warp.block, warp.mask};
    take(warp, entry, waiting);
    entry.mask &= ~waiting;
    if ((entry.mask & warp.alive) == 0)
      warp.stack.erase(warp.stack.begin() + static_cast<std::ptrdiff_t>(i));
    warp.stack.push_back(polling);
    return true;
  }
  return false;
}

bool run_warp(Worker& worker, Warp& warp) {
  const Program& p = worker.program;
  const Inst* const code = p.code.data();
  const LaneFunctions& functions = worker.launch.functions;
  warp.yielded = false;
  poll_sometimes(worker);
  for (;;) {
    const Block& block = p.blocks[warp.block];
    if (!warp.resumes) {
      BlockCounts& counts = worker.blocks[warp.block];
      ++counts.executions;
      counts.lanes += std::popcount(warp.mask);
      worker.executed += block.instructions;
      warp.pc = block.begin;
    }
    warp.resumes = false;
    const u32 mask = warp.mask;
    // Lanes that have ended may be overwritten.
    const bool full = (mask | ~warp.alive) == kAllLanes;
    const Inst* inst = code + warp.pc;
    const Inst* const end = code + block.end;
    int next = warp.block + 1;
    for (; inst != end; ++inst) {
      if (inst->op == Op::kAlu && inst->guard == kNone) {
        const u8* const a = warp.at(inst->a);
        const u8* const b = inst->b == kNone ? nullptr : warp.at(inst->b);
        const u8* const c = inst->c == kNone ? nullptr : warp.at(inst->c);
        if (full) {
          inst->alu(warp.at(inst->d), a, b, c);
        } else {
          inst->alu(worker.scratch, a, b, c);
          functions.blend(warp.at(inst->d), worker.scratch, mask, inst->bytes);
        }
        continue;
      }
      u32 active = mask;
      if (inst->guard != kNone) {
        const u32 predicate = warp.predicate(inst->guard);
        active &= inst->guard_negated ? ~predicate : predicate;
        if (active == 0 && ((warp.branched | warp.passed) == 0 || inst->op != Op::kBranch))
          continue;
      }
      const int position = static_cast<int>(inst - code);
      switch (inst->op) {
        case Op::kAlu:
          inst->alu(worker.scratch, warp.at(inst->a), inst->b == kNone ? nullptr : warp.at(inst->b),
                    inst->c == kNone ? nullptr : warp.at(inst->c));
          functions.blend(warp.at(inst->d), worker.scratch, active, inst->bytes);
          break;
        case Op::kLoad:
        case Op::kStore:
          if (!load_or_store(worker, warp, *inst, active)) return false;
          break;
        case Op::kBranch: {
          ++worker.branches;
          const int target = block.target;
          const bool goes_on = block.joins == Block::Joins::kGoingOn;
          if (block.joins != Block::Joins::kNo && active != mask) {
            (goes_on ? warp.passed : warp.branched) |= active;
            warp.mask = mask & ~active;
            break;
          }
          // The remaining lanes agree, so that all lanes leave the condition here.
          if (block.joins != Block::Joins::kNo) next = block.on;
          if (goes_on) active = 0;
          const u32 all = mask | warp.branched | warp.passed;
          active |= std::exchange(warp.branched, 0);
          warp.passed = 0;
          warp.mask = all;
          if (active == all) next = target;
          if (active == all || active == 0) break;
          ++worker.divergent;
          const int join = block.reconverges;
          // Pushes the code after the join, then the lanes that do not branch. The lanes that
          // branch are executed first.
          if (warp.reconverges != join || join < 0)
            warp.stack.push_back({warp.reconverges, join, join < 0 ? 0 : all});
          if (next != join) warp.stack.push_back({join, next, all & ~active});
          warp.mask = active;
          warp.reconverges = join;
          next = target;
          break;
        }
        case Op::kExit:
          warp.alive &= ~active;
          warp.mask &= ~active;
          if (warp.mask == 0) {
            if (!next_path(warp)) return end_warp(worker, warp);
            next = warp.block;
          }
          break;
        case Op::kAtomic:
          if (!atomic(worker, warp, *inst, active)) return false;
          break;
        case Op::kCopyAsync:
          if (!copy_async(worker, warp, *inst, active)) return false;
          break;
        case Op::kCommitGroup:
          for (const int lane : Lanes{active}) ++warp.commits[lane];
          break;
        case Op::kWaitGroup:
          if (!warp.copies.empty() && !wait_copies(worker, warp, active, inst->aux)) return false;
          break;
        case Op::kCopyBulk:
          if (!copy_bulk(worker, warp, *inst, active)) return false;
          break;
        case Op::kCommitBulk:
          for (const int lane : Lanes{active}) ++warp.bulk_commits[lane];
          break;
        case Op::kWaitBulk:
          wait_bulk_stores(worker, warp, active, inst->aux);
          break;
        case Op::kMbarrier:
          if (!mbarrier(worker, warp, *inst, active)) return false;
          break;
        case Op::kClusterArrive:
        case Op::kClusterWait: {
          const bool arrives = inst->op == Op::kClusterArrive;
          Cluster& cluster = *warp.home->cluster;
          if (warp.arrived == arrives)
            return report(worker, warp, p.line_of_code[position], std::countr_zero(active),
                          "invalid barrier",
                          arrives ? "barrier.cluster.arrive without wait"
                                  : "barrier.cluster.wait without arrive");
          warp.arrived = arrives;
          if (arrives) {
            warp.phase = cluster.phase;
            ++cluster.arrived;
            ++worker.changes;
            complete_cluster_barrier(cluster);
          }
          if (arrives || warp.phase != cluster.phase) break;
          warp.state = WarpState::kCluster;
          warp.pc = position + 1;
          warp.resumes = true;
          return true;
        }
        case Op::kMatrix:
          if (!multiply_matrices(worker, warp, inst->aux, p.line_of_code[position], active))
            return false;
          break;
        case Op::kTransposeRows:
          if (!transpose_rows(worker, warp, *inst, p.line_of_code[position], active)) return false;
          break;
        case Op::kGroupFence:
          fence_products(warp);
          break;
        case Op::kGroupCommit:
          ++warp.product_groups;
          break;
        case Op::kGroupWait:
          switch (wait_products(worker, warp, inst->aux)) {
            case Arrival::kFailed:
              return false;
            case Arrival::kParked:
              warp.pc = position;
              warp.resumes = warp.yielded = true;
              return true;
            case Arrival::kArrived:
              break;
          }
          break;
        case Op::kGroupCheck:
          if (!check_group(worker, warp, inst->aux, p.line_of_code[position])) return false;
          break;
        case Op::kPause:
          warp.strong = kPollsBeforeYield;
          break;
        case Op::kFence:
          std::atomic_thread_fence(std::memory_order_seq_cst);
          fence_passed(warp, (inst->mode & kBetweenBlocks) != 0);
          if ((inst->mode & kBeforeAsync) != 0) warp.proxy_time = warp.fence_time;
          break;
        case Op::kBarrier:
          switch (arrive_at_barrier(worker, warp, *inst, position, active)) {
            case Arrival::kFailed:
              return false;
            case Arrival::kParked:
              next = warp.block;
              goto path_ends;
            case Arrival::kArrived:
              break;
          }
          warp.pc = position + 1;
          if (warp.state == WarpState::kReady) break;
          warp.resumes = true;
          return true;
        default:  // sharing the code of kBarrier was 6 % slower: fewer variables in registers
          switch (warp_operation(worker, warp, *inst, position, active)) {
            case Arrival::kFailed:
              return false;
            case Arrival::kParked:
              next = warp.block;
              goto path_ends;
            case Arrival::kArrived:
              break;
          }
      }
    }
  path_ends:
    ++warp.transitions;
    if (!enter(warp, next)) return end_warp(worker, warp);
    if (block.backward) {
      if (is_superseded(worker.launch, warp)) return false;
      poll_sometimes(worker);
      const s64 limit = worker.launch.options.max_block_transitions;
      if (limit != 0 && warp.transitions > limit)
        return report(worker, warp, block.end > block.begin ? p.line_of_code[block.end - 1] : 0,
                      std::countr_zero(warp.mask), "endless loop",
                      "the warp executed more basic blocks than the limit");
      if (warp.strong >= kPollsBeforeYield) {
        warp.strong = 0;
        warp.yielded = true;
        return true;
      }
    }
  }
}

}  // namespace ado::emulator

// State of a launch while it is executed: workers (threads of the host), blocks and warps.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_set>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/global_races.hpp"
#include "emulator/program.hpp"

namespace ado::emulator {

// Memory for registers, aligned for vectors.
class Bytes {
 public:
  explicit Bytes(std::size_t size)
      : data_(static_cast<u8*>(::operator new (size + 64, std::align_val_t{64}))), size_(size) {}
  u8* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(u8* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<u8, Free> data_;
  std::size_t size_;
};

// The last pattern of addresses of an access, and the costs that follow from it. Most accesses
// repeat their pattern at other addresses.
struct SiteCache {
  u32 mask = 0;  // 0: empty
  u32 phase = 0;
  s64 low = 0, high = 0;  // relative to the first active lane
  s64 bits = 0;           // all bits of the offsets
  s32 cost = 0;           // sectors or wavefronts
  s32 ideal = 0;
  s32 unique = 0;  // different bytes
  Pattern pattern = Pattern::kScattered;
  Allocation* allocation = nullptr;
  alignas(64) s64 offsets[kLanes];
};

struct BlockState;
struct LaunchState;
struct Warp;

// Copies of one cp.async instruction that have not been waited for.
struct PendingCopy {
  u32 mask;
  s64 group = 0;
  int bytes;
  int access;
  std::array<u32, kLanes> to = {};
  std::array<u64, kLanes> from = {};
  std::array<u8, kLanes> source_bytes = {};
};

// A bulk copy that has been started and not waited for, or, with `arrival`, an arrival at an
// mbarrier when the thread's earlier cp.async are complete.
struct BulkCopy {
  Warp* warp;  // that started it
  int lane, access;
  BulkMode mode;
  bool arrival = false;
  BlockState* shared;  // the block whose shared memory is read or written
  u32 at = 0;          // in shared memory
  u32 bytes = 0;
  u64 other = 0;                   // in global memory or, kSharedToShared, a generic address
  s64 group = 0;                   // commit groups: of stores
  u32 barrier = 0;                 // of loads, in `shared`
  const TensorMap* map = nullptr;  // null: `bytes` neighbouring bytes
  std::array<s32, 5> coordinates{};
};

struct StackEntry {
  int reconverges;  // block at which this path ends; -1: at the exit
  int next;         // block where execution continues
  u32 mask;
  int pc = -1;     // position in this block; -1: its beginning
  u32 awaits = 0;  // lanes for which this path waits at an instruction
};

// A wgmma.mma_async that has not been waited for.
struct RunningProduct {
  u32 product;                     // index of Program::matrices
  s64 group;                       // commit groups
  u32 time;                        // of the block's Shadow
  std::array<u64, 2> descriptors;  // of a and b
};

enum class WarpState : u8 { kReady, kBarrier, kCluster, kDone };

// The part of a warp's state that is reset for each block.
struct WarpProgress {
  u32 alive = 0, mask = 0;
  u32 branched = 0, passed = 0;  // lanes that wait for another block's branch (Joins)
  int block = 0, pc = 0;
  int reconverges = -1;
  bool resumes = false;  // inside a block
  WarpState state = WarpState::kReady;
  bool yielded = false;  // waits in a loop for another warp or block
  int barrier = 0, strong = 0;
  u32 awaited = 0;       // lanes for which the path has waited at its next instruction
  bool arrived = false;  // at the cluster's barrier, in its `phase`
  u64 phase = 0;
  s64 transitions = 0;
  // Address of the mbarrier whose phase the warp polls; 0 if it polls none, or other memory too.
  u64 polled = 0;
  int polling = 0;     // position of the polling instruction
  u32 proxy_time = 0;  // of the last fence.proxy.async
  std::vector<RunningProduct> running;
  s64 products = 0, product_groups = 0;  // wgmma: started, and committed groups
  bool group_fenced = false;             // after a wgmma.fence
  std::vector<u32> unfenced;             // group checks since the last one
  Known others;
};

struct Warp : WarpProgress {
  u8* bases[2];        // registers; constants minus kInConstants
  int index = 0;       // in the block
  u32 sync_time = 0;   // of the last __syncwarp of all lanes
  u32 fence_time = 0;  // of the last fence
  // The last __syncwarp of some lanes: time and members.
  std::array<u32, kLanes> part_time{}, part_members{};
  std::vector<StackEntry> stack;
  std::deque<PendingCopy> copies;
  std::array<s64, kLanes> commits{};
  std::vector<BulkCopy> bulk_stores;
  std::array<s64, kLanes> bulk_commits{};
  BlockState* home = nullptr;

  u8* at(u32 r) const { return bases[r & kInConstants] + r; }
  u32 predicate(u32 r) const { return *reinterpret_cast<const u32*>(at(r)); }
  // The bits of one lane, `bytes` per lane.
  u64 value(u32 r, int lane, int bytes) const {
    u64 value = 0;
    std::memcpy(&value, at(r) + lane * bytes, static_cast<std::size_t>(bytes));
    return value;
  }
};

struct Barrier {
  int arrived = 0;  // warps
  int expected = 0;
  u32 population = 0;
  bool all = true, any = false;
};

struct Cluster {
  std::vector<std::unique_ptr<BlockState>> blocks;
  s64 index = 0;
  int arrived = 0;    // warps at the cluster's barrier
  int fruitless = 0;  // turns in which its warps only polled
  u64 phase = 0;      // completed barriers
  Order order;
};

// The last accesses of each byte of shared memory. An entry is time << 11 | thread.
struct Shadow {
  std::vector<u32> writers, readers;
  std::vector<u16> writer_sites, reader_sites;
  u32 time = 1;
  u32 since = 1 << 11;  // entries below are ordered by a barrier
  // Accesses before this time are ordered for threads, except `releaser`, that synchronise with it.
  u32 released = 0, releaser = 0;
};

// What all workers of a launch share.
struct LaunchState {
  static constexpr s64 kNone = std::numeric_limits<s64>::max();
  const Program& program;
  const LaunchShape& shape;
  const Options& options;
  Memory& memory;
  const Text& text;
  const LaneFunctions& functions;
  const std::byte* params;
  const void* workspace;  // the barrier of a cooperative launch
  Extent clusters;
  s64 cluster_count;
  std::atomic<s64> next_cluster{0};
  std::atomic<s64> progress{0};
  std::atomic<int> running{0}, stalled{0};
  // The first cluster with an error. Its error is reported. Earlier clusters continue.
  std::atomic<s64> failed{kNone};
  std::mutex lock;
  std::unordered_set<u64> atomic_addresses = {};
  GlobalShadow* shadow;  // null without global_racecheck
  Result& result;
};

struct BlockState {
  BlockState(const LaunchState& launch, int warp_count);

  std::array<unsigned, 3> index{};
  int rank = 0;
  Cluster* cluster = nullptr;
  Bytes registers, constants, shared, local;
  std::size_t shared_size;
  std::vector<u8> written;  // of shared memory: 0 no, 1 yes, 2 a copy is pending
  Shadow shadow;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  std::vector<BulkCopy> bulk_loads;  // into this block's shared memory
  int done = 0;
};

struct BlockCounts {
  s64 executions = 0, lanes = 0;
};

struct Worker {
  Worker(LaunchState& launch);

  LaunchState& launch;
  const Program& program;
  std::vector<SiteCache> sites;
  std::vector<AccessCounts> counts;          // per access
  std::vector<AccessCounts> copy_sources;    // per access: global loads of cp.async
  std::vector<AccessCounts> local;           // per access: counts in local memory
  std::unordered_set<u64> atomic_addresses;  // in global memory; the first kManyAddresses
  std::vector<BlockCounts> blocks;
  s64 branches = 0, divergent = 0, barriers = 0, atomics = 0, copies = 0, executed = 0;
  AccessCounts bulk_loads, bulk_stores;
  s64 changes = 0;  // stores and other progress
  s64 next_poll = 0;
  ShadowPages pages;
  alignas(64) u8 scratch[8 * kLanes];
  std::vector<double> matrices;  // operands of a product
};

// Reports the first error of the first cluster that has one; always returns false. `lane` < 0: the
// first of the warp.
bool report(Worker& worker, const Warp& warp, int line, int lane, std::string kind,
            std::string message, std::string array = "", s64 byte = 0);
SourceLine source_line(const LaunchState& launch, int line);
// Returns the line for messages: for headers of the CUDA toolkit, the line that called them.
SourceLine user_line(const LaunchState& launch, int line);
std::array<unsigned, 3> thread_of(const LaunchState& launch, int thread);
std::string triple(const std::array<unsigned, 3>& v);
std::string thread_text(const LaunchState& launch, int thread);
std::array<unsigned, 3> block_index(const LaunchState& launch, s64 cluster, int rank);
// "h" of a name such as _ZZ1kPiE1h.
std::string readable_variable(std::string_view name);

// The result of an atomic operation or a reduction.
template <class T>
T combine(AtomicOp op, T old, T operand, T second) {
  if (op == AtomicOp::kMin) return old < operand ? old : operand;
  if (op == AtomicOp::kMax) return old > operand ? old : operand;
  if (op == AtomicOp::kExchange) return operand;
  if (op == AtomicOp::kCompare) return old == operand ? second : old;
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    if (op == AtomicOp::kAdd)
      return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(operand));
    if (op == AtomicOp::kAnd) return old & operand;
    if (op == AtomicOp::kOr) return old | operand;
    if (op == AtomicOp::kXor) return old ^ operand;
    if (op == AtomicOp::kIncrement) return old >= operand ? 0 : old + 1;
    return old == 0 || old > operand ? operand : old - 1;  // kDecrement
  } else {
    return old + operand;
  }
}

// The byte of a lane's registers that a store writes `at` bytes after the lane's address.
u8 stored_byte(const Warp& warp, const Access& access, int lane, s64 at);

// kParked: another path, or another warp, runs first.
enum class Arrival { kArrived, kParked, kFailed };

// access.cpp: return false after an error.
bool load_or_store(Worker& worker, Warp& warp, const Inst& inst, u32 mask);
bool copy_async(Worker& worker, Warp& warp, const Inst& inst, u32 mask);
bool wait_copies(Worker& worker, Warp& warp, u32 mask, s64 pending);
bool atomic(Worker& worker, Warp& warp, const Inst& inst, u32 mask);
bool report_bounds(Worker& worker, const Warp& warp, const Access& a, int lane, u64 address,
                   bool write);
// The block whose shared memory an address refers to, or nullptr.
BlockState* shared_block(const Warp& warp, u64 address);
// The host address of `bytes` bytes at a generic address for one lane, or nullptr.
u8* resolve(Worker& worker, Warp& warp, u64 address, int bytes, int lane);

// bulk.cpp: mbarriers and bulk copies
bool mbarrier(Worker& worker, Warp& warp, const Inst& inst, u32 mask);
bool copy_bulk(Worker& worker, Warp& warp, const Inst& inst, u32 mask);
void wait_bulk_stores(Worker& worker, Warp& warp, u32 mask, s64 pending);
// Reports copies that nothing waited for when a warp ends.
bool check_bulk_done(Worker& worker, Warp& warp);
// What an mbarrier waits for, for a message.
std::string awaited(const Warp& warp, u64 address);

// matrix.cpp
bool multiply_matrices(Worker& worker, Warp& warp, u32 product, int line, u32 mask);
bool transpose_rows(Worker& worker, Warp& warp, const Inst& inst, int line, u32 mask);
// wgmma.fence
void fence_products(Warp& warp);
// wgmma.wait_group: returns kParked if the warp must wait for other warps of its group.
Arrival wait_products(Worker& worker, Warp& warp, s64 pending);
bool check_group(Worker& worker, Warp& warp, u32 check, int line);

// interpreter.cpp: lets the current path wait at an instruction for other lanes, and takes another
// path. Returns false if there is none that can run.
bool run_others_first(Warp& warp, int position, u32 awaits);
// Ends the lanes of waiting paths whose next instruction is an unconditional exit, because nothing
// waits for threads that have ended.
void end_idle_lanes(const Program& program, Warp& warp);
// Resumes lanes that wait for the path that polls memory. Returns false if there are none.
bool let_waiting_lanes_run(Warp& warp);

// races.cpp
bool record_shared(Worker& worker, Warp& warp, BlockState& block, const Access& access, int site,
                   const s64* offsets, Pattern pattern, s64 base, u32 mask, int bytes, bool write);
void barrier_passed(BlockState& block);
void warp_synchronised(Warp& warp, const u32* members, u32 mask);
void fence_passed(Warp& warp, bool between_blocks);

// global_races.cpp
// Lanes of the mask access `bytes` bytes at `base` plus their offset. Called before a transfer.
void record_global(Worker& worker, Warp& warp, const Access& access, u32 site, const s64* offsets,
                   u64 base, u32 mask, int bytes, bool write);
// Called after a transfer whose values may tell the threads what other blocks have done.
void observe_global(Worker& worker, Warp& warp, const s64* offsets, u64 base, u32 mask, int bytes);
// An atomic operation is recorded, executed and observed under this lock.
std::unique_lock<std::mutex> lock_updates(Worker& worker, u64 address);
void begin_order(Cluster& cluster);
void order_at_fence(Warp& warp);
void order_at_barrier(BlockState& block);
// Lets the other warps know what a warp knows, because they may wait for its strong store.
void share_known(Warp& warp);
void report_global_race(const LaunchState& launch);

// A warp that has polled memory this often yields to the others.
inline constexpr int kPollsBeforeYield = 64;

// warp_operations.cpp: everything that exchanges values between lanes, and calls of the host
Arrival warp_operation(Worker& worker, Warp& warp, const Inst& inst, int position, u32 mask);
// The end of a message, which states where a lane waits; empty if it does not wait.
std::string waits_at(const Worker& worker, const Warp& warp, int lane);

// schedule.cpp: completes the barrier of a cluster if all warps that have not ended have arrived.
void complete_cluster_barrier(Cluster& cluster);
void run_worker(LaunchState& launch);

// interpreter.cpp: runs until the warp waits, yields or ends; false after an error. Throws
// Interrupted (interrupt.hpp).
bool run_warp(Worker& worker, Warp& warp);

}  // namespace ado::emulator

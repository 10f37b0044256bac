// State of a launch while it is executed: workers (threads of the host), blocks and warps.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/program.hpp"

namespace ado::emulator {

// Memory for registers, aligned for vectors.
class Bytes {
 public:
  explicit Bytes(std::size_t size)
      : data_(static_cast<std::uint8_t*>(::operator new (size + 64, std::align_val_t{64}))),
        size_(size) {}
  std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::uint8_t, Free> data_;
  std::size_t size_;
};

// The last pattern of addresses of an access, and the costs that follow from it. Most accesses
// repeat their pattern at other addresses.
struct SiteCache {
  std::uint32_t mask = 0;  // 0: empty
  std::uint32_t phase = 0;
  std::int64_t low = 0, high = 0;  // relative to the first active lane
  std::int32_t cost = 0;           // sectors or wavefronts
  std::int32_t ideal = 0;
  std::int32_t unique = 0;  // different bytes
  Pattern pattern = Pattern::kScattered;
  Allocation* allocation = nullptr;
  alignas(64) std::int64_t offsets[kLanes];
};

struct BlockState;
struct LaunchState;
struct Warp;

// Copies of one cp.async instruction that have not been waited for.
struct PendingCopy {
  std::uint32_t mask;
  std::int64_t group;
  int bytes;
  int access;
  std::array<std::uint32_t, kLanes> to;
  std::array<std::uint64_t, kLanes> from;
  std::array<std::uint8_t, kLanes> source_bytes;
};

// A bulk copy that has been started and not waited for, or, with `arrival`, an arrival at an
// mbarrier when the thread's earlier cp.async are complete.
struct BulkCopy {
  Warp* warp;  // that started it
  int lane, access;
  BulkMode mode;
  bool arrival = false;
  BlockState* shared;    // the block whose shared memory is read or written
  std::uint32_t at = 0;  // in shared memory
  std::uint32_t bytes = 0;
  std::uint64_t other = 0;  // in global memory or, kSharedToShared, a generic address
  std::uint32_t byte_mask = 0xffff;
  std::int64_t group = 0;          // commit groups: of stores
  std::uint32_t barrier = 0;       // of loads, in `shared`
  const TensorMap* map = nullptr;  // null: `bytes` neighbouring bytes
  std::array<std::int32_t, 5> coordinates{};
};

struct StackEntry {
  int reconverges;  // block at which this path ends; -1: at the exit
  int next;         // block where execution continues
  std::uint32_t mask;
};

enum class WarpState : std::uint8_t { kReady, kBarrier, kCluster, kDone };

struct Warp {
  std::uint8_t* bases[2];  // registers; constants minus kInConstants
  std::uint32_t alive = 0, mask = 0;
  std::uint32_t branched = 0, passed = 0;  // lanes that wait for another block's branch (Joins)
  int block = 0, pc = 0;
  int reconverges = -1;
  bool resumes = false;  // inside a block
  WarpState state = WarpState::kReady;
  bool yielded = false;  // waits in a loop for another warp or block
  int index = 0;         // in the block
  int barrier = 0, strong = 0;
  bool arrived = false;  // at the cluster's barrier, in its `phase`
  std::uint64_t phase = 0;
  std::uint32_t sync_time = 0;
  std::int64_t transitions = 0;
  std::vector<StackEntry> stack;
  std::deque<PendingCopy> copies;
  std::array<std::int64_t, kLanes> commits{};
  std::vector<BulkCopy> bulk_stores;
  std::array<std::int64_t, kLanes> bulk_commits{};
  // Address of the mbarrier whose phase the warp polls; 0 if it polls none or also something else.
  std::uint64_t polled = 0;
  int polling = 0;  // position of the polling instruction
  BlockState* home = nullptr;

  std::uint8_t* at(std::uint32_t r) const { return bases[r & kInConstants] + r; }
  std::uint32_t predicate(std::uint32_t r) const {
    return *reinterpret_cast<const std::uint32_t*>(at(r));
  }
};

struct Barrier {
  int arrived = 0;  // warps
  int expected = 0;
  std::uint32_t population = 0;
  bool all = true, any = false;
};

struct Cluster {
  std::vector<std::unique_ptr<BlockState>> blocks;
  int arrived = 0;          // warps at the cluster's barrier
  std::uint64_t phase = 0;  // completed barriers
};

// The last accesses of each byte of shared memory. An entry is time << 11 | thread.
struct Shadow {
  std::vector<std::uint32_t> writers, readers;
  std::vector<std::uint16_t> writer_sites, reader_sites;
  std::uint32_t time = 1;
  std::uint32_t since = 1 << 11;  // entries below are ordered by a barrier
};

// What all workers of a launch share.
struct LaunchState {
  const Program& program;
  const LaunchShape& shape;
  const Options& options;
  Memory& memory;
  const Text& text;
  const LaneFunctions& functions;
  const std::byte* params;
  const void* workspace;  // the barrier of a cooperative launch
  Extent clusters;
  std::int64_t cluster_count;
  std::atomic<std::int64_t> next_cluster{0};
  std::atomic<std::int64_t> progress{0};
  std::atomic<int> running{0}, stalled{0};
  std::atomic<bool> failed{false};
  std::mutex lock;
  Result& result;
};

struct BlockState {
  BlockState(const LaunchState& launch, int warp_count);

  std::array<unsigned, 3> index{};
  int rank = 0;
  Cluster* cluster = nullptr;
  Bytes registers, constants, shared, local;
  std::size_t shared_size;
  std::vector<std::uint8_t> written;  // of shared memory: 0 no, 1 yes, 2 a copy is pending
  Shadow shadow;
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  std::vector<BulkCopy> bulk_loads;  // into this block's shared memory
  int done = 0;
};

struct BlockCounts {
  std::int64_t executions = 0, lanes = 0;
};

struct Worker {
  Worker(LaunchState& launch);

  LaunchState& launch;
  const Program& program;
  std::vector<SiteCache> sites;
  std::vector<AccessCounts> counts;        // per access
  std::vector<AccessCounts> copy_sources;  // per access: global loads of cp.async
  std::vector<BlockCounts> blocks;
  std::int64_t branches = 0, divergent = 0, barriers = 0, atomics = 0, copies = 0, executed = 0;
  AccessCounts bulk_loads, bulk_stores;
  std::int64_t changes = 0;  // stores and other progress
  std::int64_t next_poll = 0;
  alignas(64) std::uint8_t scratch[8 * kLanes];
};

// Reports the first error of a launch; always returns false. `lane` < 0: the first of the warp.
bool report(Worker& worker, const Warp& warp, int line, int lane, std::string kind,
            std::string message, std::string array = "", std::int64_t byte = 0);
SourceLine source_line(const LaunchState& launch, int line);
std::array<unsigned, 3> thread_of(const LaunchState& launch, int thread);
std::string thread_text(const LaunchState& launch, int thread);

// access.cpp: return false after an error.
bool load_or_store(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask);
bool copy_async(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask);
bool wait_copies(Worker& worker, Warp& warp, std::uint32_t mask, std::int64_t pending);
bool atomic(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask);
bool report_bounds(Worker& worker, const Warp& warp, const Access& a, int lane,
                   std::uint64_t address, bool write);
// The block whose shared memory an address refers to, or nullptr.
BlockState* shared_block(Warp& warp, std::uint64_t address);
// The host address of `bytes` bytes at a generic address for one lane, or nullptr.
std::uint8_t* resolve(Worker& worker, Warp& warp, std::uint64_t address, int bytes, int lane);

// bulk.cpp: mbarriers and bulk copies
bool mbarrier(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask);
bool copy_bulk(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask);
bool wait_bulk_stores(Worker& worker, Warp& warp, std::uint32_t mask, std::int64_t pending);
// Reports copies that nothing waited for when a warp ends.
bool check_bulk_done(Worker& worker, Warp& warp);
// What an mbarrier waits for, for a message.
std::string awaited(Warp& warp, std::uint64_t address);

// matrix.cpp
bool multiply_matrices(Worker& worker, Warp& warp, const MatrixProduct& product, int line,
                       std::uint32_t mask);

// races.cpp
bool record_shared(Worker& worker, Warp& warp, BlockState& block, const Access& access, int site,
                   const std::int64_t* offsets, Pattern pattern, std::int64_t base,
                   std::uint32_t mask, int bytes, bool write);
void barrier_passed(BlockState& block);
void warp_synchronised(Warp& warp);

// A warp that has polled memory this often yields to the others.
inline constexpr int kPollsBeforeYield = 64;

// warp_operations.cpp: everything that exchanges values between lanes, and calls of the host
bool warp_operation(Worker& worker, Warp& warp, const Inst& inst, int line, std::uint32_t mask);

// schedule.cpp: completes the barrier of a cluster if all warps that have not ended have arrived.
void complete_cluster_barrier(Cluster& cluster);
void run_worker(LaunchState& launch);

// interpreter.cpp: runs until the warp waits, yields or ends; false after an error. Throws
// Interrupted (interrupt.hpp).
bool run_warp(Worker& worker, Warp& warp);

}  // namespace ado::emulator

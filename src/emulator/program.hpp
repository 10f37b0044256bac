// A kernel in the form that the interpreter executes.
//
// Calls are inlined. Registers are byte offsets into memory laid out as [register][lane]; registers
// whose lives do not overlap share memory. Constants, parameters and the block's coordinates are
// registers of a second area, which all warps of a block share (kInConstants).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/lanes/table.hpp"
#include "emulator/ptx.hpp"

namespace ado::emulator {

// The lowest bit of a register's offset: the register is in the area of the constants.
inline constexpr u32 kInConstants = 1;
inline constexpr u32 kNone = 0xffffffffu;

// Generic addresses. Global addresses are host addresses. Shared and local memory have windows of
// addresses that no host pointer uses.
inline constexpr u64 kSharedWindow = 0xfff1'0000'0000'0000u;
inline constexpr u64 kLocalWindow = 0xfff2'0000'0000'0000u;
// Plus i: the address of function i of Text::callable.
inline constexpr u64 kFunctionWindow = 0xfff3'0000'0000'0000u;
// A shared address of another block of the cluster: (rank + 1) << kRankShift | offset.
inline constexpr int kRankShift = 24;

enum class Op : u8 {
  kAlu,
  kNop,
  kBranch,
  kExit,
  kLoad,
  kStore,
  kAtomic,
  kCopyAsync,
  kCommitGroup,
  kWaitGroup,  // aux: pending groups that may remain
  kCopyBulk,   // Access::extra: see BulkOperand
  kCommitBulk,
  kWaitBulk,  // aux: pending groups that may remain
  kMbarrier,  // mode: MbarrierMode; Access::extra: see MbarrierOperand
  kBarrier,   // a: index, b: threads or kNone; mode: kSync, kArrive, reductions into d
  kClusterArrive,
  kClusterWait,
  kShuffle,  // kShuffle to kWarpBarrier: Extra with predicate, members, operands
  kVote,
  kMatch,
  kWarpReduce,  // redux.sync
  kElect,
  kWarpBarrier,
  kActiveMask,
  kMatrix,         // aux: index of Program::matrices
  kTransposeRows,  // of ldmatrix and stmatrix; Extra: results and operands; mode: bits of RowsMode
  kGroupFence,     // wgmma.fence
  kGroupCommit,    // wgmma.commit_group
  kGroupWait,      // aux: pending groups that may remain
  kGroupCheck,     // aux: index of Program::group_checks
  kMapRank,  // mapa: d = address a in block b of the cluster; bytes: 4 (shared) or 8 (generic)
  kSpacePredicate,  // isspacep: mode is a Space
  kPause,           // nanosleep
  // Orders memory operations for other workers, whose processors may reorder them. mode: flags of
  // FenceMode.
  kFence,
  kClock,       // bytes 4 or 8; mode: Clock
  kPrint,       // vprintf: extra: result, format, arguments
  kAssertFail,  // extra
  kTrap,
};

// Flags of a fence: the accesses that it orders in addition to accesses within its block.
enum FenceMode : u8 {
  kBetweenBlocks = 1,  // at a scope that contains other blocks
  kBeforeAsync = 2,    // accesses before asynchronous ones
};

enum class MbarrierMode : u8 {
  kInit,
  kInvalidate,
  kArrive,  // also .expect_tx
  kArriveAndDrop,
  kExpect,
  kComplete,
  kTest,            // of the phase of a state
  kTestParity,      // of the phase with a parity
  kArriveOfCopies,  // cp.async.mbarrier.arrive; bytes 1: .noinc
  kPendingCount,    // of a state
};
enum MbarrierOperand : u8 {  // registers of an Extra
  kMbarrierResult,           // a state, a predicate or a count
  kMbarrierAddress,          // generic address of the barrier; for kPendingCount, the state
  kMbarrierValue,            // count, state or parity
  kMbarrierBytes,            // for expect_tx
};
enum BulkOperand : u8 {  // registers of an Extra
  kBulkShared = 1,       // generic address in shared memory
  kBulkOther,    // address in global memory, of a tensor map or, if `mode` is kSharedToShared, in
                 // shared memory
  kBulkBytes,    // kNone: a tensor
  kBulkBarrier,  // generic address
  kBulkBlocks,   // of the cluster, as a mask, which receive a copy
  kBulkCoordinates,  // 1 to 5
};
enum class BulkMode : u8 { kLoad, kStore, kSharedToShared };
enum class BarrierMode : u8 { kSync, kArrive, kPopulation, kAnd, kOr };
enum RowsMode : u8 { kRowsStored = 1, kRowsTransposed = 2 };
enum class ShuffleMode : u8 { kUp, kDown, kButterfly, kIndex };
enum class VoteMode : u8 { kAll, kAny, kUniform, kBallot };
enum class ClockMode : u8 { kCycles, kNanoseconds };
enum class AtomicOp : u8 {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompare,
  kIncrement,
  kDecrement
};

struct Inst {
  AluFunction alu = nullptr;
  u32 d = kNone, a = kNone, b = kNone, c = kNone;
  u32 guard = kNone;
  u32 aux = kNone;  // block of a branch, index of an access or of extra operands
  Op op = Op::kNop;
  u8 bytes = 0;  // per lane of the result
  bool guard_negated = false;
  u8 mode = 0;
};

// Registers of an instruction that has many. The first `results` are results.
struct Extra {
  std::vector<u32> registers = std::vector<u32>(32, kNone);
  int results = 1;
  u32 operator[](std::size_t i) const { return registers[i]; }
};

constexpr int element_bytes(Number type) {
  switch (type) {
    case Number::kF16:
    case Number::kBf16:
      return 2;
    case Number::kS8:
    case Number::kU8:
    case Number::kE4m3:
    case Number::kE5m2:
      return 1;
    default:
      return type == Number::kF64 ? 8 : 4;
  }
}

// A matrix product, d = a b + c: mma.sync, wmma.mma, or the part of one warp of
// wgmma.mma_async.
struct MatrixProduct {
  struct Fragment {
    Number type = Number::kF32;
    int first = 0, count = 0;  // registers of the Extra
    // wgmma: the register is a descriptor of a matrix in shared memory.
    bool shared = false, transposed = false;
  };
  int m = 0, n = 0, k = 0;
  bool opaque = false;     // wmma: the layout of fragments is the emulator's own
  bool saturates = false;  // integers
  bool negated = false;    // d = c - a b
  u32 extra = kNone;
  Fragment d, a, b, c;
  // wgmma: the access to shared memory, and the register of the Extra that tells whether c counts.
  u32 access = kNone;
  int scale = 0;
};

// A place where registers of wgmma.mma_async are used.
struct GroupCheck {
  std::vector<u32> running = {};  // products that must not be running
  std::vector<u32> unfenced =
      {};               // checks that must not have been passed since the last wgmma.fence
  bool marks = false;   // the check is in `unfenced` of another one
  bool writes = false;  // for the message
  int line = 0;         // index of Program::lines
};

// One load, store or atomic instruction.
struct Access {
  Space space = Space::kGeneric;
  bool store = false, atomic = false, strong = false;  // strong as in PTX, or without L1
  // Accesses by which threads may synchronise: atomics and strong ones, volatile ones only in
  // kernels with fences. They do not race with each other.
  bool synchronises = false;
  // Strong at a scope that contains other blocks, or a plain load before an atomic operation on the
  // same address, such as the first load of a loop with atomicCAS.
  bool between_blocks = false;
  bool is_signed = false, is_float = false;
  AtomicOp operation = AtomicOp::kAdd;
  bool counts_lanes = false;  // adds 1, result unused: the hardware adds the lane count
  u8 element_bytes = 0, register_bytes = 0, count = 1, address_bytes = 8;
  u32 lanes = kAllLanes;  // that access memory
  MoveFunction move = nullptr;
  AluFunction combine = nullptr;  // of an atomic on 16-bit floats
  u32 extra = kNone;              // of a bulk copy or an mbarrier
  u32 address = kNone;
  s64 offset = 0;
  // Registers. Atomics on vectors: operands, then old values from kOldValues on (kNone: red).
  std::array<u32, 16> data = {};
  static constexpr int kOldValues = 8;
  // Other atomics: old value (kNone: red), operand, second operand; copies: source address, source
  // bytes, predicate.
  u32 result = kNone, operand = kNone, second = kNone;
  s64 source_offset = 0;
  int line = 0;  // index of Program::lines
  // The bytes of shared memory that the address may refer to.
  u32 variable = 0;  // 1 + index of Program::variables; 0: all
  s64 first = 0, last = std::numeric_limits<s64>::max();
  int bytes() const { return element_bytes * count; }
  bool uses_old_value() const {
    return result != kNone || (count > 1 && data[kOldValues] != kNone);
  }
};

enum class Source : u8 {
  kBits,
  kParam,          // `bits`: offset in the parameters
  kParamAddress,   // host address of the parameters plus `bits`
  kBlock,          // `bits`: a BlockValue
  kDynamicShared,  // only while decoding: start of dynamic shared memory plus `bits`
};
enum BlockValue : u8 {  // each with x, y, z
  kThreads = 0,
  kBlockIndex = 3,
  kBlocks = 6,
  kClusterIndex = 9,
  kClusters = 12,
  kIndexInCluster = 15,
  kClusterBlocks = 18,
  kRank = 21,
  kClusterSize = 22,
  kMultiprocessor = 23,
  kDynamicShared = 24,
  kTotalShared = 25,
  kWorkspaceLow = 26,  // address of the barrier of a cooperative launch
  kWorkspaceHigh = 27,
  kMultiprocessors = 28,
  kBlockValues = 29,
};

struct Constant {
  Source source;
  u8 bytes;       // per lane
  u8 read_bytes;  // of a parameter
  bool sign_extended;
  u64 bits;
  u32 variable = 0;  // as in Access
  u32 offset = 0;    // in the area of the constants
};

// The first registers of a thread.
enum class ThreadValue : u8 {
  kX,
  kY,
  kZ,
  kLane,
  kWarp,
  kMaskEqual,
  kMaskLess,
  kMaskLessEqual,
  kMaskGreater,
  kMaskGreaterEqual
};
inline constexpr u32 kThreadValues = 10;
// A variable in shared memory. The last byte of dynamic memory is known at the launch.
struct SharedVariable {
  std::string_view name;
  s64 first = 0, last = std::numeric_limits<s64>::max();
};

using OperationCounts = std::array<int, kCounted>;  // per lane

struct LineCost {
  int line;
  int instructions = 0;
  OperationCounts operations = {};
};

struct Block {
  int begin = 0, end = 0;
  int reconverges = -1;   // block; -1: only at the exit
  bool backward = false;  // may branch to an earlier block
  // Unless kNo, this block and the next ones compute one condition, such as `a && (b || c)`. The
  // compiler turns it into one branch to `target`. Lanes that branch at the end of this block take
  // that branch (kBranching) or skip it (kGoingOn).
  enum class Joins : u8 { kNo, kBranching, kGoingOn } joins = Joins::kNo;
  int target = -1;
  int on = -1;  // the block after the condition
  int instructions = 0;
  std::vector<LineCost> costs;
};

struct Program {
  std::string name;
  std::vector<Inst> code;
  std::vector<int> line_of_code;  // index of lines, for errors
  std::vector<Block> blocks;
  std::vector<Access> accesses;
  std::vector<Extra> extras;
  std::vector<MatrixProduct> matrices;
  std::vector<GroupCheck> group_checks;
  bool uses_groups = false;  // contains wgmma
  std::vector<Constant> constants;
  std::vector<Line> lines;
  std::vector<SharedVariable> variables;
  u32 register_bytes = 0, constant_bytes = 0;
  u32 static_shared = 0, local_bytes = 0, param_bytes = 0;
  u32 shared_end = 0;  // of static shared memory; dynamic one begins at `static_shared`
  // Shared memory of cooperative groups for tiles of several warps; kNone: not used.
  u32 reserved_shared = kNone;
  static constexpr u32 kReservedBytes = 288;
  int required_threads = 0, max_threads = 1024;
  std::array<int, 3> cluster = {0, 0, 0};
  // The instruction that needs the latest compute capability (times ten), with its line.
  struct {
    int compute = 0;
    std::string instruction = {};
  } newest;
};

// flow.cpp: splits code into blocks, finds where divergent branches reconverge, and assigns memory
// to registers. Before this step, operands are numbers of registers of `bytes`, or of constants
// (highest bit).
inline constexpr u32 kConstantBit = 0x80000000u;
struct Cost {
  int position;  // in the code
  int line;
  OperationCounts operations = {};
};
void finish_program(Program& program, const std::vector<u8>& register_bytes,
                    const std::vector<int>& label_positions, const std::vector<Cost>& costs);

// decode.cpp
struct ModuleAddresses {  // of the module's global and constant variables, and of its functions
  std::unordered_map<std::string_view, u64> address;
};
Program decode(Text& text, Function& entry, const ModuleAddresses& addresses);

}  // namespace ado::emulator

// Executes CUDA kernels on the CPU, from PTX, and counts what they do.
//
//   Memory memory;
//   memory.add(a.data(), bytes, "a", true);
//   Module module = Module::load(ptx, memory);
//   Result result =
//       launch(module, "_Z4copyPKfPf", {.grid = {8}, .block = {256}}, params, memory, {});
//
// Device pointers are addresses of this process. A kernel may access only ranges that were added to
// its Memory. Blocks are executed on the threads of the pool; warps execute in lockstep and diverge
// until the immediate post-dominator of the branch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/variant.hpp"

namespace ado::emulator {

// A range of device memory.
struct Allocation {
  std::uint64_t begin = 0, end = 0;
  std::string name;
  bool writable = true;
  bool internal = false;  // made by the emulator or the package: messages do not name it
  // One byte per byte of the range: 1 if it has been written. Empty: all bytes have been.
  std::vector<std::uint8_t> written;

  bool holds(std::uint64_t address, std::uint64_t bytes) const {
    return address >= begin && address <= end && bytes <= end - address;
  }
};

class Memory {
 public:
  // `initialised`: the contents are defined. Otherwise reads before writes are errors (initcheck).
  void add(const void* data, std::size_t bytes, std::string name, bool initialised,
           bool writable = true, bool internal = false);
  void remove(const void* data);
  // Marks bytes as written by the host.
  void mark_written(const void* data, std::size_t bytes);
  // Marks copied bytes as written if their source has been written or is memory of the host.
  void mark_copied(const void* to, const void* from, std::size_t bytes);

  // The range that contains the address, or the nearest one before it, or nullptr.
  Allocation* find(std::uint64_t address) const;
  // The range that a message names for an address out of bounds: the nearest range before or after
  // the address, without internal ranges; nullptr if none is less than 64 KiB away.
  const Allocation* nearest(std::uint64_t address) const;

 private:
  std::map<std::uint64_t, std::unique_ptr<Allocation>> ranges_;  // by the first address
};

// The content of a CUtensorMap in the emulator's own encoding, because the encoding of
// cuTensorMapEncodeTiled is not documented. The caller writes a TensorMap into the 128 bytes, from
// which bulk tensor copies read it.
struct alignas(64) TensorMap {
  static constexpr std::uint64_t kMark = 0x70616d2d6f6461ff;

  std::uint64_t mark = kMark;              // distinguishes it from other bytes
  std::uint64_t address = 0;               // of the first element
  std::array<std::uint32_t, 5> lengths{};  // elements; dimension 0 is contiguous
  std::array<std::uint64_t, 4> strides{};  // bytes between neighbours in dimensions 1 to 4
  std::array<std::uint16_t, 5> box{};      // elements
  std::array<std::uint8_t, 5> steps{1, 1, 1, 1, 1};  // distance between elements of a box
  std::uint8_t dimensions = 1, element_bytes = 1;
  std::uint8_t swizzle_bytes = 0;  // 0, 32, 64 or 128
  bool nan_outside = false;        // fills the part of a box outside the tensor with NaN, not 0
};
static_assert(sizeof(TensorMap) == 128);

// The optional checks. Bounds and alignment are always checked.
struct Checks {
  bool racecheck = false;         // races in shared memory
  bool global_racecheck = false;  // races in global memory between blocks
  bool initcheck = false;  // reads of uninitialised global memory, missing waits for cp.async
  bool synccheck = false;  // barriers and warp operations with missing threads
  // Reads of uninitialised shared memory. Kernels that read whole vectors and ignore a part of them
  // are also reported.
  bool shared_initcheck = false;
};

struct Options {
  Checks checks;
  int threads = 0;                         // 0: as many as for the CPU routines
  std::int64_t max_block_transitions = 0;  // per warp; 0: unlimited
  // The emulated GPU: its compute capability times ten, and its shared memory per block. PTX for a
  // later capability is executed if its instructions exist on the GPU.
  int compute = 90, multiprocessors = 132;
  std::int64_t shared_bytes = 227 << 10;
};

struct LaunchShape {
  Extent grid, block;
  Extent cluster{1, 1, 1};
  std::size_t dynamic_shared_bytes = 0;
};

// A position in the sources. `outer`: where the function that contains it was inlined.
struct SourceLine {
  std::string file, outer_file;
  int line = 0, outer_line = 0;
  std::string text() const { return file + ":" + std::to_string(line); }
};

struct Error {
  std::string kind;     // "out of bounds", "race", ...
  std::string message;  // a whole sentence
  SourceLine at;
  std::array<unsigned, 3> thread{}, block{};
  std::string array;      // empty if unknown
  std::int64_t byte = 0;  // within the array; may be negative or beyond its end
  std::string text() const;
};

// Lanes of an atomic operation that update the same address are served one after another. `sectors`
// and `wavefronts` contain these repetitions, as the hardware's counters do. In global memory, a
// sector counts once per lane that updates its most frequent address. In shared memory, the
// wavefronts are the largest number of lanes that update one bank. `ideal` excludes repetitions.
struct AccessCounts {
  std::int64_t requests = 0;    // per warp
  std::int64_t lanes = 0;       // active lanes of all requests
  std::int64_t bytes = 0;       // of all lanes
  std::int64_t unique = 0;      // global memory: different bytes of each request
  std::int64_t sectors = 0;     // global and local memory: 32 bytes each
  std::int64_t wavefronts = 0;  // shared memory; constant memory: different addresses
  std::int64_t ideal = 0;       // least sectors or wavefronts for the same bytes
  AccessCounts& operator+=(const AccessCounts& other);
};

// Counted operations. An FMA is two FLOPs, and is counted as fused, too. `expanded`: FLOPs of the
// instructions by which the hardware computes quotients, roots and other functions
// (decode_costs.cpp). The hardware's counters show flop32 + expanded32 and flop64 + expanded64.
enum class Counted : std::uint8_t {
  kFlop16,
  kFlop32,
  kFlop64,
  kDivide32,
  kDivide64,
  kRoot32,
  kRoot64,
  kSpecial32,
  kExpanded32,
  kExpanded64,
  kFused32,
  kFused64,
  kInstruction64,  // instructions that compute with float64 or convert it
  kCount
};
inline constexpr int kCounted = static_cast<int>(Counted::kCount);
using Operations = std::array<std::int64_t, kCounted>;

// What the instructions of a line or of a launch have done.
struct Work {
  std::int64_t instructions = 0;  // PTX instructions per warp; not the hardware's
  std::int64_t lanes = 0;         // active lanes of all instructions
  Operations operations{};
  AccessCounts global_loads, global_stores, global_atomics, shared_loads, shared_stores,
      shared_atomics, local_loads, local_stores, constant_loads;
};

struct LineCounts : Work {
  SourceLine at;
};

struct Counts : Work {
  std::int64_t blocks = 0, warps = 0;
  std::int64_t branches = 0, divergent_branches = 0;
  std::int64_t barriers = 0;      // per warp
  std::int64_t atomics = 0;       // per warp
  std::int64_t async_copies = 0;  // per warp; their sectors are among the global loads
  // Different addresses of atomic operations in global memory, counted up to kManyAddresses.
  static constexpr std::size_t kManyAddresses = 1024;
  std::int64_t atomic_addresses = 0;
  // Global memory of bulk copies, which the hardware does not count as loads and stores. One
  // request per copy.
  AccessCounts bulk_loads, bulk_stores;
  std::vector<LineCounts> lines;
};

struct Result {
  Counts counts;
  std::optional<Error> error;  // the first one
  std::string output;          // of printf
};

struct Parameter {
  std::size_t offset, bytes;
};

struct Text;
struct Program;

// A module's code and variables. Kernels are decoded when they are first launched.
class Module {
 public:
  // Throws PtxError (ptx.hpp). The module's variables are added to the memory.
  static std::unique_ptr<Module> load(std::string ptx, Memory& memory);
  ~Module();

  std::vector<std::string_view> entries() const;
  // The layout of a kernel's parameters.
  std::vector<Parameter> parameters(std::string_view entry) const;
  // The address and size of a global or constant variable, or {nullptr, 0}.
  std::span<std::byte> variable(std::string_view name) const;
  // Decodes a kernel. Throws PtxError with the source line for an instruction that is not
  // supported.
  const Program& program(std::string_view entry);
  std::size_t shared_bytes(std::string_view entry);  // static

 private:
  Module() = default;
  std::unique_ptr<Text> text_;
  Memory* memory_ = nullptr;
  struct Storage;
  std::unique_ptr<Storage> storage_;
  friend Result launch(Module&, std::string_view, const LaunchShape&, std::span<const std::byte>,
                       Memory&, const Options&);
};

// Executes a kernel. `params`: bytes in the layout of `parameters`. Throws PtxError for an
// instruction that the emulator or the emulated GPU does not support, and Interrupted
// (interrupt.hpp).
Result launch(Module& module, std::string_view entry, const LaunchShape& shape,
              std::span<const std::byte> params, Memory& memory, const Options& options);

}  // namespace ado::emulator

// Variant: everything known about one implementation of a routine, declared once.
//
// A variant is a constexpr aggregate with designated initialisers, defined below the kernels of its
// ladder. The registry, the Python API, the tests, the benchmarks, the charts, the tables
// of the documentation and the stubs read variants. None of them keeps its own list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/isa.hpp"

namespace ado {

namespace cuda {
struct KernelRecorder;
}

enum class Device : std::uint8_t { kCpu, kCuda };

// The shape of a grid or a block. x = 0: no grid or block.
struct Extent {
  unsigned x = 0, y = 1, z = 1;
  constexpr std::size_t volume() const { return static_cast<std::size_t>(x) * y * z; }
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

// The block shapes that a variant supports. The first is the default. CPU variants have none.
using Blocks = std::array<Extent, 6>;

// The processor that runs a call. Grids, costs and choices are functions of the problem and of
// these properties. All are 0 on the CPU.
struct Hardware {
  int compute = 0;          // compute capability times ten
  int multiprocessors = 0;  // of the current context; a green context owns a part of the GPU
  int threads_per_multiprocessor = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_bytes = 0;  // maximum per block; 0: unknown
  std::int64_t shared_bytes_per_multiprocessor = 0;
  double core_hertz = 0;
  double memory_bandwidth = 0;  // bytes per second, from clock and bus width
  friend constexpr bool operator==(const Hardware&, const Hardware&) = default;
};

// A function of a routine's problem that may take the hardware as its last argument.
template <class Signature>
class Formula;
template <class Result, class... Arguments>
class Formula<Result(Arguments...)> {
 public:
  constexpr Formula() = default;
  constexpr Formula(std::nullptr_t) {}
  template <class Function>
  requires std::is_invocable_r_v<Result, Function, Arguments...>
  constexpr Formula(Function function) : of_problem_(function) {}
  template <class Function>
  requires std::is_invocable_r_v<Result, Function, Arguments..., const Hardware&>
  constexpr Formula(Function function) : of_both_(function) {}

  constexpr explicit operator bool() const { return of_problem_ != nullptr || of_both_ != nullptr; }
  ADO_INLINE Result operator()(Arguments... arguments, const Hardware& hardware) const {
    return of_both_ != nullptr ? of_both_(arguments..., hardware) : of_problem_(arguments...);
  }

 private:
  Result (*of_problem_)(Arguments...) = nullptr;
  Result (*of_both_)(Arguments..., const Hardware&) = nullptr;
};

// The launch parameters of one call. Only the variant determines the grid and the shared memory, so
// the reported values equal the launched values.
struct Launch {
  Extent grid;
  Extent block;
  std::size_t shared_bytes = 0;
  std::byte* scratch = nullptr;  // on the variant's device, of the size scratch_bytes()
  void* stream = nullptr;        // a cudaStream_t
  Hardware hardware;
  // Dry run: kernels are recorded here instead of launched, and no pointer is dereferenced.
  cuda::KernelRecorder* recorder = nullptr;
};

// The categories of the changes that optimisation steps make. Python:
// adokernels.records.limiter.Step.
enum class Step : std::uint8_t {
  kUnstated,  // the first variant of a ladder changes nothing
  kOther,     // none of the categories below
  kCoalescing,
  kBankConflicts,
  kParallelism,
  kOccupancy,
  kInFlight,
  kWider,
  kReuse,
  kOperations,
  kFma,
  kDivergence,
  kSpills,
  kBarriers,
  kDramReuse,
  kFusion,
};
// The change that a variant makes: one sentence, and the categories of the change.
struct Change {
  static constexpr std::size_t kMaxSteps = 7;
  const char* text;
  std::array<Step, kMaxSteps> steps;
  template <class... Category>
  constexpr Change(const char* sentence, Category... category)
      : text(sentence), steps{category...} {}
};

// One stage of a pipeline: a variant of another routine.
struct Stage {
  const char* routine = nullptr;
  const char* variant = nullptr;
};
using Stages = std::array<Stage, 4>;

template <class Routine>
struct Variant {
  const char* name;
  Change changes;        // the difference from the previous variant
  int min_compute = 75;  // compute capability times ten
  bool ceiling = false;  // moves the bytes but does not compute the result; never the default

  // Returns the reason why this variant cannot solve the problem, or nullptr. The reason is a
  // string literal, so no memory is allocated.
  const char* (*why_not)(const Routine&) = nullptr;
  // Returns the reason why another variant is faster for the problem, or nullptr. The variant is
  // then not chosen as the default, but a call can still name it. The limits are measured
  // crossovers.
  Formula<const char*(const Routine&)> why_slower = {};

  Blocks blocks = {};
  Formula<Extent(const Routine&, Extent block)> grid = {};
  Formula<std::size_t(const Routine&, Extent block)> shared_bytes = {};
  Formula<std::size_t(const Routine&)> scratch_bytes = {};

  Stages stages = {};  // of a pipeline: variants of other routines, in order

  // Executed FLOPs and requested bytes. Empty: equal to the routine's useful FLOPs and compulsory
  // bytes. FLOPs are the additions and multiplications in float32 and float64, including operations
  // whose results are not needed. An FMA counts as two. On the GPU, a division or a square root
  // counts as the operations that replace it. On the CPU, it counts as one.
  Formula<double(const Routine&)> flops = {};
  Formula<double(const Routine&)> bytes = {};
  // Floating-point instructions per lane. An FMA is one instruction with two FLOPs. Empty: not
  // counted.
  Formula<double(const Routine&)> instructions = {};

  void (*run)(const Routine&, const Launch&) = nullptr;  // nullptr: not in this build
};

// A ladder: variants in order. std::span is not used, because it would instantiate out-of-line
// functions in files that are compiled for one instruction set (isa.hpp).
template <class Routine>
struct Ladder {
  const Variant<Routine>* variants = nullptr;
  std::size_t size = 0;
  const Variant<Routine>* begin() const { return variants; }
  const Variant<Routine>* end() const { return variants + size; }
};

// The launch parameters of a variant with one of its blocks. The caller sets scratch, stream and
// recorder.
template <class Routine>
ADO_INLINE Launch launch_of(const Variant<Routine>& variant, const Routine& problem, Extent block,
                            const Hardware& hardware) {
  Launch launch;
  launch.hardware = hardware;
  if (!variant.grid) return launch;
  launch.block = block;
  launch.grid = variant.grid(problem, block, hardware);
  if (variant.shared_bytes) launch.shared_bytes = variant.shared_bytes(problem, block, hardware);
  return launch;
}

template <class Routine, std::size_t kSize>
constexpr Ladder<Routine> ladder_of(const Variant<Routine> (&variants)[kSize]) {
  return {variants, kSize};
}

}  // namespace ado

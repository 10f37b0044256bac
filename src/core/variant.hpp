// Variant: everything known about one implementation of a routine, declared once.
//
// A variant is a constexpr aggregate with designated initialisers, defined below the kernels of its
// ladder. The registry, the Python API, the tests, the benchmarks, the charts, the README tables
// and the stubs read variants. None of them keeps its own list.
#pragma once

#include <array>
#include <cstddef>

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

// The launch parameters of one call. Only the variant determines the grid and the shared memory, so
// the reported values equal the launched values.
struct Launch {
  Extent grid;
  Extent block;
  std::size_t shared_bytes = 0;
  std::byte* scratch = nullptr;  // on the variant's device, of the size scratch_bytes()
  void* stream = nullptr;        // a cudaStream_t
  // Dry run: kernels are recorded here instead of launched, and no pointer is dereferenced.
  cuda::KernelRecorder* recorder = nullptr;
};

// Properties of the current GPU on which the choice of the default variant depends.
struct Hardware {
  int multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_bytes = 0;  // maximum per block; 0: unknown
};

// One step of a pipeline: a variant of another routine.
struct Stage {
  const char* routine = nullptr;
  const char* variant = nullptr;
};
using Stages = std::array<Stage, 4>;

template <class Routine>
struct Variant {
  const char* name;
  const char* changes;   // one sentence: the difference from the previous variant
  int min_compute = 75;  // compute capability times ten
  bool ceiling = false;  // moves the bytes but does not compute the result; never the default

  // Returns the reason why this variant cannot solve the problem, or nullptr. The reason is a
  // string literal, so no memory is allocated.
  const char* (*why_not)(const Routine&) = nullptr;
  // Returns the reason why another variant is faster for the problem, or nullptr. The variant is
  // then not chosen as the default, but a call can still name it. The limits are measured
  // crossovers.
  const char* (*why_slower)(const Routine&, const Hardware&) = nullptr;

  Blocks blocks = {};
  Extent (*grid)(const Routine&, Extent block) = nullptr;
  std::size_t (*shared_bytes)(const Routine&, Extent block) = nullptr;
  std::size_t (*scratch_bytes)(const Routine&) = nullptr;

  Stages stages = {};  // of a pipeline: variants of other routines, in order

  // Executed FLOPs and requested bytes. nullptr: equal to the routine's useful FLOPs and compulsory
  // bytes. FLOPs are the additions and multiplications in float32 and float64, including operations
  // whose results are not needed. An FMA counts as two. On the GPU, a division or a square root
  // counts as the operations that replace it. On the CPU, it counts as one.
  double (*flops)(const Routine&) = nullptr;
  double (*bytes)(const Routine&) = nullptr;
  // Floating-point instructions per lane. An FMA is one instruction with two FLOPs. nullptr: not
  // counted.
  double (*instructions)(const Routine&) = nullptr;

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
ADO_INLINE Launch launch_of(const Variant<Routine>& variant, const Routine& problem, Extent block) {
  Launch launch;
  if (variant.grid == nullptr) return launch;
  launch.block = block;
  launch.grid = variant.grid(problem, block);
  if (variant.shared_bytes != nullptr) launch.shared_bytes = variant.shared_bytes(problem, block);
  return launch;
}

template <class Routine, std::size_t kSize>
constexpr Ladder<Routine> ladder_of(const Variant<Routine> (&variants)[kSize]) {
  return {variants, kSize};
}

}  // namespace ado

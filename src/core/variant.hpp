// Variant: everything known about one implementation of a routine, declared once.
//
// A variant stands directly below its kernel as a constexpr aggregate of designated initialisers.
// The registry, the Python API, the tests, the benchmarks, the charts, the README tables and the
// stubs read variants; none of them keeps a list of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/isa.hpp"

namespace ado {

namespace cuda {
struct KernelRecorder;
}

enum class Device : std::uint8_t { kCpu, kCuda };

// The shape of a grid or a block. x = 0: there is none.
struct Extent {
  unsigned x = 0, y = 1, z = 1;
  constexpr std::size_t volume() const { return static_cast<std::size_t>(x) * y * z; }
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

// Block shapes worth trying; the first is the default. A CPU variant has none.
using Blocks = std::array<Extent, 6>;

// The launch parameters of one call. The variant declares grid and shared memory and nothing else
// decides them, so the reported values are the values that ran.
struct Launch {
  Extent grid;
  Extent block;
  std::size_t shared_bytes = 0;
  std::byte* scratch = nullptr;  // on the variant's device, with the size that it asked for
  void* stream = nullptr;        // a cudaStream_t
  // Dry run: kernels are recorded here instead of being launched, and no pointer is followed.
  cuda::KernelRecorder* recorder = nullptr;
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
  const char* changes;  // one sentence: the difference from the previous variant
  Device device = Device::kCpu;
  const char* precision = "exact";
  int min_compute = 75;  // compute capability times ten
  bool ceiling = false;  // moves the bytes but does not compute the answer: never the default

  // Why this variant cannot solve this problem, or has nothing to add to it; nullptr if it can. The
  // text is a string literal, so that variants need no memory.
  const char* (*why_not)(const Routine&) = nullptr;

  Blocks blocks = {};
  Extent (*grid)(const Routine&, Extent block) = nullptr;
  std::size_t (*shared_bytes)(const Routine&, Extent block) = nullptr;
  std::size_t (*scratch_bytes)(const Routine&) = nullptr;

  Stages stages = {};  // of a pipeline, which runs variants of other routines in order

  // Executed FLOPs and requested bytes. Null: the routine's useful FLOPs and compulsory bytes.
  double (*flops)(const Routine&) = nullptr;
  double (*bytes)(const Routine&) = nullptr;
  // Floating-point instructions per lane, where an FMA does two FLOPs and any other instruction
  // one. Null: not counted.
  double (*instructions)(const Routine&) = nullptr;

  void (*run)(const Routine&, const Launch&) = nullptr;  // null: not in this build
};

// A ladder: variants in order. (std::span would instantiate out-of-line functions in files that are
// compiled for one instruction set; see isa.hpp.)
template <class Routine>
struct Ladder {
  const Variant<Routine>* variants = nullptr;
  std::size_t size = 0;
  const Variant<Routine>* begin() const { return variants; }
  const Variant<Routine>* end() const { return variants + size; }
};

// The launch of a variant with one of its blocks; the caller adds scratch, stream and recorder.
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

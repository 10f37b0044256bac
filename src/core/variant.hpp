// The row: everything there is to know of one implementation of a routine, said once.
//
// A row stands directly under its kernel as a constexpr aggregate of designated initialisers. The
// registry, the Python API, the tests, the benchmark, the roofline, the README tables, the stubs
// and the notebooks read rows; none keeps a list of its own.
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

// A grid or a block; none if x is 0.
struct Extent {
  unsigned x = 0, y = 1, z = 1;
  constexpr std::size_t volume() const { return static_cast<std::size_t>(x) * y * z; }
  friend constexpr bool operator==(const Extent&, const Extent&) = default;
};

// Block shapes worth trying; the first is the default and a row of the CPU has none.
using Blocks = std::array<Extent, 6>;

// What one call runs with. The row says grid and shared memory; nothing else decides them, so what
// is printed is what ran.
struct Launch {
  Extent grid;
  Extent block;
  std::size_t shared_bytes = 0;
  std::byte* scratch = nullptr;  // of the size that the row asked for, on the row's device
  void* stream = nullptr;        // a cudaStream_t
  // Dry run: kernels are recorded here instead of being launched, and no pointer is followed.
  cuda::KernelRecorder* recorder = nullptr;
};

// One of the kernels that a variant of a pipeline runs in turn: which row of which routine.
struct Stage {
  const char* routine = nullptr;
  const char* variant = nullptr;
};
using Stages = std::array<Stage, 4>;

template <class Routine>
struct Variant {
  const char* name;
  const char* changes;  // the one sentence: what differs from the rung below
  Device device = Device::kCpu;
  const char* precision = "exact";
  int min_compute = 75;  // compute capability times ten
  bool ceiling = false;  // moves the bytes but is not the answer: never the default, never checked

  // Why this variant cannot do this problem, or nullptr. A literal, so that rows need no memory.
  const char* (*why_not)(const Routine&) = nullptr;

  Blocks blocks = {};
  Extent (*grid)(const Routine&, Extent block) = nullptr;
  std::size_t (*shared_bytes)(const Routine&, Extent block) = nullptr;
  std::size_t (*scratch_bytes)(const Routine&) = nullptr;

  Stages stages = {};  // of a variant that runs rows of other ladders; those must never refuse

  // What this implementation executes and asks of memory. Null: the routine's useful FLOPs and its
  // compulsory bytes.
  double (*flops)(const Routine&) = nullptr;
  double (*bytes)(const Routine&) = nullptr;
  // Floating-point instructions of a lane, of which an FMA does two FLOPs and any other one. Null:
  // not counted.
  double (*instructions)(const Routine&) = nullptr;

  void (*run)(const Routine&, const Launch&) = nullptr;  // null: not in this build
};

// A ladder: rows in order. (std::span would drag its out-of-line parts into files compiled for
// one instruction set; see isa.hpp.)
template <class Routine>
struct Ladder {
  const Variant<Routine>* rows = nullptr;
  std::size_t size = 0;
  const Variant<Routine>* begin() const { return rows; }
  const Variant<Routine>* end() const { return rows + size; }
};

// How a row runs a problem with one of its blocks; scratch and stream are the caller's to add.
template <class Routine>
ADO_INLINE Launch launch_of(const Variant<Routine>& row, const Routine& problem, Extent block) {
  Launch launch;
  if (row.grid == nullptr) return launch;
  launch.block = block;
  launch.grid = row.grid(problem, block);
  if (row.shared_bytes != nullptr) launch.shared_bytes = row.shared_bytes(problem, block);
  return launch;
}

template <class Routine, std::size_t kSize>
constexpr Ladder<Routine> ladder_of(const Variant<Routine> (&rows)[kSize]) {
  return {rows, kSize};
}

}  // namespace ado

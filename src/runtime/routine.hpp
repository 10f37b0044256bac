// Type-erased routines and variants, for listing, selecting and running.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/operand.hpp"
#include "core/variant.hpp"
#include "runtime/option.hpp"
#include "runtime/problem.hpp"
#include "runtime/shape_rule.hpp"

namespace ado {

struct OperandInfo {
  const char* name;
  const char* doc;
  ShapeRule shape;
  TypeRule type;
  int same_as = -1;  // index of the input with the same type; -1: none

  // "float32 or float64", or "the type of a".
  std::string type_text() const;
};

struct OptionInfo {
  const char* name;
  const char* doc;
  OptionType type;
  OptionValue default_value;
};

// The processor on which a call runs.
struct Target {
  Device device = Device::kCpu;
  Hardware hardware = {};
  bool assumed = false;  // another machine's hardware; this machine does not need a GPU
};
// The target of work on a stream of the current device. Without a usable GPU, costs and launches of
// CUDA variants are computed for kReferenceGpu.
Target target_of(Device device, void* stream = nullptr);
// An H200, on which most measured constants were found.
extern const Hardware kReferenceGpu;

const char* name_of(Step step);  // as in Python

// A type-erased variant. Its functions accept problems of its own routine only.
class AnyVariant {
 public:
  AnyVariant() = default;
  AnyVariant(const AnyVariant&) = delete;
  AnyVariant& operator=(const AnyVariant&) = delete;
  virtual ~AnyVariant() = default;

  const char* name = nullptr;
  Change changes = nullptr;
  const char* precision = "exact";
  Device device = Device::kCpu;
  int min_compute = 0;  // compute capability times ten; 0 on the CPU
  bool ceiling = false;
  bool built = false;
  bool models_flops = false;   // whether it has a formula of its executed FLOPs
  std::vector<Extent> blocks;  // as declared; empty: takes no block
  mutable std::atomic<std::size_t> default_block = 0;  // an index into blocks; users can change it
  std::vector<Stage> stages;

  bool available_on(const Target& target) const;
  bool available() const;  // true if why_unavailable() is empty; formats no text
  // Empty if the variant can run on this machine. For a CUDA variant, the call starts the driver.
  std::string why_unavailable() const;

  virtual const char* why_not(const Problem& problem) const = 0;  // nullptr if it can solve it
  // The reason why another variant is faster, or nullptr.
  virtual const char* why_slower(const Problem& problem, const Hardware& hardware) const = 0;
  virtual Launch launch(const Problem& problem, Extent block, const Hardware& hardware) const = 0;
  virtual std::size_t scratch_bytes(const Problem& problem, const Hardware& hardware) const = 0;
  virtual double executed_flops(const Problem& problem, const Hardware& hardware) const = 0;
  virtual double requested_bytes(const Problem& problem, const Hardware& hardware) const = 0;
  // 0: not counted
  virtual double executed_instructions(const Problem& problem, const Hardware& hardware) const = 0;
  virtual void run(const Problem& problem, const Launch& launch) const = 0;
};

using AnyLadder = std::vector<std::unique_ptr<AnyVariant>>;

// The shape and element type of one operand.
struct OperandType {
  std::string name;
  std::vector<std::int64_t> shape;
  ElementType type;
};

// Lengths by name, to determine shapes without arrays.
using NamedLengths = std::vector<std::pair<std::string, std::int64_t>>;

// A variant that a call skips by default, although it comes later in the ladder than the selected
// variant, and the reason.
struct Skipped {
  const AnyVariant* variant;
  std::string reason;
};

class Routine {
 public:
  Routine() = default;
  Routine(const Routine&) = delete;
  Routine& operator=(const Routine&) = delete;

  std::string name, summary, source;
  std::vector<OperandInfo> inputs, outputs;
  std::vector<OptionInfo> options;
  std::vector<std::string> dimensions;  // names of the inputs' lengths, in order of appearance
  std::vector<std::string> lengths;     // dimensions, and the length that only results have

  // A result pixel depends on the pixels up to this distance along rows and columns. Empty if the
  // routine is not an image filter.
  std::optional<int> halo;

  bool batched() const;  // whether operands take batch dimensions

  // All variants in ladder order: first CPU (for the current instruction set), then CUDA.
  std::vector<const AnyVariant*> variants() const;
  const AnyVariant& find(std::string_view variant) const;  // throws NameError
  // Returns the variant that a call runs by default: the last variant of the device's ladder that
  // is available, is not a ceiling, can solve the problem and is not known to be slower than
  // another variant. Throws Unavailable or ValueError if there is none. `skipped` receives the
  // later variants, the last one first.
  const AnyVariant& choose(const Problem& problem, const Target& target,
                           std::vector<Skipped>* skipped = nullptr) const;

  std::unique_ptr<Problem> new_problem() const { return make_problem_(*this); }
  std::optional<std::size_t> find_option(std::string_view option) const;  // an index into options

  // Returns the shape and type of each input for these lengths. `type` is for operands without a
  // fixed type. Throws ValueError for invalid lengths, and TypeError for a type that the routine
  // does not accept.
  std::vector<OperandType> operand_types(const NamedLengths& lengths,
                                         const std::vector<std::int64_t>& batch,
                                         std::optional<ElementType> type) const;

 private:
  template <class R>
  friend class RoutineBuilder;

  std::unique_ptr<Problem> (*make_problem_)(const Routine&) = nullptr;
  const AnyLadder& ladder(Device device) const;  // of the current instruction set

  AnyLadder cpu_[kIsaLevels], cuda_;
};

// All routines, in the order of registry.cpp. They exist until the process ends.
const std::vector<std::unique_ptr<Routine>>& routines();
const Routine& routine(const std::string& name);  // throws NameError

}  // namespace ado

// From arrays to results: binding operands, choosing where and how to run, staging and running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device.hpp"
#include "runtime/routine.hpp"

namespace ado {

// What the library that owns an array knows beyond the view. All functions have an answer for plain
// memory, so only arrays of other libraries need an implementation.
class ArrayTraits {
 public:
  virtual ~ArrayTraits() = default;
  virtual std::string type_name() const = 0;
  virtual bool same_type(const ArrayTraits& other) const = 0;
  // Asked when the extents of the two overlap.
  virtual bool shares_memory(const ArrayTraits& other) const = 0;
};

// An array as the caller passes it.
struct Argument {
  Array view;
  bool on_device = false;
  const ArrayTraits* traits = nullptr;  // must outlive the problem that it is bound to
};

// The operands and options of one call, each rule checked.
class BoundProblem {
 public:
  explicit BoundProblem(const Routine& routine);

  // In this order: every input, the options, every output, then finish. They throw ValueError or
  // TypeError. `result_like` gives the shape and type of the next output; its type is that of the
  // input `same_as`, unless that is -1.
  void bind_input(const Argument& argument);
  void set_option(const OptionInfo& option, const OptionValue& value);
  struct ResultType {
    std::vector<std::int64_t> shape;
    ElementType type;
    int same_as;
  };
  ResultType result_like() const;
  void bind_output(const Argument& argument);
  // `out_given`: the caller passed the outputs, so they may overlap.
  void finish(bool out_given);
  // Looks at the values of operands; copies them from the device if they are there.
  void check_values();

  const Routine& routine() const { return *routine_; }
  const Problem& problem() const { return *problem_; }
  bool on_device() const { return on_device_.value_or(false); }

  // Where to run: where the operands are, where the named variant runs, or as asked for, which must
  // agree; else the default device.
  Device resolve_device(const AnyVariant* variant, const std::optional<std::string>& device) const;

 private:
  void bind(std::vector<Argument>& list, const OperandInfo& info, Array& slot,
            const Argument& argument);
  void check_type(const OperandInfo& info, const Argument& argument) const;
  void check_memory(const OperandInfo& info, bool on_device);
  void check_overlap() const;

  const Routine* routine_;
  std::unique_ptr<Problem> problem_;
  Lengths lengths_;
  std::vector<Argument> inputs_, outputs_;
  std::vector<std::pair<std::string, OptionValue>> options_;
  std::optional<bool> on_device_;
};

// A copy of a host problem whose arrays are in device memory. Blocks while it copies.
class StagedProblem {
 public:
  explicit StagedProblem(const Problem& host);
  const Problem& problem() const { return *problem_; }
  // Copies the results to the host problem's arrays.
  void fetch(const Problem& host) const;

 private:
  void place(Array& array);

  std::unique_ptr<Problem> problem_;
  std::vector<std::unique_ptr<cuda::Buffer>> buffers_;
};

// Useful FLOPs and compulsory bytes of a problem; what a variant executes and requests.
struct Cost {
  double flops = 0, bytes = 0;
  double executed_flops = 0, requested_bytes = 0;
  double executed_instructions = 0;  // that do those FLOPs; 0: not counted
};
Cost cost_of(const AnyVariant& variant, const Problem& problem);

// A block shape as users write it: one to three lengths.
using Block = std::optional<std::vector<std::int64_t>>;
std::vector<unsigned> lengths_of(const Extent& extent);

// A variant that is ready to run again and again on one problem, whose arrays it does not own.
class Call {
 public:
  // Throws ValueError or Unavailable if the variant cannot solve the problem with this block here.
  Call(const Routine& routine, const AnyVariant& variant, const Problem& problem,
       const Block& block);

  void run();
  // A dry run: the kernels that run() would launch, in order. None on the CPU.
  std::vector<cuda::Kernel> kernels() const;

  const AnyVariant& variant() const { return *variant_; }
  const Launch& launch() const { return launch_; }
  Cost cost() const { return cost_of(*variant_, *problem_); }

 private:
  void provide_scratch();

  const AnyVariant* variant_;
  std::unique_ptr<Problem> problem_;
  Launch launch_;
  std::shared_ptr<void> scratch_;
  std::size_t scratch_bytes_ = 0;
  bool empty_;
};

// Runs a bound problem once: on its own memory, or staged to the device and back. `variant` is
// nullptr for the default. Blocks for host arrays on the device; touches no Python object.
void run(const BoundProblem& bound, const AnyVariant* variant, Device device, const Block& block);

// The kernels that a variant would launch on operands of these shapes, which are not touched.
std::vector<cuda::Kernel> record_kernels(const Routine& routine, const AnyVariant& variant,
                                         const Problem& problem, const Block& block);

// One timed sample of a call: see host.hpp and device.hpp.
cuda::Sample sample(Call& call, bool cold, int repeats);

}  // namespace ado

// The steps of a call: binds operands, selects device and variant, stages operands, runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "runtime/device_id.hpp"
#include "runtime/routine.hpp"

namespace ado {

// Properties of an array that only the library that owns it knows. Plain memory has defaults, so
// only arrays of other libraries need an implementation.
class ArrayTraits {
 public:
  virtual ~ArrayTraits() = default;
  virtual std::string type_name() const = 0;
  virtual bool same_type(const ArrayTraits& other) const = 0;
  // Called only if the extents of the two arrays overlap.
  virtual bool shares_memory(const ArrayTraits& other) const = 0;
  // For arrays in device memory that several streams use. Between these calls, work that reads or
  // writes the array is enqueued on the stream.
  virtual void before_use(const cuda::Stream&, bool /*writes*/) {}
  virtual void after_use(const cuda::Stream&, bool /*writes*/) {}
};

// An array argument of a call.
struct Argument {
  Array view;
  DeviceId memory = kHost;        // the device that holds the array
  ArrayTraits* traits = nullptr;  // must outlive the problem that it is bound to
};

// The operands and options of one call, checked against all rules.
class BoundProblem {
 public:
  explicit BoundProblem(const Routine& routine);

  // Call these functions in this order: bind_input for every input, set_option, check_options,
  // bind_output for every output, finish. They throw ValueError or TypeError. `result_like` returns
  // the shape and type of the next output. The type is that of the input number `same_as`, unless
  // `same_as` is -1.
  void bind_input(const Argument& argument);
  void set_option(std::size_t option, const OptionValue& value);  // an index into options
  void check_options();
  struct ResultType {
    std::vector<std::int64_t> shape;
    ElementType type;
    int same_as;
  };
  ResultType result_like() const;
  void bind_output(const Argument& argument);
  // `out_given`: the caller passed the outputs, so overlap is checked.
  void finish(bool out_given);
  // Checks the values of operands. Values in device memory are first copied to the host on the
  // stream with this handle.
  void check_values(std::uintptr_t stream = 0);
  // Between these calls, work that uses the arrays is enqueued on `stream`.
  void begin_use(const cuda::Stream& stream) const;
  void end_use(const cuda::Stream& stream) const;

  const Routine& routine() const { return *routine_; }
  const Problem& problem() const { return *problem_; }
  const DeviceId& memory() const { return problem_->memory; }  // of all operands
  bool on_device() const { return memory().kind == Device::kCuda; }

  // Returns the device to run on. It is determined by device operands, by the named variant and by
  // `device`, which must agree. Without any of them, it is the default device.
  DeviceId resolve_device(const AnyVariant* variant,
                          const std::optional<std::string>& device) const;

 private:
  void bind(std::vector<Argument>& list, const OperandInfo& info, Array& slot,
            const Argument& argument);
  void check_type(const OperandInfo& info, const Argument& argument) const;
  void check_memory(const OperandInfo& info, const DeviceId& memory);
  void check_overlap() const;

  const Routine* routine_;
  std::unique_ptr<Problem> problem_;
  Lengths lengths_;
  std::vector<Argument> inputs_, outputs_;
  std::vector<std::pair<std::string, OptionValue>> options_;
};

// A copy of a host problem with its arrays in device memory.
class StagedProblem {
 public:
  // The copies run on `stream`. Returns after the operands have been read.
  StagedProblem(const Problem& host, const cuda::Stream& stream);
  const Problem& problem() const { return *problem_; }
  // Copies the results to the host problem's arrays. Returns after the copy is complete.
  void fetch(const Problem& host) const;

 private:
  cuda::Stream stream_;
  std::unique_ptr<Problem> problem_;
  std::vector<std::unique_ptr<cuda::Buffer>> buffers_;
};

// A device problem whose arrays have the layout that kernels require: aligned to the element size,
// and packed or, if the routine supports it, with rows at a pitch. Other arrays are replaced by
// packed copies, which are made on `stream`.
class PackedProblem {
 public:
  PackedProblem(const Problem& problem, const cuda::Stream& stream);
  const Problem& problem() const { return packed_ ? *packed_ : original_; }
  // Copies results from packed copies to the arrays of the original problem.
  void store() const;

 private:
  const Problem& original_;
  cuda::Stream stream_;
  std::unique_ptr<Problem> packed_;  // nullptr: all arrays have the required layout
  std::vector<std::unique_ptr<cuda::Buffer>> buffers_;
};

// Useful FLOPs and compulsory bytes of a problem; executed FLOPs, requested bytes and
// floating-point instructions of a variant.
struct Cost {
  double flops = 0, bytes = 0;
  double executed_flops = 0, requested_bytes = 0;
  double executed_instructions = 0;  // per lane, for the executed FLOPs; 0: not counted
};
Cost cost_of(const AnyVariant& variant, const Problem& problem);

// A block shape as users pass it: one to three lengths.
using Block = std::optional<std::vector<std::int64_t>>;
std::vector<unsigned> lengths_of(const Extent& extent);

// A variant that is ready to run repeatedly on one problem. It does not own the arrays. On a GPU,
// it runs on the legacy default stream.
class Call {
 public:
  // Throws ValueError if the variant cannot solve the problem with this block, and Unavailable if
  // the variant cannot run on this machine.
  Call(const Routine& routine, const AnyVariant& variant, const Problem& problem,
       const Block& block);

  // Calls from several threads wait for each other, because they share the scratch memory.
  void run();

  // A dry run: returns the kernels that run() would launch, in order. Empty on the CPU.
  std::vector<cuda::Kernel> kernels() const;

  const AnyVariant& variant() const { return *variant_; }
  const Launch& launch() const { return launch_; }
  const DeviceId& memory() const { return problem_->memory; }
  Cost cost() const { return cost_of(*variant_, *problem_); }

 private:
  void provide_scratch();

  const AnyVariant* variant_;
  std::unique_ptr<Problem> problem_;
  Launch launch_;
  std::shared_ptr<void> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::recursive_mutex turn_;
  bool running_ = false;
  bool empty_;
};

// Runs a bound problem once, in its own memory or staged to the device and back. nullptr for
// `variant` selects the default; `device` is that of resolve_device. `stream` is a cudaStream_t
// (see cuda::stream_of) for calls on a GPU; the default is the legacy default stream. Staged
// runs return after the results have been copied, others after the work has been enqueued. Does not
// need the GIL.
void run(const BoundProblem& bound, const AnyVariant* variant,
         const std::optional<std::string>& device, const Block& block,
         const std::optional<std::uintptr_t>& stream = {});

// Returns the variant that run() would select, and the reasons. If a GPU would process host
// operands, the choice is the one for their copies in device memory. With `hardware`, it is the
// choice for that GPU.
Choice choose(const BoundProblem& bound, const std::optional<std::string>& device,
              const Hardware* hardware = nullptr);

// Sets the default block shape of a variant for the rest of the process. Throws ValueError if the
// variant does not have this shape.
void set_default_block(const Routine& routine, const AnyVariant& variant, const Block& block);

// A dry run: returns the kernels that a variant would launch on operands of these shapes. The
// operands are neither read nor written.
std::vector<cuda::Kernel> record_kernels(const Routine& routine, const AnyVariant& variant,
                                         const Problem& problem, const Block& block);

// Takes one timed sample of a call (host.hpp, device.hpp).
cuda::Sample sample(Call& call, bool cold, int repeats);

}  // namespace ado

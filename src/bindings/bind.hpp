// One routine as Python sees it: its ladders behind an interface without templates.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "bindings/operands.hpp"
#include "core/variant.hpp"
#include "runtime/host.hpp"

namespace ado::py_binding {

using Block = std::optional<std::vector<std::int64_t>>;
using Name = std::optional<std::string>;

// What the keywords variant=, device= and block= of a call hold; None is none.
Name name_from(const py::object& value, const char* keyword);
Block block_from(const py::object& value);

// The default device and instruction set; ado.set_device and ado.set_isa write them.
struct Settings {
  std::optional<Device> device;  // none: the GPU if there is one, found out when it is needed
  Isa isa = Isa::kBaseline;
};
Settings& settings();
Device default_device();
Device device_named(const std::string& name);
const char* name_of(Device device);

// The part of a row that does not depend on the routine.
struct VariantInfo {
  std::string name, changes, device, precision;
  bool ceiling;
  int min_compute;
  std::vector<std::vector<unsigned>> blocks;
  std::vector<std::pair<std::string, std::string>> stages;  // (routine, variant)
};

// What a variant launches on one problem, and the scratch memory it needs meanwhile.
struct Plan {
  Launch launch;
  std::shared_ptr<void> scratch;
  std::size_t scratch_bytes = 0;
};

// What a problem asks for at least, and what one variant makes of it.
struct Cost {
  double flops = 0, bytes = 0;  // useful, compulsory
  double executed_flops = 0, requested_bytes = 0;
  double executed_instructions = 0;  // that do those FLOPs; 0: not counted
};

// A variant made ready to run again and again on one problem.
struct Call {
  std::string variant;
  Device device;
  Plan plan;
  Cost cost;
  std::function<void()> run;
  std::function<std::vector<cuda::Kernel>()> kernels;
};

// Operands checked once and staged to the device once, so that timing sees only kernels.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual Call prepare(const std::string& variant, const Block& block) = 0;
  virtual std::string best() const = 0;  // the variant that a call would choose
  virtual std::string why_refused(const std::string& variant) const = 0;
  virtual void fill_results(unsigned char value) = 0;
  virtual py::object results() = 0;
  std::string description;
};

class Routine {
 public:
  virtual ~Routine() = default;
  virtual std::vector<VariantInfo> variants() const = 0;
  // Empty if it can run here. Apart from the rest, because to ask starts the CUDA driver.
  virtual std::string why_unavailable(const std::string& variant) const = 0;
  virtual py::object call(const py::tuple& arguments, const py::dict& options, const Name& variant,
                          const Block& block, const Name& device, py::object out) const = 0;
  virtual std::unique_ptr<Problem> problem(const py::tuple& arguments, const py::dict& options,
                                           const std::string& device) const = 0;
  // Which kernels the variant would launch on operands of these shapes; their data is not looked
  // at.
  virtual std::vector<cuda::Kernel> kernels(const std::string& variant, const py::tuple& arguments,
                                            const py::dict& options, const Block& block) const = 0;
  // Needs no device: the counts are expressions in the problem size.
  virtual Cost cost(const std::string& variant, const py::tuple& arguments,
                    const py::dict& options) const = 0;
  std::string name, summary, source;
  std::vector<ParameterInfo> parameters;
};

std::string why_unavailable(Device device, int min_compute, bool built);
std::string describe(const Marshal& marshal);
std::vector<unsigned> extent_list(const Extent& extent);
Extent choose_block(const std::function<std::string()>& who, const Blocks& blocks,
                    const Block& wanted);
// A name stands for one variant and so for one device; throws std::logic_error where it does not.
void require_unique_names(const std::string& routine, const std::vector<VariantInfo>& variants);
[[noreturn]] void throw_unknown_variant(const std::string& routine, const std::string& wanted,
                                        const std::vector<VariantInfo>& variants);

// What the rows of one routine come from: the ladder of each instruction set, then the GPU's.
template <class R>
struct Ladders {
  Ladder<R> cpu[kIsaLevels];
  Ladder<R> cuda;
};

// Puts fresh device memory in the place of each host array of a problem.
class Upload {
 public:
  void input(const Operand&, Array& slot) {
    const Array host = slot;
    place(slot);
    cuda::copy_to_device(slot.data, host.data, static_cast<std::size_t>(host.bytes()));
  }
  void output(const Operand&, Array& slot) {
    place(slot);
    results.push_back(slot);
  }
  template <class Value>
  void option(const Option&, Value&) {}

  std::vector<Array> results;

 private:
  void place(Array& slot) {
    buffers_.push_back(std::make_shared<cuda::Buffer>(static_cast<std::size_t>(slot.bytes())));
    slot = packed_like(slot, buffers_.back()->data());
  }
  std::vector<std::shared_ptr<cuda::Buffer>> buffers_;
};

// Packs strided host arrays, which a device copy cannot read.
class Pack {
 public:
  explicit Pack(const std::vector<Marshal::Held>& inputs) : next_(inputs.begin()) {}
  void input(const Operand&, Array& slot) {
    const Marshal::Held& held = *next_++;
    if (slot.packed()) return;
    const auto packed =
        py::module_::import("numpy").attr("ascontiguousarray")(held.object).cast<py::array>();
    slot.data = static_cast<std::byte*>(const_cast<void*>(packed.data()));
    slot = packed_like(slot, slot.data);
    copies_.push_back(packed);
  }
  void output(const Operand&, Array&) {}
  template <class Value>
  void option(const Option&, Value&) {}

 private:
  std::vector<Marshal::Held>::const_iterator next_;
  std::vector<py::array> copies_;
};

// Puts packed arrays in nowhere, apart and aligned like device memory, in the place of host arrays.
class Pretend {
 public:
  void input(const Operand&, Array& slot) { slot = packed_like(slot, nowhere()); }
  void output(const Operand&, Array& slot) { slot = packed_like(slot, nowhere()); }
  template <class Value>
  void option(const Option&, Value&) {}
  std::byte* nowhere() { return reinterpret_cast<std::byte*>(++arrays_ << 52); }

 private:
  std::uintptr_t arrays_ = 0;
};

// Each input read once and each result written once.
class CompulsoryBytes {
 public:
  double total = 0;
  void input(const Operand&, const Array& a) { add(a); }
  void output(const Operand&, const Array& a) { add(a); }
  template <class Value>
  void option(const Option&, const Value&) {}

 private:
  void add(const Array& a) {
    double bytes = a.type.size;
    for (int d = 0; d < a.rank; ++d)  // a broadcast dimension is the same bytes again
      if (a.stride[d] != 0 || a.shape[d] == 0) bytes *= static_cast<double>(a.shape[d]);
    total += bytes;
  }
};

template <class R>
double compulsory_bytes(R problem) {
  CompulsoryBytes bytes;
  problem.operands(bytes);
  return bytes.total;
}

class CountResults {
 public:
  std::int64_t total = 0;
  void input(const Operand&, const Array&) {}
  void output(const Operand&, const Array& a) { total += a.elements(); }
  template <class Value>
  void option(const Option&, const Value&) {}
};

// Where there is none, nothing needs to run, however long a loop over rows without columns would
// take.
template <class R>
std::int64_t result_elements(R problem) {
  CountResults count;
  problem.operands(count);
  return count.total;
}

template <class R>
class RoutineOf final : public Routine {
 public:
  explicit RoutineOf(Ladders<R> ladders) : ladders_(ladders) {
    name = R::kName;
    summary = R::kSummary;
    source = R::kSource;
    Describe describe;
    R().operands(describe);
    parameters = std::move(describe.parameters);
    require_unique_names(name, variants());
  }

  std::vector<VariantInfo> variants() const override {
    std::vector<VariantInfo> infos;
    for (const auto& row : cpu()) infos.push_back(info(row));
    for (const auto& row : ladders_.cuda) infos.push_back(info(row));
    return infos;
  }

  std::string why_unavailable(const std::string& variant) const override {
    return unavailable(find(variant));
  }

  py::object call(const py::tuple& arguments, const py::dict& options, const Name& variant,
                  const Block& block, const Name& device, py::object out) const override {
    Marshal marshal(name, arguments, options, std::move(out));
    R problem;
    problem.operands(marshal);
    marshal.finish(problem);
    marshal.examine(problem);
    const Row* named = variant ? &choose(marshal, *variant, device) : nullptr;
    const Device where = named != nullptr ? named->device : residence(marshal, device);
    if (where == Device::kCpu || marshal.on_device()) {
      run(named != nullptr ? *named : best(problem, where), problem, block);
      return marshal.results();
    }
    cuda::require();
    Uploaded uploaded(problem, marshal);
    run(named != nullptr ? *named : best(uploaded.problem, where), uploaded.problem, block);
    uploaded.fetch(marshal);
    return marshal.results();
  }

  std::unique_ptr<Problem> problem(const py::tuple& arguments, const py::dict& options,
                                   const std::string& device) const override {
    return std::make_unique<ProblemOf>(*this, arguments, options, device_named(device));
  }

  std::vector<cuda::Kernel> kernels(const std::string& variant, const py::tuple& arguments,
                                    const py::dict& options, const Block& block) const override {
    const Row& row = find(variant);
    if (row.device == Device::kCpu)
      throw ValueError(name + "[" + row.name + "] runs on the CPU and launches no kernels");
    R problem;
    marshal_only(problem, arguments, options);
    Pretend pretend;
    problem.operands(pretend);
    Launch launch = launch_for(row, problem, block);
    launch.scratch = pretend.nowhere();
    if (result_elements(problem) == 0) return {};
    cuda::KernelRecorder recorder;
    launch.recorder = &recorder;
    row.run(problem, launch);
    return recorder.kernels;
  }

  Cost cost(const std::string& variant, const py::tuple& arguments,
            const py::dict& options) const override {
    R problem;
    marshal_only(problem, arguments, options).examine(problem);
    return cost(find(variant), problem);
  }

 private:
  using Row = Variant<R>;

  // Keeps the arrays alive that the problem views.
  Marshal marshal_only(R& problem, const py::tuple& arguments, const py::dict& options) const {
    Marshal marshal(name, arguments, options, py::none());
    problem.operands(marshal);
    marshal.finish(problem);
    return marshal;
  }

  // A problem whose host arrays have been copied to the device.
  struct Uploaded {
    R problem;
    Upload upload;

    Uploaded(const R& host, const Marshal& marshal) : problem(host) {
      Pack pack(marshal.inputs());
      problem.operands(pack);
      problem.operands(upload);
    }
    void fetch(const Marshal& marshal) const {
      for (std::size_t i = 0; i < upload.results.size(); ++i) {
        const Marshal::Held& held = marshal.outputs()[i];
        auto target = held.object.template cast<py::array>();
        const Array& device = upload.results[i];
        const auto bytes = static_cast<std::size_t>(device.bytes());
        if (held.view.packed()) {
          cuda::copy_to_host(target.mutable_data(), device.data, bytes);
        } else {
          py::array packed(held.dtype,
                           std::vector<py::ssize_t>(device.shape, device.shape + device.rank));
          cuda::copy_to_host(packed.mutable_data(), device.data, bytes);
          target[py::ellipsis()] = packed;
        }
      }
    }
  };

  class ProblemOf final : public Problem {
   public:
    ProblemOf(const RoutineOf& routine, const py::tuple& arguments, const py::dict& options,
              Device device)
        : routine_(routine), marshal_(routine.name, arguments, options, py::none()) {
      problem_.operands(marshal_);
      marshal_.finish(problem_);
      marshal_.examine(problem_);
      description = describe(marshal_);
      device_ = routine.residence(marshal_, name_of(device));
      if (device_ == Device::kCuda && !marshal_.on_device()) {
        cuda::require();
        uploaded_ = std::make_unique<Uploaded>(problem_, marshal_);
        problem_ = uploaded_->problem;
      }
    }

    Call prepare(const std::string& variant, const Block& block) override {
      const Row& row = routine_.find(variant);
      routine_.require_device(row, device_);
      return routine_.prepare(row, problem_, block);
    }

    std::string best() const override { return routine_.best(problem_, device_).name; }

    std::string why_refused(const std::string& variant) const override {
      const Row& row = routine_.find(variant);
      const char* reason = row.why_not != nullptr ? row.why_not(problem_) : nullptr;
      return reason != nullptr ? reason : "";
    }

    void fill_results(unsigned char value) override {
      if (device_ == Device::kCuda) {
        FillDevice fill{value};
        problem_.operands(fill);
      } else {
        for (const auto& held : marshal_.outputs())
          std::memset(held.view.data, value, static_cast<std::size_t>(held.view.bytes()));
      }
    }

    py::object results() override {
      if (uploaded_) uploaded_->fetch(marshal_);
      if (device_ == Device::kCuda && !uploaded_) return device_results();
      return marshal_.results();
    }

   private:
    struct FillDevice {
      unsigned char value;
      void input(const Operand&, Array&) {}
      void output(const Operand&, Array& a) {
        cuda::fill(a.data, value, static_cast<std::size_t>(a.bytes()));
      }
      template <class Value>
      void option(const Option&, Value&) {}
    };

    py::object device_results() const {
      py::tuple all(marshal_.outputs().size());
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = marshal_.outputs()[i].object.template cast<const DeviceArray&>().numpy();
      return all.size() == 1 ? py::object(all[0]) : all;
    }

    const RoutineOf& routine_;
    Marshal marshal_;
    R problem_;
    Device device_ = Device::kCpu;
    std::unique_ptr<Uploaded> uploaded_;
  };

  const Ladder<R>& cpu() const { return ladders_.cpu[static_cast<int>(settings().isa)]; }

  static VariantInfo info(const Row& row) {
    VariantInfo info{row.name,
                     row.changes,
                     name_of(row.device),
                     row.precision,
                     row.ceiling,
                     row.device == Device::kCuda ? row.min_compute : 0,
                     {},
                     {}};
    if (row.grid != nullptr)
      for (const Extent& block : row.blocks)
        if (block.volume() != 0) info.blocks.push_back(extent_list(block));
    for (const Stage& stage : row.stages)
      if (stage.variant != nullptr) info.stages.emplace_back(stage.routine, stage.variant);
    return info;
  }

  static std::string unavailable(const Row& row) {
    return py_binding::why_unavailable(row.device, row.min_compute, row.run != nullptr);
  }

  const Row& find(const std::string& wanted) const {
    for (const auto& row : cpu())
      if (wanted == row.name) return row;
    for (const auto& row : ladders_.cuda)
      if (wanted == row.name) return row;
    throw_unknown_variant(name, wanted, variants());
  }

  void require_available(const Row& row) const {
    if (const std::string missing = unavailable(row); !missing.empty())
      throw Unavailable(name + "[" + row.name + "]: " + missing);
  }

  void require_device(const Row& row, Device device) const {
    if (row.device != device)
      throw ValueError(name + ": the variant " + row.name + " runs on " + name_of(row.device) +
                       ", but the operands or device= say " + name_of(device));
  }

  // The variant asked for, if it can run where the operands are.
  const Row& choose(const Marshal& marshal, const std::string& variant, const Name& device) const {
    const Row& row = find(variant);
    if (device) require_device(row, device_named(*device));
    if (marshal.on_device()) require_device(row, Device::kCuda);
    require_available(row);
    return row;
  }

  // Where to run: where the operands are, else as asked for, else the default.
  Device residence(const Marshal& marshal, const Name& device) const {
    if (!marshal.on_device()) return device ? device_named(*device) : default_device();
    if (device && device_named(*device) != Device::kCuda)
      throw ValueError(name + ": device='cpu', but the operands are on cuda (use .numpy())");
    return Device::kCuda;
  }

  // The last available variant of the device that is no ceiling and does not refuse the problem.
  const Row& best(const R& problem, Device device) const {
    const Ladder<R>& ladder = device == Device::kCpu ? cpu() : ladders_.cuda;
    std::string reason = "no variant for this device";
    for (const Row* row = ladder.end(); row-- != ladder.begin();) {
      if (row->ceiling) continue;
      const std::string missing = unavailable(*row);
      if (!missing.empty()) {
        reason = missing;
        continue;
      }
      if (row->why_not == nullptr || row->why_not(problem) == nullptr) return *row;
      reason.clear();
    }
    if (!reason.empty()) throw Unavailable(name + " on " + name_of(device) + ": " + reason);
    throw ValueError(name + ": every variant on " + name_of(device) + " refuses this problem");
  }

  // Checks that the variant can do this problem, and how it would.
  Launch launch_for(const Row& row, const R& problem, const Block& wanted) const {
    const auto who = [&] { return name + "[" + row.name + "]: "; };
    require_available(row);
    if (row.why_not != nullptr)
      if (const char* reason = row.why_not(problem)) throw ValueError(who() + reason);
    if (row.grid == nullptr && wanted) throw ValueError(who() + "takes no block");
    return launch_of(row, problem, choose_block(who, row.blocks, wanted));
  }

  Plan plan(const Row& row, const R& problem, const Block& wanted) const {
    Plan plan;
    plan.launch = launch_for(row, problem, wanted);
    provide_scratch(plan, row, problem);
    return plan;
  }

  static Cost cost(const Row& row, const R& problem) {
    Cost cost{.flops = problem.flops(), .bytes = compulsory_bytes(problem)};
    cost.executed_flops = row.flops != nullptr ? row.flops(problem) : cost.flops;
    cost.requested_bytes = row.bytes != nullptr ? row.bytes(problem) : cost.bytes;
    if (row.instructions != nullptr) cost.executed_instructions = row.instructions(problem);
    return cost;
  }

  Call prepare(const Row& row, const R& problem, const Block& wanted) const {
    Plan ready = plan(row, problem, wanted);
    auto run = [&row, problem, mine = ready, empty = result_elements(problem) == 0]() mutable {
      if (empty) return;
      provide_scratch(mine, row, problem);  // more, if there are more threads by now
      row.run(problem, mine.launch);
    };
    auto kernels = [&row, problem, mine = ready, empty = result_elements(problem) == 0]() mutable {
      cuda::KernelRecorder recorder;
      mine.launch.recorder = &recorder;
      if (!empty) row.run(problem, mine.launch);
      return recorder.kernels;
    };
    return {.variant = row.name,
            .device = row.device,
            .plan = std::move(ready),
            .cost = cost(row, problem),
            .run = std::move(run),
            .kernels = std::move(kernels)};
  }

  static void provide_scratch(Plan& plan, const Row& row, const R& problem) {
    const std::size_t bytes = row.scratch_bytes != nullptr ? row.scratch_bytes(problem) : 0;
    if (bytes <= plan.scratch_bytes) return;
    if (row.device == Device::kCuda) {
      const auto buffer = std::make_shared<cuda::Buffer>(bytes);
      plan.launch.scratch = buffer->data();
      plan.scratch = buffer;
    } else {
      // Not initialised: whoever uses scratch writes it first.
      const auto buffer = std::make_shared_for_overwrite<std::byte[]>(bytes);
      plan.launch.scratch = buffer.get();
      plan.scratch = buffer;
    }
    plan.scratch_bytes = bytes;
  }

  void run(const Row& row, const R& problem, const Block& block) const {
    const Plan ready = plan(row, problem, block);
    if (result_elements(problem) == 0) return;
    const ReleaseGil release;
    row.run(problem, ready.launch);
  }

  Ladders<R> ladders_;
};

}  // namespace ado::py_binding

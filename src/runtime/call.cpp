// Selects the launch parameters of variants, and runs and records them.
#include "runtime/call.hpp"

#include "core/error.hpp"
#include "core/scope_exit.hpp"
#include "core/thread.hpp"
#include "core/threads.hpp"
#include "device/emulated.hpp"
#include "runtime/host.hpp"
#include "runtime/scratch.hpp"
#include "runtime/text.hpp"

namespace ado {
namespace {

std::string block_text(const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> words;
  for (const std::int64_t length : lengths) words.push_back(std::to_string(length));
  return tuple_text(words);
}

std::string who(const Routine& routine, const AnyVariant& variant) {
  return routine.name + "[" + variant.name + "]";
}

// Returns `wanted`, or the default block shape if `wanted` is empty. Throws ValueError if the
// variant does not have this block shape.
Extent choose_block(const Routine& routine, const AnyVariant& variant, const Block& wanted) {
  const std::vector<Extent>& blocks = variant.blocks;
  if (!wanted) return blocks.empty() ? Extent{} : blocks[variant.default_block];
  if (blocks.empty()) throw ValueError(who(routine, variant) + ": takes no block; omit block=");
  std::vector<std::int64_t> lengths = *wanted;
  if (lengths.size() <= 3) lengths.resize(3, 1);
  std::string choices;
  for (const Extent& block : blocks) {
    if (lengths == std::vector<std::int64_t>{block.x, block.y, block.z}) return block;
    const std::vector<unsigned> known = lengths_of(block);
    choices += (choices.empty() ? "" : ", ") + block_text({known.begin(), known.end()});
  }
  throw ValueError(who(routine, variant) + ": block must be one of " + choices + ", got " +
                   block_text(*wanted));
}

void require_available(const Routine& routine, const AnyVariant& variant) {
  if (variant.available()) return;
  const bool needs_gpu = variant.built && !cuda::why_unavailable().empty();
  throw Unavailable(who(routine, variant) + ": " + variant.why_unavailable() +
                    (needs_gpu ? "; remedy: device=\"emulator\" runs it without a GPU" : ""));
}

// Checks that the variant can solve the problem, and returns its launch parameters.
Launch launch_on(const Hardware& hardware, const Problem& problem, const AnyVariant& variant,
                 const Block& block) {
  const Routine& routine = problem.routine();
  if (const char* reason = variant.why_not(problem)) {
    const std::string text = who(routine, variant) + ": " + reason;
    if (reason == cuda::emulated::kNoLibraries) throw Unavailable(text);
    throw ValueError(text);
  }
  return variant.launch(problem, choose_block(routine, variant, block), hardware);
}

// Checks that the variant can run where the problem is. The device is the current one.
Launch launch_for(const Problem& problem, const AnyVariant& variant, const Block& block,
                  void* stream) {
  const Routine& routine = problem.routine();
  require_available(routine, variant);
  if (variant.device != problem.memory.kind)
    throw ValueError(who(routine, variant) + " runs on " + name_of(variant.device) +
                     ", but the operands are in the memory of " + name_of(problem.memory));
  Launch launch = launch_on(target_of(variant.device, stream).hardware, problem, variant, block);
  launch.stream = stream;
  return launch;
}

// Returns distinct addresses that no array has, aligned like device memory.
std::byte* dummy_address(std::uintptr_t index) {
  return reinterpret_cast<std::byte*>((index + 1) << 52);
}

// Returns a copy of the problem with arrays at dummy addresses on the device. Device arrays that
// kernels access in place keep their addresses.
std::unique_ptr<Problem> without_memory(const Problem& problem) {
  std::uintptr_t arrays = 0;
  std::unique_ptr<Problem> dummy = problem.clone();
  const bool on_device = problem.memory.kind == Device::kCuda;
  dummy->move_arrays(gpu(0), [&](const Array& array) {
    return on_device && problem.takes_in_place(array) ? nullptr : dummy_address(++arrays);
  });
  return dummy;
}

// The kernels that a run would launch, without launching them.
std::vector<cuda::Kernel> record(const AnyVariant& variant, const Problem& problem, Launch launch) {
  cuda::KernelRecorder recorder;
  launch.recorder = &recorder;
  if (problem.result_elements() != 0) variant.run(problem, launch);
  return recorder.kernels;
}

// Allocates scratch memory. It is not initialised, because a variant writes its scratch memory
// before it reads it.
std::shared_ptr<void> allocate(const DeviceId& device, std::size_t bytes, Launch& launch) {
  if (device.kind == Device::kCuda) {
    const auto stream = reinterpret_cast<std::uintptr_t>(launch.stream);
    const auto buffer =
        std::make_shared<cuda::Buffer>(bytes, cuda::stream_of(device.ordinal, stream));
    launch.scratch = buffer->data();
    return buffer;
  }
  HostMemory memory = allocate_host_memory(bytes);
  launch.scratch = memory.get();
  return memory;
}

// Names the arrays for error messages of the emulator.
void name_arrays(const Problem& problem, const Launch& launch) {
  const Routine& routine = problem.routine();
  if (launch.scratch != nullptr) cuda::emulated::name_memory(launch.scratch, "scratch");
  for (std::size_t i = 0; i < routine.inputs.size(); ++i)
    cuda::emulated::name_memory(problem.inputs[i]->data, routine.inputs[i].name);
  for (std::size_t i = 0; i < routine.outputs.size(); ++i)
    cuda::emulated::name_memory(problem.outputs[i]->data, routine.outputs[i].name);
}

// Runs a problem that has results.
void start(const Problem& problem, const AnyVariant& variant, const Launch& launch) {
  if (problem.memory == kEmulator) name_arrays(problem, launch);
  if (variant.device == Device::kCuda) return variant.run(problem, launch);
  with_large_stack([&] { variant.run(problem, launch); });
}

// Runs a problem that has results, with scratch memory for this run.
void run_once(const Problem& problem, const AnyVariant& variant, Launch& launch) {
  const std::size_t bytes = variant.scratch_bytes(problem, launch.hardware);
  if (variant.device == Device::kCuda) {
    const auto scratch = bytes == 0 ? nullptr : allocate(problem.memory, bytes, launch);
    return start(problem, variant, launch);
  }
  const HostScratch scratch(bytes);
  launch.scratch = scratch.data();
  start(problem, variant, launch);
}

}  // namespace

std::vector<unsigned> lengths_of(const Extent& extent) {
  std::vector<unsigned> lengths{extent.x};
  if (extent.y > 1 || extent.z > 1) lengths.push_back(extent.y);
  if (extent.z > 1) lengths.push_back(extent.z);
  return lengths;
}

Cost cost_of(const AnyVariant& variant, const Problem& problem, const Hardware& hardware) {
  return {.flops = problem.useful_flops(),
          .bytes = problem.compulsory_bytes(),
          .executed_flops = variant.executed_flops(problem, hardware),
          .requested_bytes = variant.requested_bytes(problem, hardware),
          .executed_instructions = variant.executed_instructions(problem, hardware)};
}

void set_default_block(const Routine& routine, const AnyVariant& variant, const Block& block) {
  const Extent chosen = choose_block(routine, variant, block);
  const auto found = std::find(variant.blocks.begin(), variant.blocks.end(), chosen);
  variant.default_block = static_cast<std::size_t>(found - variant.blocks.begin());
}

Call::Call(const Problem& problem, const AnyVariant& variant, const Block& block, void* stream,
           std::size_t extra_shared_bytes)
    : problem_(problem.placed()), variant_(variant), empty_(problem_.result_elements() == 0) {
  // Checked before scope_of, because its error does not name the variant.
  if (variant.device == Device::kCuda && memory() != kEmulator)
    require_available(problem_.routine(), variant);
  const auto scope = scope_of(memory());
  launch_ = launch_for(problem_, variant, block, stream);
  launch_.shared_bytes += extra_shared_bytes;
  provide_scratch();
}

// On the CPU, a run with little scratch memory uses the buffer of the calling thread instead.
void Call::provide_scratch() {
  const std::size_t bytes = variant_.scratch_bytes(problem_, launch_.hardware);
  if (bytes <= scratch_bytes_ || empty_) return;
  if (variant_.device == Device::kCpu && bytes <= HostScratch::kBufferBytes) return;
  scratch_ = allocate(memory(), bytes, launch_);
  scratch_bytes_ = bytes;
}

void Call::run() {
  const std::lock_guard lock(turn_);
  // A Python signal handler can use this object while it runs on the same thread.
  if (running_)
    throw ValueError("the call must not be run again while it is running on the same thread");
  running_ = true;
  const ScopeExit ended([this] { running_ = false; });
  const auto scope = scope_of(memory());
  const FixedThreads threads;
  if (empty_) return;
  provide_scratch();  // the size may have grown with the number of threads
  if (scratch_bytes_ == 0) return run_once(problem_, variant_, launch_);
  start(problem_, variant_, launch_);
}

std::vector<cuda::Kernel> Call::kernels() const {
  if (variant_.device == Device::kCpu) return {};
  const auto scope = scope_of(memory());
  return record(variant_, problem_, launch_);
}

std::optional<cuda::DeviceScope> scope_of(const DeviceId& device) {
  if (device.kind == Device::kCpu) return std::nullopt;
  return std::optional<cuda::DeviceScope>(std::in_place, resolve_gpu(device).ordinal);
}

void run(Problem& problem, const AnyVariant* variant, const DeviceId& device, const Block& block,
         const std::optional<std::uintptr_t>& stream) {
  const Routine& routine = problem.routine();
  const bool on_gpu = device.kind == Device::kCuda;
  const bool emulated = on_gpu && is_emulated(device);
  if (stream && !on_gpu)
    throw ValueError(routine.name + ": stream must be None for a call on the CPU");
  const FixedThreads threads;
  std::optional<cuda::DeviceScope> scope;
  std::optional<cuda::RelaxedCapture> relaxed;
  const ScopeExit end([&] { problem.release(); });
  void* handle = nullptr;
  if (on_gpu) {
    if (variant != nullptr && !emulated && !cuda::why_unavailable().empty())
      require_available(routine, *variant);
    const int ordinal = resolve_gpu(device).ordinal;
    scope.emplace(ordinal);
    if (variant != nullptr) require_available(routine, *variant);  // before operands are copied
    const cuda::Stream order = cuda::stream_of(ordinal, stream.value_or(0));
    if (cuda::is_captured(order)) {
      if (!problem.on_device())
        throw ValueError(routine.name +
                         ": operands must be in device memory while a graph captures the stream, "
                         "because the GPU cannot read host operands; copy them with ado.to_device");
      relaxed.emplace();
    }
    problem.place(order);
    handle = order.handle;
  }
  const Problem& placed = problem.placed();
  Launch launch;
  if (variant == nullptr) {  // choose() checks that the variant can run
    const Target target = target_of(device.kind, handle);
    variant = &routine.choose(placed, target);
    launch = variant->launch(placed, choose_block(routine, *variant, block), target.hardware);
    launch.stream = handle;
  } else {
    launch = launch_for(placed, *variant, block, handle);
  }
  if (placed.result_elements() != 0) run_once(placed, *variant, launch);
  problem.fetch();
}

const AnyVariant& choose(const Problem& problem, const std::optional<DeviceId>& device,
                         const std::optional<Hardware>& gpu, std::vector<Skipped>& skipped) {
  const Routine& routine = problem.routine();
  const DeviceId where = problem.resolve_device(nullptr, device);
  if (where.kind == Device::kCpu) return routine.choose(problem, {}, &skipped);
  const std::unique_ptr<Problem> dummy = without_memory(problem);
  if (gpu) return routine.choose(*dummy, {where.kind, *gpu, true}, &skipped);
  std::optional<cuda::DeviceScope> scope;
  if (is_emulated(where) || cuda::why_unavailable().empty())
    scope.emplace(resolve_gpu(where).ordinal);
  return routine.choose(*dummy, target_of(where.kind), &skipped);
}

Plan plan(const Problem& problem, const AnyVariant& variant, const Block& block,
          const Hardware& hardware) {
  const std::unique_ptr<Problem> dummy = without_memory(problem);
  const Problem& placed = variant.device == Device::kCpu ? problem : *dummy;
  return {.launch = launch_on(hardware, placed, variant, block),
          .scratch_bytes = variant.scratch_bytes(placed, hardware),
          .cost = cost_of(variant, placed, hardware)};
}

std::vector<cuda::Kernel> record_kernels(const Problem& problem, const AnyVariant& variant,
                                         const Block& block) {
  if (variant.device == Device::kCpu)
    throw ValueError(who(problem.routine(), variant) + " runs on the CPU and launches no kernels");
  const DeviceId where =
      problem.memory.kind == Device::kCuda ? problem.memory : gpu(DeviceId::kAnyGpu);
  if (!is_emulated(where)) require_available(problem.routine(), variant);
  const cuda::DeviceScope scope(resolve_gpu(where).ordinal);
  const std::unique_ptr<Problem> dummy = without_memory(problem);
  Launch launch = launch_for(*dummy, variant, block, nullptr);
  launch.scratch = dummy_address(0);
  return record(variant, *dummy, launch);
}

cuda::Sample sample(Call& call, bool cold, int repeats) {
  const auto work = [&call] { call.run(); };
  if (call.variant().device == Device::kCuda) {
    const auto scope = scope_of(call.memory());
    return cuda::sample(work, cold, repeats, call.launch().stream);
  }
  const host::Sample taken = host::sample(work, cold, repeats);
  return {.seconds = taken.seconds, .waited = taken.waited};
}

}  // namespace ado

// Modules, memory, launches and error records: the interface of the emulator.
#include "emulator/emulator.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "core/threads.hpp"
#include "emulator/state.hpp"

namespace ado {

namespace baseline {
emulator::LaneFunctions lane_functions();
}
#if defined(__x86_64__)
namespace avx2 {
emulator::LaneFunctions lane_functions();
}
namespace avx512 {
emulator::LaneFunctions lane_functions();
}
#endif

namespace emulator {

// Each lane_functions() is itself compiled for its instruction set, so only one is called.
const LaneFunctions& lane_functions() {
  static const LaneFunctions functions =
#if defined(__x86_64__)
      __builtin_cpu_supports("x86-64-v4")   ? avx512::lane_functions()
      : __builtin_cpu_supports("x86-64-v3") ? avx2::lane_functions()
                                            :
#endif
                                            baseline::lane_functions();
  return functions;
}

// --- Memory --------------------------------------------------------------------------------------

void Memory::add(const void* data, std::size_t bytes, std::string name, bool initialised,
                 bool writable, bool internal) {
  auto range = std::make_unique<Allocation>();
  range->begin = reinterpret_cast<u64>(data);
  range->end = range->begin + bytes;
  range->name = std::move(name);
  range->writable = writable;
  range->internal = internal;
  if (!initialised) range->written.resize(bytes);
  ranges_[range->begin] = std::move(range);
}

void Memory::remove(const void* data) { ranges_.erase(reinterpret_cast<u64>(data)); }

namespace {
// Which bytes of the range from an address on have been written. Empty: all, or outside of ranges.
std::span<u8> written_from(const Memory& memory, const void* data) {
  const auto address = reinterpret_cast<u64>(data);
  Allocation* const range = memory.find(address);
  if (range == nullptr || address >= range->end || range->written.empty()) return {};
  return std::span(range->written).subspan(address - range->begin);
}
}  // namespace

void Memory::mark_written(const void* data, std::size_t bytes) {
  const std::span<u8> written = written_from(*this, data);
  std::fill_n(written.begin(), std::min(bytes, written.size()), 1);
}

void Memory::mark_copied(const void* to, const void* from, std::size_t bytes) {
  const std::span<u8> source = written_from(*this, from), target = written_from(*this, to);
  if (source.empty()) return mark_written(to, bytes);
  if (target.empty()) return;
  std::memmove(target.data(), source.data(), std::min({bytes, source.size(), target.size()}));
}

Allocation* Memory::find(u64 address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  return std::prev(after)->second.get();
}

const Allocation* Memory::nearest(u64 address) const {
  const auto after = std::find_if(ranges_.upper_bound(address), ranges_.end(),
                                  [](const auto& r) { return !r.second->internal; });
  auto before = ranges_.upper_bound(address);
  while (before != ranges_.begin() && std::prev(before)->second->internal) --before;
  u64 distance = u64{1} << 16;
  const Allocation* found = nullptr;
  if (before != ranges_.begin()) {
    const Allocation& range = *std::prev(before)->second;
    if (const u64 past = address - std::min(address, range.end); past < distance) {
      found = &range;
      distance = past;
    }
  }
  if (after != ranges_.end() && after->first - address < distance) found = after->second.get();
  return found;
}

// --- Modules -------------------------------------------------------------------------------------

struct Module::Storage {
  std::map<std::string_view, std::pair<Bytes, std::size_t>> variables;
  ModuleAddresses addresses;
  std::mutex lock;
  std::map<std::string_view, std::unique_ptr<Program>> programs;
};

std::unique_ptr<Module> Module::load(std::string ptx, Memory& memory) {
  std::unique_ptr<Module> module(new Module);
  module->text_ = std::make_unique<Text>();
  module->text_->ptx = std::move(ptx);
  module->memory_ = &memory;
  module->storage_ = std::make_unique<Storage>();
  parse_module(*module->text_);
  for (const Variable& v : module->text_->variables) {
    if (v.space != Space::kGlobal && v.space != Space::kConst) continue;
    const auto size = static_cast<std::size_t>(v.bytes);
    auto& [storage, bytes] =
        module->storage_->variables.try_emplace(v.name, Bytes((size + 255) / 256 * 256 + 256), size)
            .first->second;
    // cudaMalloc aligns to 256 bytes; sectors depend on the alignment.
    auto* data = reinterpret_cast<u8*>((reinterpret_cast<u64>(storage.data()) + 255) / 256 * 256);
    std::memset(data, 0, size);
    module->storage_->addresses.address[v.name] = reinterpret_cast<u64>(data);
    memory.add(data, size, std::string(v.name), true, v.space == Space::kGlobal,
               v.name.starts_with("_ZN21adokernels_parameters"));
  }
  auto& addresses = module->storage_->addresses.address;
  for (std::size_t i = 0; i < module->text_->callable.size(); ++i)
    addresses.emplace(module->text_->callable[i], kFunctionWindow + i);
  for (const Variable& v : module->text_->variables) {
    if (v.initial.empty()) continue;
    const std::vector<u8> initial = initial_bytes(v, [&](std::string_view name) {
      const auto at = addresses.find(name);
      if (at == addresses.end())
        throw PtxError("variable " + std::string(v.name) + ": the initial value " +
                       std::string(name) + " is not in this module");
      return at->second;
    });
    std::memcpy(reinterpret_cast<void*>(addresses.at(v.name)), initial.data(), initial.size());
  }
  return module;
}

Module::~Module() {
  if (storage_ == nullptr) return;
  for (const auto& [name, variable] : storage_->variables)
    memory_->remove(reinterpret_cast<const void*>(storage_->addresses.address.at(name)));
}

std::vector<std::string_view> Module::entries() const { return text_->entries; }

std::vector<Parameter> Module::parameters(std::string_view entry) const {
  const auto at = text_->functions.find(entry);
  if (at == text_->functions.end())
    throw NameError("the module has no kernel " + std::string(entry));
  std::vector<Parameter> layout;
  for (const Variable& v : at->second.params)
    layout.push_back({static_cast<std::size_t>(v.offset), static_cast<std::size_t>(v.bytes)});
  return layout;
}

std::span<std::byte> Module::variable(std::string_view name) const {
  const auto at = storage_->variables.find(name);
  if (at == storage_->variables.end()) return {};
  return {reinterpret_cast<std::byte*>(storage_->addresses.address.at(name)), at->second.second};
}

const Program& Module::program(std::string_view entry) {
  const std::lock_guard guard(storage_->lock);
  const auto at = text_->functions.find(entry);
  if (at == text_->functions.end() || !at->second.entry)
    throw NameError("the module has no kernel " + std::string(entry));
  std::unique_ptr<Program>& program = storage_->programs[at->first];
  if (program == nullptr)
    program = std::make_unique<Program>(decode(*text_, at->second, storage_->addresses));
  return *program;
}

std::size_t Module::shared_bytes(std::string_view entry) { return program(entry).static_shared; }

// --- Counts and errors ---------------------------------------------------------------------------

AccessCounts& AccessCounts::operator+=(const AccessCounts& o) {
  requests += o.requests, lanes += o.lanes, bytes += o.bytes;
  unique += o.unique, sectors += o.sectors, wavefronts += o.wavefronts, ideal += o.ideal;
  return *this;
}

SourceLine source_line(const LaunchState& launch, int line) {
  const Line& at = launch.program.lines[line];
  const auto file = [&](int number) {
    const auto found = launch.text.files.find(number);
    return found == launch.text.files.end() ? std::string() : found->second;
  };
  return {file(at.file), file(at.outer_file), at.line, at.outer_line};
}

SourceLine user_line(const LaunchState& launch, int line) {
  SourceLine at = source_line(launch, line);
  for (const char* header : {"cccl/", "cooperative_groups", "crt/", "sm_", "cuda_awbarrier",
                             "cuda_bf16", "cuda_fp16", "cuda_pipeline"})
    if (at.outer_line != 0 && at.file.find(std::string("/include/") + header) != std::string::npos)
      at = {at.outer_file, "", at.outer_line, 0};
  return at;
}

std::array<unsigned, 3> thread_of(const LaunchState& launch, int thread) {
  const Extent& b = launch.shape.block;
  const auto t = static_cast<unsigned>(thread);
  return {t % b.x, t / b.x % b.y, t / b.x / b.y};
}

std::string triple(const std::array<unsigned, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) +
         ")";
}

namespace {
std::string compute_text(int compute) {
  return std::to_string(compute / 10) + "." + std::to_string(compute % 10);
}
}  // namespace

std::string thread_text(const LaunchState& launch, int thread) {
  return triple(thread_of(launch, thread));
}

std::string readable_variable(std::string_view name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  const std::string text(status == 0 && name.starts_with("_Z") ? readable.get() : name);
  const std::size_t colon = text.rfind("::");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

bool report(Worker& worker, const Warp& warp, int line, int lane, std::string kind,
            std::string message, std::string array, s64 byte) {
  LaunchState& launch = worker.launch;
  const std::lock_guard guard(launch.lock);
  const s64 cluster = warp.home->cluster->index;
  if (cluster >= launch.failed.load()) return false;
  launch.failed.store(cluster);
  Error& error = launch.result.error.emplace();
  error.kind = std::move(kind);
  error.message = std::move(message);
  error.at = user_line(launch, line);
  error.thread = thread_of(launch, warp.index * kLanes + std::max(lane, 0));
  error.block = warp.home->index;
  error.array = std::move(array);
  error.byte = byte;
  return false;
}

namespace {
// Replaces bytes that are not UTF-8 by \\xNN.
std::string valid_utf8(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return k < text.size() ? text[k] & 0xffu : 0u; };
    const unsigned first = byte(i);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc0 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf8 ? 4
                                            : 0;
    unsigned code = size == 1 ? first : first & (0x7fu >> size);
    bool valid = size != 0;
    for (std::size_t k = 1; k < size; ++k) {
      valid = valid && (byte(i + k) & 0xc0) == 0x80;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    static constexpr unsigned kLeast[] = {0, 0, 0x80, 0x800,
                                          0x10000};  // else a shorter form exists
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    valid = valid && code >= kLeast[size] && code <= 0x10ffff && !surrogate;
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", first);
    out += valid ? text.substr(i, size) : escaped;
    i += valid ? size : 1;
  }
  return out;
}
}  // namespace

std::string Error::text() const {
  std::string where = at.text();
  if (at.outer_line != 0)
    where += " (inlined at " + at.outer_file + ":" + std::to_string(at.outer_line) + ")";
  return kind + ": " + message + "\n  at " + where + "\n  thread " + triple(thread) + " of block " +
         triple(block);
}

// --- Launch --------------------------------------------------------------------------------------

Result launch(Module& module, std::string_view entry, const LaunchShape& given,
              std::span<const std::byte> params, Memory& memory, const Options& options) {
  const Program& program = module.program(entry);
  LaunchShape shape = given;
  if (program.cluster[0] != 0)
    shape.cluster = {static_cast<unsigned>(program.cluster[0]),
                     static_cast<unsigned>(std::max(program.cluster[1], 1)),
                     static_cast<unsigned>(std::max(program.cluster[2], 1))};
  const std::size_t threads = shape.block.volume();
  if (params.size() < program.param_bytes)
    throw ValueError("the parameters of " + program.name + " have " +
                     std::to_string(program.param_bytes) + " bytes, got " +
                     std::to_string(params.size()));
  const int required = program.required_threads;
  if (required != 0 ? threads != static_cast<std::size_t>(required)
                    : threads == 0 || threads > static_cast<std::size_t>(program.max_threads))
    throw ValueError(
        "a block of " + program.name + " must have " +
        (required != 0 ? std::to_string(required) : "1 to " + std::to_string(program.max_threads)) +
        " threads, got " + std::to_string(threads));
  if (shape.grid.volume() == 0 || shape.cluster.volume() == 0)
    throw ValueError("the grid and the cluster must not be empty");
  if (shape.grid.x % shape.cluster.x != 0 || shape.grid.y % shape.cluster.y != 0 ||
      shape.grid.z % shape.cluster.z != 0)
    throw ValueError("the grid must consist of whole clusters");
  if (const auto& newest = program.newest; newest.compute > options.compute)
    throw PtxError("the code needs compute capability " + compute_text(newest.compute) +
                   ", but the emulated GPU has " + compute_text(options.compute) + ": " +
                   newest.instruction);
  if (program.uses_groups && options.compute >= 100)
    throw PtxError("wgmma needs compute capability 9.0, but the emulated GPU has " +
                   compute_text(options.compute));
  const auto max_shared = static_cast<std::size_t>(options.shared_bytes);
  if (program.static_shared + shape.dynamic_shared_bytes > max_shared)
    throw ValueError("a block must have at most " + std::to_string(max_shared) +
                     " bytes of shared memory, got " +
                     std::to_string(program.static_shared + shape.dynamic_shared_bytes));
  const Bytes aligned(std::max<std::size_t>(params.size(), 16));  // tensor maps need 64 bytes
  std::copy(params.begin(), params.end(), reinterpret_cast<std::byte*>(aligned.data()));
  memory.add(aligned.data(), aligned.size(), "parameters", true, false, true);
  // Blocks of a cooperative launch count their arrivals here: the size in bytes, then the barrier.
  alignas(64) std::array<u32, 64> workspace{sizeof workspace};
  memory.add(workspace.data(), sizeof workspace, "grid barrier", true, true, true);

  Result result;
  GlobalShadow shadow;
  LaunchState state{.program = program,
                    .shape = shape,
                    .options = options,
                    .memory = memory,
                    .text = *module.text_,
                    .functions = lane_functions(),
                    .params = reinterpret_cast<const std::byte*>(aligned.data()),
                    .workspace = workspace.data(),
                    .clusters = {shape.grid.x / shape.cluster.x, shape.grid.y / shape.cluster.y,
                                 shape.grid.z / shape.cluster.z},
                    .cluster_count = 0,
                    .lock = {},
                    .shadow = nullptr,
                    .result = result};
  state.cluster_count = static_cast<s64>(state.clusters.volume());
  if (options.checks.global_racecheck && state.cluster_count > 1 &&
      shape.grid.volume() < 1u << Touch::kBlockBits)
    state.shadow = &shadow;
  while ((state.cluster_count - 1) >> (shadow.clock_bits + EpochNode::kBits) != 0)
    shadow.clock_bits += EpochNode::kBits;
  const s64 wanted = options.threads > 0 ? options.threads : max_threads();
  const int parts =
      static_cast<int>(std::clamp<s64>(state.cluster_count, 1, std::min<s64>(wanted, kMaxParts)));
  struct RemoveParams {
    Memory& memory;
    const void *data, *workspace;
    ~RemoveParams() {
      memory.remove(data);
      memory.remove(workspace);
    }
  } remove{memory, aligned.data(), workspace.data()};
  run_parts(
      parts,
      [](const void* work, int, int) {
        run_worker(*static_cast<LaunchState*>(const_cast<void*>(work)));
      },
      &state);
  if (shadow.race) report_global_race(state);
  result.output = valid_utf8(result.output);
  if (result.error) result.error->message = valid_utf8(result.error->message);
  result.counts.blocks = static_cast<s64>(shape.grid.volume());
  result.counts.warps = result.counts.blocks * static_cast<s64>((threads + kLanes - 1) / kLanes);
  std::erase_if(result.counts.lines, [](const LineCounts& line) { return line.instructions == 0; });
  return result;
}

}  // namespace emulator
}  // namespace ado

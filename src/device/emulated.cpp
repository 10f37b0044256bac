#include "device/emulated.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/scope_exit.hpp"
#include "device/emulated_gpus.hpp"
#include "emulator/ptx.hpp"

namespace ado::cuda::emulated {
namespace {

constexpr std::size_t kAlignment = 256;  // of cudaMalloc
constexpr std::align_val_t kAlign{kAlignment};
// Memory of cudaMalloc is filled with this byte, so that a result that no kernel writes is wrong.
constexpr int kUnwritten = 0x7f;

// The code of one source file. It is read and parsed at the first launch of its kernels.
struct Code {
  Fatbin fatbin;
  std::string ptx;              // compiled at run time; then there is no fat binary
  std::set<std::string> names;  // of kernels of this PTX; their addresses are the handles
  std::unique_ptr<emulator::Module> module;
  std::optional<std::map<std::string, int>> registers;
};

struct RegisteredKernel {
  Code* code;
  const char* name;
};

thread_local bool is_current = false;
thread_local bool is_launching = false;
thread_local std::size_t misalignment = 0;
thread_local Recording* recording = nullptr;
thread_local Substitution* substitution = nullptr;

// One kernel runs at a time. Other threads wait, even to allocate memory.
struct Gpu {
  std::mutex mutex;
  FatbinReader reader;
  Waiter wait = [](const std::function<void()>& work) { work(); };
  std::vector<std::function<void()>> after_launch;
  std::unordered_map<const void*, Code> files;  // by the handle of the fat binary
  std::unordered_map<const void*, RegisteredKernel> kernels;
  emulator::Memory memory;
  emulator::Checks checks;
};

// The object is never destroyed, because objects that are destroyed at the end of the process free
// memory on it.
Gpu& gpu() {
  static Gpu& object = *new Gpu;
  return object;
}

// Locks the mutex. A thread waits without Python's GIL, because the running kernel may need the GIL
// to handle a signal. The thread takes the GIL again before it locks the mutex.
std::unique_lock<std::mutex> lock_gpu() {
  if (is_launching) throw Unavailable("a signal handler cannot use the emulator during a kernel");
  std::unique_lock lock(gpu().mutex, std::try_to_lock);
  while (!lock) {
    gpu().wait([] { const std::lock_guard idle(gpu().mutex); });
    lock.try_lock();
  }
  return lock;
}

// Calls work() with the mutex locked, or after the kernel that this thread runs. Python can collect
// garbage when it handles a signal, also during a kernel: memory is then freed after the kernel.
void when_idle(std::function<void()> work) {
  if (is_launching) return gpu().after_launch.push_back(std::move(work));
  const auto lock = lock_gpu();
  work();
}

const RegisteredKernel& find(const void* kernel) {
  const auto found = gpu().kernels.find(kernel);
  if (found == gpu().kernels.end())
    throw Unavailable("the emulator executes only kernels of this package");
  return found->second;
}

// A kernel whose code is loaded as long as the mutex is locked.
struct Loaded {
  std::unique_lock<std::mutex> lock;
  const RegisteredKernel& kernel;
};

// Reads a fat binary. The mutex is not locked meanwhile, because the reader may wait for a thread
// that waits for the mutex, such as one that has Python's GIL.
template <class Result>
Result read(std::unique_lock<std::mutex>& lock, const std::function<Result(Fatbin)>& reader,
            Fatbin fatbin) {
  if (!reader) throw Unavailable("the emulator needs set_fatbin_reader()");
  lock.unlock();
  auto result = reader(fatbin);
  lock = lock_gpu();
  return result;
}

std::string ptx_of(std::unique_lock<std::mutex>& lock, const Code& code) {
  std::string text = code.fatbin.empty() ? code.ptx : read(lock, gpu().reader.ptx, code.fatbin);
  text.resize(text.find_last_not_of('\0') + 1);  // padding
  return text;
}

Loaded load_code(const void* kernel, bool with_registers) {
  auto lock = lock_gpu();
  const RegisteredKernel& known = find(kernel);
  Code& code = *known.code;
  if (with_registers && !code.registers && !code.fatbin.empty())
    code.registers = read(lock, gpu().reader.registers, code.fatbin);
  if (code.module == nullptr) {
    std::string text = ptx_of(lock, code);
    try {
      if (code.module == nullptr)
        code.module = emulator::Module::load(std::move(text), gpu().memory);
    } catch (const emulator::PtxError& error) {
      throw Unavailable(short_name(known.name) + ": " + error.what());
    }
  }
  return {std::move(lock), known};
}

Kernel resources_of(const RegisteredKernel& kernel) try {
  const Code& code = *kernel.code;
  const bool known = code.registers && code.registers->contains(kernel.name);
  return {.name = short_name(kernel.name),
          .grid = {},
          .block = {},
          .registers = known ? code.registers->at(kernel.name) : kAssumedRegisters,
          .static_shared_bytes = code.module->shared_bytes(kernel.name)};
} catch (const emulator::PtxError& error) {
  throw Unavailable(error.what());
}

// Returns the path in the repository. PTX contains the paths of the machine that compiled it.
std::string path_in_repository(const std::string& path) {
  for (const char* folder : {"/cuda/", "/src/device/"})
    if (const auto at = path.rfind(folder);
        at != std::string::npos && path.ends_with("h") == path.ends_with("cuh"))
      return path.substr(at + 1);
  return path;
}

}  // namespace

std::string why_unavailable() { return gpu().kernels.empty() ? "built without CUDA" : ""; }

bool current() { return is_current; }
bool exchange_current(bool emulated) { return std::exchange(is_current, emulated); }

void set_checks(const emulator::Checks& checks) {
  const auto lock = lock_gpu();
  gpu().checks = checks;
}

emulator::Checks checks() {
  const auto lock = lock_gpu();
  return gpu().checks;
}

// The header of a fat binary has 16 bytes, and contains the size of the rest.
void register_fatbin(const void* handle, const void* fatbin) {
  const auto* const data = static_cast<const std::byte*>(fatbin);
  std::uint64_t size;
  std::memcpy(&size, data + 8, sizeof size);
  gpu().files[handle].fatbin = {data, 16 + size};
}

void register_kernel(const void* handle, const void* kernel, const char* name) {
  gpu().kernels[kernel] = {&gpu().files[handle], name};
}

std::map<std::string, Fatbin> fatbins() {
  const auto lock = lock_gpu();
  std::map<std::string, Fatbin> found;
  for (const auto& [address, kernel] : gpu().kernels)
    if (!kernel.code->fatbin.empty()) found[kernel.name] = kernel.code->fatbin;
  return found;
}

void set_fatbin_reader(FatbinReader reader) { gpu().reader = std::move(reader); }
void set_waiter(Waiter waiter) { gpu().wait = std::move(waiter); }

// ---- Code that is compiled at run time, as PTX ----

void* load(std::string ptx) {
  const auto lock = lock_gpu();
  auto* const handle = new char;  // an address that no other code has
  Code& code = gpu().files[handle];
  code.ptx = std::move(ptx);
  try {
    code.module = emulator::Module::load(code.ptx, gpu().memory);
  } catch (const emulator::PtxError& error) {
    gpu().files.erase(handle);
    delete handle;
    throw Unavailable(error.what());
  }
  return handle;
}

void unload(void* handle) {
  when_idle([=] {
    for (const std::string& name : gpu().files.at(handle).names) gpu().kernels.erase(&name);
    gpu().files.erase(handle);
    delete static_cast<char*>(handle);
  });
}

const void* kernel_named(void* handle, const std::string& mangled_name) {
  const auto lock = lock_gpu();
  Code& code = gpu().files.at(handle);
  const std::vector<std::string_view> entries = code.module->entries();
  if (std::find(entries.begin(), entries.end(), mangled_name) == entries.end()) return nullptr;
  const std::string& name = *code.names.insert(mangled_name).first;
  gpu().kernels[&name] = {&code, name.c_str()};
  return &name;
}

std::vector<emulator::Parameter> parameters(const void* kernel) {
  const Loaded loaded = load_code(kernel, false);
  return loaded.kernel.code->module->parameters(loaded.kernel.name);
}

void write_variable(const void* kernel, const std::string& name, std::span<const std::byte> bytes) {
  const Loaded loaded = load_code(kernel, false);
  const std::span<std::byte> variable = loaded.kernel.code->module->variable(name);
  if (variable.size() < bytes.size()) throw ValueError("name must be a variable, got " + name);
  std::memcpy(variable.data(), bytes.data(), bytes.size());
}

std::string ptx(const void* kernel) {
  auto lock = lock_gpu();
  return ptx_of(lock, *find(kernel).code);
}

// ---- Memory ----

std::byte* allocate(std::size_t bytes) {
  const std::size_t shift = misalignment;
  auto* const data =
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(shift + bytes, 1), kAlign));
  std::memset(data, kUnwritten, shift + bytes);
  const auto lock = lock_gpu();
  gpu().memory.add(data, shift + bytes, "device memory", false);
  gpu().memory.mark_written(data, shift);
  return data + shift;
}

void free(void* memory) {
  if (memory == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  when_idle([data = reinterpret_cast<void*>(address - address % kAlignment)] {
    gpu().memory.remove(data);
    ::operator delete(data, kAlign);
  });
}

void set_misalignment(std::size_t bytes) { misalignment = bytes % kAlignment; }

void copy(void* to, const void* from, std::size_t bytes) {
  std::memmove(to, from, bytes);
  const auto lock = lock_gpu();
  gpu().memory.mark_copied(to, from, bytes);
}

void fill(void* to, unsigned char value, std::size_t bytes) {
  std::memset(to, value, bytes);
  const auto lock = lock_gpu();
  gpu().memory.mark_written(to, bytes);
}

std::span<std::byte> memory_at(std::uint64_t address) {
  const auto lock = lock_gpu();
  const emulator::Allocation* const range = gpu().memory.find(address);
  if (range == nullptr || address >= range->end) return {};
  return {reinterpret_cast<std::byte*>(range->begin), range->end - range->begin};
}

void use_host_memory(void* data, std::size_t bytes, const std::string& name) {
  const auto lock = lock_gpu();
  gpu().memory.add(data, bytes, name, true);
}

void forget_host_memory(void* data) {
  const auto lock = lock_gpu();
  gpu().memory.remove(data);
}

void name_memory(const void* data, const std::string& name) {
  const auto lock = lock_gpu();
  const auto address = reinterpret_cast<std::uint64_t>(data);
  emulator::Allocation* const range = gpu().memory.find(address);
  if (range != nullptr && address < range->end) range->name = name;
}

// ---- Kernels ----

std::vector<std::byte> packed(const std::vector<emulator::Parameter>& layout, void** arguments) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    bytes.resize(layout[i].offset + layout[i].bytes);
    std::memcpy(bytes.data() + layout[i].offset, arguments[i], layout[i].bytes);
  }
  return bytes;
}

Kernel resources(const void* kernel) { return resources_of(load_code(kernel, true).kernel); }

const char* mangled_name(const void* kernel) {
  const auto lock = lock_gpu();
  return find(kernel).name;
}

// After an error or an interruption, the module is loaded again, because its variables may be
// inconsistent.
void launch(const void* kernel, const emulator::LaunchShape& shape, void** arguments) {
  if (const Substitution::Observer* const observer = Substitution::observer())
    (*observer)(kernel, mangled_name(kernel), shape, packed(parameters(kernel), arguments));
  kernel = Substitution::of(kernel);
  const Loaded loaded = load_code(kernel, recording != nullptr);
  const RegisteredKernel& code = loaded.kernel;
  const std::string name = short_name(code.name);
  emulator::Result result;
  is_launching = true;
  const ScopeExit ended([] {
    is_launching = false;
    for (const auto& work : std::exchange(gpu().after_launch, {})) work();
  });
  try {
    emulator::Module& module = *code.code->module;
    const Properties& properties = gpu_model().properties;
    result = emulator::launch(module, code.name, shape,
                              packed(module.parameters(code.name), arguments), gpu().memory,
                              {.checks = gpu().checks,
                               .compute = properties.compute,
                               .multiprocessors = properties.multiprocessors,
                               .shared_bytes = properties.shared_bytes_per_block});
  } catch (const emulator::PtxError& error) {
    throw Unavailable(name + ": " + error.what());
  } catch (const Interrupted&) {
    code.code->module.reset();
    throw;
  }
  std::fputs(result.output.c_str(), stdout);  // of printf, as on a GPU
  if (recording != nullptr) {
    Kernel described = resources_of(code);
    described.grid = shape.grid;
    described.block = shape.block;
    described.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    recording->launches.push_back({std::move(described), std::move(result.counts)});
  }
  if (!result.error) return;
  code.code->module.reset();
  emulator::Error& error = *result.error;
  error.at.file = path_in_repository(error.at.file);
  error.at.outer_file = path_in_repository(error.at.outer_file);
  throw KernelError({.kernel = name,
                     .kind = error.kind,
                     .file = error.at.file,
                     .line = error.at.line,
                     .thread = error.thread,
                     .block = error.block,
                     .array = error.array,
                     .byte = error.byte},
                    error.text());
}

Recording::Recording() : outer_(std::exchange(recording, this)) {}
Recording* Recording::of_thread() { return recording; }
Recording::~Recording() { recording = outer_; }

Substitution::Substitution(std::map<const void*, const void*> kernels, Observer observer)
    : kernels_(std::move(kernels)),
      observer_(std::move(observer)),
      outer_(std::exchange(substitution, this)) {}
Substitution::~Substitution() { substitution = outer_; }
const void* Substitution::of(const void* kernel) {
  if (substitution == nullptr) return kernel;
  const auto found = substitution->kernels_.find(kernel);
  return found == substitution->kernels_.end() ? kernel : found->second;
}
const Substitution::Observer* Substitution::observer() {
  return substitution != nullptr && substitution->observer_ ? &substitution->observer_ : nullptr;
}

}  // namespace ado::cuda::emulated

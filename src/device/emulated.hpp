// The emulated GPU: device memory on the host, and launches on the emulator.
//
// A thread whose current device is this GPU calls the CUDA runtime as it does for other GPUs.
// emulated_calls.cpp passes its calls to these functions.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "emulator/emulator.hpp"

namespace ado::cuda::emulated {

// The reason why a variant that calls a library cannot run.
inline constexpr char kNoLibraries[] = "the emulator cannot execute the kernels of cuBLAS";

// The reason why no kernel can run on it, for example "built without CUDA"; empty if kernels can.
std::string why_unavailable();

// Returns true if the emulated GPU is the current device of the calling thread.
bool current();
bool exchange_current(bool emulated);  // returns the previous value

// The checks of later launches.
void set_checks(const emulator::Checks& checks);
emulator::Checks checks();

// ---- Registered by the static constructors of the files that nvcc compiles ----

void register_fatbin(const void* handle, const void* fatbin);
void register_kernel(const void* handle, const void* kernel, const char* name);

// ---- The code of these files ----

// A fat binary has the code of a file for several architectures.
using Fatbin = std::span<const std::byte>;

// The fat binary with each kernel, by mangled name. Several files can have a kernel of one name.
std::map<std::string, Fatbin> fatbins();

// Functions that read a fat binary. The emulator calls each of them when it needs the result, about
// once per file. The package sets functions of python/adokernels/fat_binary.py and machine_code.py.
struct FatbinReader {
  std::function<std::string(Fatbin)> ptx;
  std::function<std::map<std::string, int>(Fatbin)> registers;  // per thread, by mangled name
};
void set_fatbin_reader(FatbinReader reader);

// A Waiter calls a function that waits for the kernel of another thread. The Python package sets a
// Waiter that releases the GIL meanwhile.
using Waiter = std::function<void(const std::function<void()>&)>;
void set_waiter(Waiter waiter);

// ---- Code that is compiled at run time, as PTX ----

// Loads PTX until unload(). Throws Unavailable for PTX that the emulator cannot read.
void* load(std::string ptx);
void unload(void* code);
// Returns the handle of a kernel, which is used like the address of a kernel of this package, or
// nullptr if the code has no kernel with this name.
const void* kernel_named(void* code, const std::string& mangled_name);
std::vector<emulator::Parameter> parameters(const void* kernel);
// Writes the first bytes of a variable of the kernel's module.
void write_variable(const void* kernel, const std::string& name, std::span<const std::byte> bytes);
// Returns the PTX of a kernel, also for kernels of this package.
std::string ptx(const void* kernel);

// ---- Memory ----

// Aligned like memory of cudaMalloc. Its contents count as uninitialised. Throws std::bad_alloc.
std::byte* allocate(std::size_t bytes);
void free(void* memory);
// Later allocations of the calling thread begin this number of bytes, less than 256, after an
// aligned address, like a part of a larger array. For tests of kernels at unaligned addresses.
void set_misalignment(std::size_t bytes);
void copy(void* to, const void* from, std::size_t bytes);
void fill(void* to, unsigned char value, std::size_t bytes);
// Returns the allocation that contains an address, or an empty span.
std::span<std::byte> memory_at(std::uint64_t address);
// Lets kernels access memory of the host at its own address until forget_host_memory().
void use_host_memory(void* data, std::size_t bytes, const std::string& name);
void forget_host_memory(void* data);
// Names the array at an address for error messages.
void name_memory(const void* data, const std::string& name);

// ---- Kernels ----

// The kernel's resources, without its launch configuration. Without machine code for
// compute capability 9.0 in the build, the registers are kAssumedRegisters.
Kernel resources(const void* kernel);
inline constexpr int kAssumedRegisters = 32;
const char* mangled_name(const void* kernel);
// Returns the values of parameters as a kernel reads them.
std::vector<std::byte> packed(const std::vector<emulator::Parameter>& layout, void** arguments);

// Executes a kernel. Throws KernelError for an error of the kernel, and Unavailable if the build
// has no PTX of it or if the emulator does not support an instruction.
void launch(const void* kernel, const emulator::LaunchShape& shape, void** arguments);

// A launch and its counts.
struct Launched {
  Kernel kernel;
  emulator::Counts counts;
};

// Collects the launches of the calling thread within a scope.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The recording of the calling thread, or nullptr.
  static Recording* of_thread();

  std::vector<Launched> launches;

 private:
  Recording* outer_;
};

// Replaces kernels in launches of the calling thread, within a scope.
class Substitution {
 public:
  // Called before each launch, with the values of the parameters.
  using Observer = std::function<void(const void* kernel, const char* mangled_name,
                                      const emulator::LaunchShape& shape,
                                      std::span<const std::byte> parameters)>;

  Substitution(std::map<const void*, const void*> kernels, Observer observer);
  ~Substitution();
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

  // Returns the kernel that replaces a kernel, or the kernel itself.
  static const void* of(const void* kernel);
  static const Observer* observer();

 private:
  std::map<const void*, const void*> kernels_;
  Observer observer_;
  Substitution* outer_;
};

}  // namespace ado::cuda::emulated

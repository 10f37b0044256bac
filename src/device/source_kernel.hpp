// Loads machine code that was compiled at run time, and launches its kernels. Without CUDA, the
// first constructor throws Unavailable.
#pragma once

#include <span>
#include <string_view>

#include "device/device.hpp"
#include "emulator/emulator.hpp"

namespace ado::cuda {

// Machine code for one GPU, whatever the current device of the calling thread is. The driver loads
// it at the first launch of one of its kernels.
class CodeModule {
 public:
  // Copies `code`, which must be a cubin for this GPU, or PTX for the emulated GPU. Throws
  // ValueError if it is not.
  CodeModule(std::string_view code, int device);
  ~CodeModule();
  CodeModule(const CodeModule&) = delete;
  CodeModule& operator=(const CodeModule&) = delete;
  void* handle() const { return handle_; }  // a cudaLibrary_t, or of emulated::load
  int device() const { return device_; }

 private:
  void* handle_ = nullptr;
  int device_;
};

// A kernel of a module. The module stays loaded as long as the kernel exists.
class SourceKernel {
 public:
  // `symbol` is the mangled name. Throws ValueError if the module does not contain it.
  SourceKernel(std::shared_ptr<const CodeModule> module, const std::string& symbol);
  const std::string& name() const { return name_; }  // as Kernel::name
  const std::vector<emulator::Parameter>& parameters() const { return parameters_; }
  // For functions of the runtime: a cudaKernel_t, or a handle of the emulated GPU.
  const void* handle() const { return handle_; }
  int device() const { return module_->device(); }
  // Writes the first bytes of a variable. Throws ValueError if it is missing or smaller than bytes.
  void write(const std::string& variable, std::span<const std::byte> bytes) const;

 private:
  std::shared_ptr<const CodeModule> module_;
  const void* handle_ = nullptr;
  std::string name_;
  std::vector<emulator::Parameter> parameters_;
};

// The parameters of a kernel on the current device.
std::vector<emulator::Parameter> parameters_of(const void* kernel);

// Returns the first address and the bytes of the memory of a GPU or of the emulated GPU that
// contains an address, or (0, 0).
std::pair<std::uint64_t, std::size_t> memory_at(std::uint64_t address);

// A kernel with its launch configuration and the values of its parameters.
class KernelLaunch {
 public:
  // `grid` and `block` have one to three lengths. Each argument is the bytes of one parameter,
  // which are copied. Throws TypeError if the number or the size of the arguments is wrong, and
  // ValueError if the GPU cannot launch the configuration.
  KernelLaunch(SourceKernel kernel, const std::vector<std::int64_t>& grid,
               const std::vector<std::int64_t>& block, std::int64_t shared_bytes,
               const std::vector<std::string_view>& arguments);

  // Lets each run set this memory to 0 before the kernel.
  void zero(void* memory, std::size_t bytes) { zeroed_.push_back({memory, bytes}); }
  // Enqueues the kernel and returns. An empty grid is not launched.
  void run(void* stream) const;
  Kernel info() const;

 private:
  void check_launch(std::int64_t shared_bytes) const;
  void copy_arguments(const std::vector<std::string_view>& arguments);

  SourceKernel kernel_;
  Launch go_;
  std::vector<std::byte> arguments_;  // in the layout of the parameters
  std::vector<std::pair<void*, std::size_t>> zeroed_;
};

}  // namespace ado::cuda

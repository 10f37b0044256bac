// Kernels that were compiled at run time, loaded with the library API of the CUDA runtime.
#include "device/source_kernel.hpp"

#include "common/launch.cuh"
#include "core/error.hpp"

#if defined(ADO_WITH_CUDA) && CUDART_VERSION >= 12080
#define ADO_WITH_LIBRARIES
#endif

#ifdef ADO_WITH_LIBRARIES

#include <cuda.h>

#include <array>
#include <cstring>
#include <utility>

#include "device/device.hpp"
#include "device/emulated.hpp"
#include "device/internal.cuh"

namespace ado::cuda {
namespace {

using Lengths = std::vector<std::int64_t>;

std::string text_of(const Lengths& lengths) {
  std::string text = "(";
  for (const std::int64_t length : lengths)
    text += (text.size() > 1 ? ", " : "") + std::to_string(length);
  return text + ")";
}

Extent extent_of(const char* what, const Lengths& lengths, std::int64_t least,
                 const std::array<cudaDeviceAttr, 3>& limits) {
  if (lengths.empty() || lengths.size() > limits.size())
    throw ValueError(std::string(what) + " must have 1 to 3 lengths, got " + text_of(lengths));
  std::array<unsigned, 3> extent = {1, 1, 1};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const int most = attribute(limits[i]);
    if (lengths[i] < least || lengths[i] > most)
      throw ValueError(std::string(what) + "." + "xyz"[i] + " must be between " +
                       std::to_string(least) + " and " + std::to_string(most) + ", got " +
                       text_of(lengths));
    extent[i] = static_cast<unsigned>(lengths[i]);
  }
  return {extent[0], extent[1], extent[2]};
}

// Returns true if the driver rejects the code, and false for a failure of the device.
bool is_wrong_code(cudaError_t status) {
  return status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidKernelImage ||
         status == cudaErrorInvalidSource || status == cudaErrorInvalidPtx ||
         status == cudaErrorUnsupportedPtxVersion || status == cudaErrorInvalidValue ||
         status == cudaErrorInvalidDeviceFunction;
}

void check_code(cudaError_t status, const char* call, int line) {
  if (status == cudaSuccess) return;
  if (!is_wrong_code(status)) throw_error(status, call, __FILE__, line);
  cudaGetLastError();
  throw ValueError(
      "code must be a cubin for this GPU (sm_" + std::to_string(properties().compute) +
      "), made by a CUDA toolkit that the driver supports: " + cudaGetErrorString(status));
}

cudaFuncAttributes attributes_of(const void* kernel) {
  cudaFuncAttributes attributes;
  check_code(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes(...)", __LINE__);
  return attributes;
}

}  // namespace

std::vector<emulator::Parameter> parameters_of(const void* kernel) {
  if (emulated::current()) return emulated::parameters(kernel);
  std::vector<emulator::Parameter> list;
  for (;;) {
    emulator::Parameter parameter = {};
    const cudaError_t status =
        cudaFuncGetParamInfo(kernel, list.size(), &parameter.offset, &parameter.bytes);
    if (status == cudaErrorInvalidValue) {  // the kernel has no parameter with this index
      cudaGetLastError();
      return list;
    }
    if (status != cudaSuccess) throw_error(status, "cudaFuncGetParamInfo(...)", __FILE__, __LINE__);
    list.push_back(parameter);
  }
}

std::pair<std::uint64_t, std::size_t> memory_at(std::uint64_t address) {
  if (const auto found = emulated::memory_at(address); !found.empty())
    return {reinterpret_cast<std::uint64_t>(found.data()), found.size()};
  CUdeviceptr first = 0;
  std::size_t bytes = 0;
  if (emulated::current()) return {};
  const auto range = driver_function<CUresult(CUdeviceptr*, std::size_t*, CUdeviceptr)>(
      "cuMemGetAddressRange", 3020);
  if (range(&first, &bytes, address) != CUDA_SUCCESS) return {};
  return {first, bytes};
}

CodeModule::CodeModule(std::string_view code, int device) : device_(device) {
  if (device == kEmulatedGpu) {
    handle_ = emulated::load(std::string(code));
    return;
  }
  require();
  const DeviceScope scope(device);
  // The driver reads the size from the header of the code.
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  if (code.size() < 64 || code.substr(0, kElf.size()) != kElf)
    throw ValueError("code must be a cubin, got " + std::to_string(code.size()) +
                     " bytes without a cubin header");
  cudaLibrary_t library = nullptr;
  check_code(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
             "cudaLibraryLoadData(...)", __LINE__);
  handle_ = library;
}

// The driver waits for running kernels. Errors are ignored, because the driver can already be shut
// down when the process exits.
CodeModule::~CodeModule() {
  if (device_ == kEmulatedGpu)
    emulated::unload(handle_);
  else
    cudaLibraryUnload(static_cast<cudaLibrary_t>(handle_));
}

SourceKernel::SourceKernel(std::shared_ptr<const CodeModule> module, const std::string& symbol)
    : module_(std::move(module)) {
  const DeviceScope scope(device());
  if (device() == kEmulatedGpu) {
    handle_ = emulated::kernel_named(module_->handle(), symbol);
  } else {
    cudaKernel_t kernel = nullptr;
    const cudaError_t status = cudaLibraryGetKernel(
        &kernel, static_cast<cudaLibrary_t>(module_->handle()), symbol.c_str());
    if (status == cudaErrorSymbolNotFound)
      cudaGetLastError();
    else
      check_code(status, "cudaLibraryGetKernel(...)", __LINE__);
    // Functions of the runtime accept a cudaKernel_t instead of the address of a kernel.
    handle_ = kernel;
  }
  if (handle_ == nullptr)
    throw ValueError("symbol must be the mangled name of a kernel of the module, got '" + symbol +
                     "'");
  attributes_of(handle_);  // loads the code on the device; throws if it fails
  name_ = short_name(symbol.c_str());
  parameters_ = parameters_of(handle_);
}

void SourceKernel::write(const std::string& variable, std::span<const std::byte> bytes) const {
  if (device() == kEmulatedGpu) return emulated::write_variable(handle_, variable, bytes);
  const DeviceScope scope(device());
  void* memory = nullptr;
  std::size_t size = 0;
  const cudaError_t status = cudaLibraryGetGlobal(
      &memory, &size, static_cast<cudaLibrary_t>(module_->handle()), variable.c_str());
  if (status == cudaErrorSymbolNotFound || (status == cudaSuccess && size < bytes.size())) {
    cudaGetLastError();
    throw ValueError("name must be a variable, got " + variable);
  }
  check_code(status, "cudaLibraryGetGlobal(...)", __LINE__);
  ADO_CUDA(cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
}

KernelLaunch::KernelLaunch(SourceKernel kernel, const Lengths& grid, const Lengths& block,
                           std::int64_t shared_bytes,
                           const std::vector<std::string_view>& arguments)
    : kernel_(std::move(kernel)) {
  const DeviceScope scope(kernel_.device());
  go_.grid = extent_of("grid", grid, 0,
                       {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ});
  go_.block =
      extent_of("block", block, 1,
                {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ});
  check_launch(shared_bytes);
  go_.shared_bytes = static_cast<std::size_t>(shared_bytes);
  copy_arguments(arguments);
}

void KernelLaunch::check_launch(std::int64_t shared_bytes) const {
  const cudaFuncAttributes code = attributes_of(kernel_.handle());
  const std::size_t threads = go_.block.volume();
  const int device_threads = attribute(cudaDevAttrMaxThreadsPerBlock);
  if (threads > static_cast<std::size_t>(device_threads))
    throw ValueError("block must have at most " + std::to_string(device_threads) +
                     " threads, got " + std::to_string(threads));
  if (threads > static_cast<std::size_t>(code.maxThreadsPerBlock))
    throw ValueError("block must have at most " + std::to_string(code.maxThreadsPerBlock) +
                     " threads for " + kernel_.name() + ", because of its launch bounds or its " +
                     std::to_string(code.numRegs) + " registers per thread; got " +
                     std::to_string(threads));
  const std::int64_t most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) -
                            static_cast<std::int64_t>(code.sharedSizeBytes);
  if (shared_bytes < 0 || shared_bytes > most)
    throw ValueError("shared_bytes must be between 0 and " + std::to_string(most) + " for " +
                     kernel_.name() + ", got " + std::to_string(shared_bytes));
}

void KernelLaunch::copy_arguments(const std::vector<std::string_view>& arguments) {
  const auto& parameters = kernel_.parameters();
  if (arguments.size() != parameters.size())
    throw TypeError(kernel_.name() + " must have " + std::to_string(parameters.size()) +
                    " arguments, got " + std::to_string(arguments.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto [offset, bytes] = parameters[i];
    if (arguments[i].size() != bytes)
      throw TypeError("argument " + std::to_string(i) + " of " + kernel_.name() + " must have " +
                      std::to_string(bytes) + " bytes, got " + std::to_string(arguments[i].size()));
    if (arguments_.size() < offset + bytes) arguments_.resize(offset + bytes);
    std::memcpy(arguments_.data() + offset, arguments[i].data(), bytes);
  }
}

void KernelLaunch::run(void* stream) const {
  const DeviceScope scope(kernel_.device());
  std::vector<void*> pointers;
  for (const auto& [offset, bytes] : kernel_.parameters())
    pointers.push_back(const_cast<std::byte*>(arguments_.data() + offset));
  Launch go = go_;
  go.stream = stream;
  for (const auto& [memory, bytes] : zeroed_) clear(go, memory, bytes);
  launch_kernel(kernel_.handle(), go, pointers.data());
}

Kernel KernelLaunch::info() const {
  const DeviceScope scope(kernel_.device());
  return resources_of(kernel_.handle(), go_);
}

}  // namespace ado::cuda

#else

namespace ado::cuda {

CodeModule::CodeModule(std::string_view, int device) : device_(device) {
  require();
  throw Unavailable("kernels from source need a build with CUDA 12.8 or newer");
}
CodeModule::~CodeModule() = default;
SourceKernel::SourceKernel(std::shared_ptr<const CodeModule>, const std::string&) {}
KernelLaunch::KernelLaunch(SourceKernel kernel, const std::vector<std::int64_t>&,
                           const std::vector<std::int64_t>&, std::int64_t,
                           const std::vector<std::string_view>&)
    : kernel_(std::move(kernel)) {}
void SourceKernel::write(const std::string&, std::span<const std::byte>) const {}
std::vector<emulator::Parameter> parameters_of(const void*) { return {}; }
std::pair<std::uint64_t, std::size_t> memory_at(std::uint64_t) { return {}; }
void KernelLaunch::run(void*) const {}
Kernel KernelLaunch::info() const { return {}; }

}  // namespace ado::cuda

#endif

// Device memory, properties and timing; without a CUDA compiler, their refusal.
#include "runtime/device.hpp"

#include "common/launch.cuh"
#include "core/error.hpp"

#ifdef __CUDACC__

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>

namespace ado::cuda {

void throw_error(cudaError_t status, const char* call, const char* file, int line) {
  cudaGetLastError();  // forget it: the next valid call must work
  throw CudaError(call, file, line, cudaGetErrorName(status), cudaGetErrorString(status));
}

namespace {

Kernel resources_of(const void* kernel, const Launch& go);

// A kernel must ask before it may have more than every GPU has.
void allow_shared(const void* kernel, std::size_t bytes) {
  constexpr std::size_t kWithoutAsking = 48 << 10;
  if (bytes > kWithoutAsking)
    ADO_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
}

}  // namespace

void copy(const Launch& go, std::byte* to, const Array& from) {
  if (go.recorder != nullptr) return;
  ADO_CUDA(cudaMemcpyAsync(to, from.data, static_cast<std::size_t>(from.bytes()),
                           cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(go.stream)));
}

void clear(const Launch& go, void* memory, std::size_t bytes) {
  if (go.recorder != nullptr) return;
  ADO_CUDA(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(go.stream)));
}

void launch_kernel(const void* kernel, const Launch& go, void** args) {
  if (go.grid.volume() == 0) return;  // nothing to do: an empty problem
  if (go.recorder != nullptr) return go.recorder->kernels.push_back(resources_of(kernel, go));
  const auto dim = [](Extent e) { return dim3(e.x, e.y, e.z); };
  allow_shared(kernel, go.shared_bytes);
  ADO_CUDA(cudaLaunchKernel(kernel, dim(go.grid), dim(go.block), args, go.shared_bytes,
                            static_cast<cudaStream_t>(go.stream)));
}

namespace {

struct Stamp {
  unsigned long long nanoseconds;
  long long cycles;
  unsigned multiprocessor;
};

// Wall time and SM cycles side by side: two of these around a kernel give the clock it ran at.
__global__ void timer_stamp(Stamp* stamp) {
  unsigned multiprocessor;
  unsigned long long nanoseconds;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  *stamp = {nanoseconds, clock64(), multiprocessor};
}

// Holds the stream until the host has enqueued everything that is to be timed.
__global__ void timer_block(volatile int* released, volatile int* gave_up) {
  constexpr unsigned long long kPatienceNanoseconds = 250'000'000;
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (*released == 0) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > kPatienceNanoseconds) {
      *gave_up = 1;
      return;
    }
  }
}

}  // namespace

const std::string& why_unavailable() {
  static const std::string reason = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
        (status == cudaSuccess && count == 0)) {
      int driver = 0;
      cudaDriverGetVersion(&driver);
      if (driver != 0 && status == cudaErrorInsufficientDriver)
        return std::string("the CUDA driver is older than the CUDA runtime of this build");
      return std::string("no CUDA device");
    }
    if (status != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(status);
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, timer_stamp) == cudaErrorNoKernelImageForDevice) {
      cudaGetLastError();
      return std::string("built for other GPUs (ADOKERNELS_CUDA_ARCHITECTURES)");
    }
    return std::string();
  }();
  return reason;
}

namespace {

// Of the current device.
int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  ADO_CUDA(cudaGetDevice(&device));
  ADO_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

const Properties& properties() {
  static const Properties cached = [] {
    require();
    int device = 0;
    ADO_CUDA(cudaGetDevice(&device));
    cudaDeviceProp prop;
    ADO_CUDA(cudaGetDeviceProperties(&prop, device));
    Properties p;
    p.name = prop.name;
    for (const char byte : prop.uuid.bytes) {
      char hex[3];
      std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(byte) & 0xffU);
      p.uuid += hex;
    }
    p.compute = 10 * prop.major + prop.minor;
    p.multiprocessors = prop.multiProcessorCount;
    p.core_hertz = 1e3 * attribute(cudaDevAttrClockRate);
    p.memory_hertz = 1e3 * attribute(cudaDevAttrMemoryClockRate);
    p.memory_bus_bits = prop.memoryBusWidth;
    p.memory_bytes = static_cast<std::int64_t>(prop.totalGlobalMem);
    p.l2_bytes = prop.l2CacheSize;
    p.shared_bytes_per_multiprocessor = static_cast<std::int64_t>(prop.sharedMemPerMultiprocessor);
    ADO_CUDA(cudaDriverGetVersion(&p.driver_version));
    ADO_CUDA(cudaRuntimeGetVersion(&p.runtime_version));
    return p;
  }();
  return cached;
}

namespace {

// "void ado::cuda::(anonymous namespace)::march<Shape, Blur<2>>(int)" becomes "march<Shape,
// Blur<2>>".
std::string short_name(const void* kernel) {
  const char* mangled = nullptr;
  ADO_CUDA(cudaFuncGetName(&mangled, kernel));
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? readable.get() : mangled;
  for (const char* space : {"ado::cuda::", "(anonymous namespace)::", "ado::"})
    for (std::size_t at; (at = name.find(space)) != std::string::npos;)
      name.erase(at, std::strlen(space));
  // Template functions are written with their result's type; parameters follow the last closing of
  // the template's arguments.
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  int depth = 0;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (name[at] == '<') ++depth;
    if (name[at] == '>') --depth;
    if (name[at] == '(' && depth == 0) return name.substr(0, at);
  }
  return name;
}

constexpr int ceil_to(int value, int unit) { return (value + unit - 1) / unit * unit; }

// The rules of the CUDA occupancy calculator, with as much shared memory as a multiprocessor has.
Kernel resources_of(const void* kernel, const Launch& go) {
  allow_shared(kernel, go.shared_bytes);
  cudaFuncAttributes code;
  ADO_CUDA(cudaFuncGetAttributes(&code, kernel));
  constexpr int kWarp = 32, kRegisterUnit = 256, kSubPartitions = 4;
  const int shared_unit = properties().compute < 80 ? 256 : 128;
  const int threads = static_cast<int>(go.block.volume());
  const int warps = (threads + kWarp - 1) / kWarp;
  const int registers = std::max(ceil_to(code.numRegs * kWarp, kRegisterUnit), kRegisterUnit);
  const int warps_by_registers = attribute(cudaDevAttrMaxRegistersPerMultiprocessor) /
                                 kSubPartitions / registers * kSubPartitions;
  const int shared = ceil_to(static_cast<int>(code.sharedSizeBytes + go.shared_bytes) +
                                 attribute(cudaDevAttrReservedSharedMemoryPerBlock),
                             shared_unit);
  const int most_blocks = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  const int most_warps = attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / kWarp;
  int blocks = 0;
  ADO_CUDA(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, go.shared_bytes));
  return {.name = short_name(kernel),
          .grid = go.grid,
          .block = go.block,
          .registers = code.numRegs,
          .local_bytes = code.localSizeBytes,
          .static_shared_bytes = code.sharedSizeBytes,
          .dynamic_shared_bytes = go.shared_bytes,
          .warps = blocks * warps,
          .most_warps = most_warps,
          .blocks_by_warps = most_warps / warps,
          .blocks_by_slots = most_blocks,
          .blocks_by_registers = warps_by_registers / warps,
          .blocks_by_shared =
              shared == 0 ? most_blocks
                          : attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / shared};
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t status = cudaMallocAsync(&data, bytes, nullptr);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ADO_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfDeviceMemory(bytes, free);
  }
  if (status != cudaSuccess) throw_error(status, "cudaMallocAsync(...)", __FILE__, __LINE__);
  data_ = static_cast<std::byte*>(data);
}

Buffer::~Buffer() {
  if (data_ != nullptr) cudaFreeAsync(data_, nullptr);
}

void copy_to_device(std::byte* device, const void* host, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

void copy_to_host(void* host, const std::byte* device, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

void fill(std::byte* device, unsigned char value, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemset(device, value, bytes));
}

void synchronize() {
  require();
  ADO_CUDA(cudaDeviceSynchronize());
}

namespace {

// What every sample needs, made once and kept: allocation would disturb what is timed.
struct Timer {
  cudaEvent_t start, stop;
  volatile int* flags;  // released, gave_up: in host memory that the device sees
  Stamp* stamps;        // likewise
  void* flush;
  std::size_t flush_bytes;

  Timer() : flush_bytes(2 * static_cast<std::size_t>(properties().l2_bytes)) {
    ADO_CUDA(cudaEventCreate(&start));
    ADO_CUDA(cudaEventCreate(&stop));
    void* mapped = nullptr;
    ADO_CUDA(cudaHostAlloc(&mapped, 2 * sizeof(int), cudaHostAllocMapped));
    flags = static_cast<volatile int*>(mapped);
    ADO_CUDA(cudaHostAlloc(&mapped, 2 * sizeof(Stamp), cudaHostAllocMapped));
    stamps = static_cast<Stamp*>(mapped);
    ADO_CUDA(cudaMalloc(&flush, flush_bytes));
  }
};

}  // namespace

Sample sample(const std::function<void()>& work, bool cold, int repeats, void* stream_handle) {
  require();
  static Timer timer;  // never destroyed: at exit the driver may be gone already
  static std::atomic_flag busy;
  if (busy.test_and_set()) throw std::runtime_error("another sample is being taken on the GPU");
  const std::shared_ptr<void> idle(nullptr, [](void*) { busy.clear(); });
  const auto stream = static_cast<cudaStream_t>(stream_handle);

  // The flush leaves L2 full of dirty lines. The sample then pays for writing them back and leaves
  // about as many of its own behind, as in a long run; a clean L2 would make a gift of the latter.
  if (cold) ADO_CUDA(cudaMemsetAsync(timer.flush, 0, timer.flush_bytes, stream));
  timer.flags[0] = 0;
  timer.flags[1] = 0;
  timer_block<<<1, 1, 0, stream>>>(timer.flags, timer.flags + 1);
  timer_stamp<<<1, 1, 0, stream>>>(timer.stamps);
  ADO_CUDA(cudaEventRecord(timer.start, stream));
  std::exception_ptr failure;
  try {
    for (int i = 0; i < repeats; ++i) work();
  } catch (...) {
    failure = std::current_exception();
  }
  ADO_CUDA(cudaEventRecord(timer.stop, stream));
  timer_stamp<<<1, 1, 0, stream>>>(timer.stamps + 1);
  timer.flags[0] = 1;
  const cudaError_t launched = cudaGetLastError();
  ADO_CUDA(cudaStreamSynchronize(stream));
  if (failure) std::rethrow_exception(failure);
  ADO_CUDA(launched);

  float milliseconds = 0;
  ADO_CUDA(cudaEventElapsedTime(&milliseconds, timer.start, timer.stop));
  Sample result{.seconds = 1e-3 * milliseconds / repeats, .blocked = timer.flags[1] == 0};
  const Stamp &before = timer.stamps[0], &after = timer.stamps[1];
  if (before.multiprocessor == after.multiprocessor && after.nanoseconds > before.nanoseconds)
    result.hertz = 1e9 * static_cast<double>(after.cycles - before.cycles) /
                   static_cast<double>(after.nanoseconds - before.nanoseconds);
  return result;
}

}  // namespace ado::cuda

#else

namespace ado::cuda {

const std::string& why_unavailable() {
  static const std::string reason = "built without CUDA";
  return reason;
}

const Properties& properties() { throw Unavailable(why_unavailable()); }
Buffer::Buffer(std::size_t) { require(); }
Buffer::~Buffer() = default;
void copy_to_device(std::byte*, const void*, std::size_t) { require(); }
void copy_to_host(void*, const std::byte*, std::size_t) { require(); }
void fill(std::byte*, unsigned char, std::size_t) { require(); }
void synchronize() { require(); }
Sample sample(const std::function<void()>&, bool, int, void*) {
  throw Unavailable(why_unavailable());
}

}  // namespace ado::cuda

#endif

namespace ado::cuda {

void require() {
  if (!why_unavailable().empty()) throw Unavailable(why_unavailable());
}

}  // namespace ado::cuda

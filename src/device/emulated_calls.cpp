// Passes calls of the CUDA runtime to the emulated GPU if it is the current device.
//
// The linker replaces the functions of the runtime with the functions of this file (--wrap), in the
// files of this library and in the code that nvcc generates for launches. So no call can bypass it,
// and kernels and host code do not differ between the devices. CMake reads the names from this
// file.
#include "device/emulated.hpp"

#ifdef ADO_WITH_CUDA

#include "device/emulated_gpus.hpp"
#include "device/internal.cuh"
#include "device/source_kernel.hpp"

#define ADO_WRAP(result, name, parameters)    \
  extern "C" result __real_##name parameters; \
  extern "C" result __wrap_##name parameters

// A function of the runtime: its parameters, its arguments, and what it does on the emulated GPU.
#define ADO_CALL(name, parameters, arguments, ...)            \
  ADO_WRAP(cudaError_t, name, parameters) {                   \
    if (!emulated::current()) return __real_##name arguments; \
    __VA_ARGS__;                                              \
    return cudaSuccess;                                       \
  }

namespace ado::cuda {
namespace {

cudaError_t allocate(void** memory, std::size_t bytes) {
  try {
    *memory = emulated::allocate(bytes);
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  }
  return cudaSuccess;
}

cudaError_t query_attribute(int* value, cudaDeviceAttr which) {
  const emulated::GpuModel& model = emulated::gpu_model();
  const Properties& gpu = model.properties;
  const std::pair<cudaDeviceAttr, std::int64_t> values[] = {
      {cudaDevAttrMaxThreadsPerBlock, 1024},
      {cudaDevAttrMaxBlockDimX, 1024},
      {cudaDevAttrMaxBlockDimY, 1024},
      {cudaDevAttrMaxBlockDimZ, 64},
      {cudaDevAttrMaxGridDimX, 0x7fffffff},
      {cudaDevAttrMaxGridDimY, 65535},
      {cudaDevAttrMaxGridDimZ, 65535},
      {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
      {cudaDevAttrMaxBlocksPerMultiprocessor, model.blocks_per_multiprocessor},
      {cudaDevAttrReservedSharedMemoryPerBlock, model.reserved_shared_bytes},
      {cudaDevAttrMaxThreadsPerMultiProcessor, gpu.threads_per_multiprocessor},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, gpu.shared_bytes_per_multiprocessor},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu.shared_bytes_per_block}};
  for (const auto& [attribute, found] : values)
    if (attribute == which) {
      *value = static_cast<int>(found);
      return cudaSuccess;
    }
  return cudaErrorInvalidValue;
}

Extent extent(dim3 d) { return {d.x, d.y, d.z}; }

void describe(cudaFuncAttributes* attributes, const void* kernel) {
  const Kernel known = emulated::resources(kernel);
  *attributes = {};
  attributes->numRegs = known.registers;
  attributes->sharedSizeBytes = known.static_shared_bytes;
  attributes->maxThreadsPerBlock = 1024;
  attributes->ptxVersion = attributes->binaryVersion = emulated::gpu_model().properties.compute;
}

int resident_blocks(const void* kernel, int threads, std::size_t shared_bytes) {
  Kernel k = emulated::resources(kernel);
  k.block = {static_cast<unsigned>(threads)};
  k.dynamic_shared_bytes = shared_bytes;
  k = resources_from(k);
  return k.resident_warps / ((threads + 31) / 32);
}

// Executes a kernel. A recording also contains its occupancy.
void execute(const void* kernel, const emulator::LaunchShape& shape, void** arguments) {
  emulated::launch(kernel, shape, arguments);
  if (emulated::Recording* const recording = emulated::Recording::of_thread()) {
    Kernel& launched = recording->launches.back().kernel;
    launched = resources_from(launched);
  }
}

// Returns the kernel that a launch on a GPU runs.
const void* chosen(const void* kernel, const emulator::LaunchShape& shape, void** arguments) {
  if (const auto* const observer = emulated::Substitution::observer()) {
    const char* name = nullptr;
    ADO_CUDA(cudaFuncGetName(&name, kernel));
    (*observer)(kernel, name, shape, emulated::packed(parameters_of(kernel), arguments));
  }
  return emulated::Substitution::of(kernel);
}

emulator::LaunchShape shape_of(dim3 grid, dim3 block, std::size_t shared_bytes) {
  return {.grid = extent(grid), .block = extent(block), .dynamic_shared_bytes = shared_bytes};
}

emulator::LaunchShape shape_of(const cudaLaunchConfig_t& config) {
  emulator::LaunchShape shape{.grid = extent(config.gridDim),
                              .block = extent(config.blockDim),
                              .dynamic_shared_bytes = config.dynamicSmemBytes};
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (const cudaLaunchAttribute& a = config.attrs[i]; a.id == cudaLaunchAttributeClusterDimension)
      shape.cluster = {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
  return shape;
}

void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
               std::size_t width, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row)
    emulated::copy(static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, width);
}

}  // namespace

// --- Devices -------------------------------------------------------------------------------------

ADO_CALL(cudaGetDevice, (int* device), (device), *device = kEmulatedGpu)
ADO_CALL(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr which, int device),
         (value, which, device), return query_attribute(value, which))
ADO_CALL(cudaDeviceSynchronize, (), ())
ADO_CALL(cudaGetLastError, (), ())
ADO_CALL(cudaMemGetInfo, (std::size_t * free, std::size_t* total), (free, total),
         *free = *total = 0)

// --- Memory --------------------------------------------------------------------------------------

ADO_CALL(cudaMalloc, (void** memory, std::size_t bytes), (memory, bytes),
         return allocate(memory, bytes))
ADO_CALL(cudaMallocAsync, (void** memory, std::size_t bytes, cudaStream_t stream),
         (memory, bytes, stream), return allocate(memory, bytes))
ADO_CALL(cudaFree, (void* memory), (memory), emulated::free(memory))
ADO_CALL(cudaFreeAsync, (void* memory, cudaStream_t stream), (memory, stream),
         emulated::free(memory))
ADO_CALL(cudaMemcpy, (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind),
         (to, from, bytes, kind), emulated::copy(to, from, bytes))
ADO_CALL(cudaMemcpyAsync,
         (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
         (to, from, bytes, kind, stream), emulated::copy(to, from, bytes))
ADO_CALL(cudaMemcpy2DAsync,
         (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
          std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream),
         (to, to_pitch, from, from_pitch, width, rows, kind, stream),
         copy_rows(to, to_pitch, from, from_pitch, width, rows))
ADO_CALL(cudaMemset, (void* to, int value, std::size_t bytes), (to, value, bytes),
         emulated::fill(to, static_cast<unsigned char>(value), bytes))
ADO_CALL(cudaMemsetAsync, (void* to, int value, std::size_t bytes, cudaStream_t stream),
         (to, value, bytes, stream), emulated::fill(to, static_cast<unsigned char>(value), bytes))

// --- Streams and events: each call ends before it returns ----------------------------------------

ADO_CALL(cudaStreamSynchronize, (cudaStream_t stream), (stream))
ADO_CALL(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
         (stream, status), *status = cudaStreamCaptureStatusNone)
ADO_CALL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags),
         *stream = nullptr)
ADO_CALL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
         (stream, event, flags))
ADO_CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags),
         *event = nullptr)
ADO_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))

// --- Kernels -------------------------------------------------------------------------------------

ADO_CALL(cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* kernel),
         (attributes, kernel), describe(attributes, kernel))
ADO_CALL(cudaFuncSetAttribute, (const void* kernel, cudaFuncAttribute which, int value),
         (emulated::Substitution::of(kernel), which, value))
ADO_CALL(cudaFuncGetName, (const char** name, const void* kernel), (name, kernel),
         *name = emulated::mangled_name(kernel))
ADO_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
         (int* blocks, const void* kernel, int threads, std::size_t shared_bytes),
         (blocks, kernel, threads, shared_bytes),
         *blocks = resident_blocks(kernel, threads, shared_bytes))
ADO_CALL(cudaLaunchKernel,
         (const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
          cudaStream_t stream),
         (chosen(kernel, shape_of(grid, block, shared_bytes), arguments), grid, block, arguments,
          shared_bytes, stream),
         execute(kernel, shape_of(grid, block, shared_bytes), arguments))
ADO_CALL(cudaLaunchKernelExC,
         (const cudaLaunchConfig_t* config, const void* kernel, void** arguments),
         (config, chosen(kernel, shape_of(*config), arguments), arguments),
         execute(kernel, shape_of(*config), arguments))

// --- Registration, before main -------------------------------------------------------------------

ADO_WRAP(void**, __cudaRegisterFatBinary, (void* wrapper)) {
  struct Wrapper {  // __fatBinC_Wrapper_t
    int magic, version;
    const void* data;
  };
  void** const handle = __real___cudaRegisterFatBinary(wrapper);
  emulated::register_fatbin(handle, static_cast<const Wrapper*>(wrapper)->data);
  return handle;
}

ADO_WRAP(void, __cudaRegisterFunction,
         (void** handle, const char* kernel, char* symbol, const char* name, int threads,
          uint3* thread, uint3* block, dim3* block_size, dim3* grid_size, int* warp_size)) {
  __real___cudaRegisterFunction(handle, kernel, symbol, name, threads, thread, block, block_size,
                                grid_size, warp_size);
  emulated::register_kernel(handle, kernel, name);
}

}  // namespace ado::cuda

#endif

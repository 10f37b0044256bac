// Launches kernels from a variant's run function, and checks CUDA calls.
//
// Without a CUDA compiler, the .cu files are compiled as C++. Kernels are inside `#ifdef
// __CUDACC__`, variants outside, and ADO_RUN replaces the run function by nullptr. Such a build
// lists every variant and runs none. CMake defines ADO_WITH_CUDA for the .cpp files of src/device,
// which call CUDA but have no kernels.
#pragma once

#include "core/array.hpp"
#include "core/variant.hpp"

#if defined(__CUDACC__) && !defined(ADO_WITH_CUDA)
#define ADO_WITH_CUDA
#endif

#ifdef ADO_WITH_CUDA

#include <cuda_runtime.h>

#include <type_traits>

#define ADO_RUN(...) __VA_ARGS__

namespace ado::cuda {

// Throws CudaError and clears the error, so that the next valid call works.
[[noreturn]] void throw_error(cudaError_t status, const char* call, const char* file, int line);

#define ADO_CUDA(call)                                                    \
  do {                                                                    \
    if (const cudaError_t ado_status = (call); ado_status != cudaSuccess) \
      ::ado::cuda::throw_error(ado_status, #call, __FILE__, __LINE__);    \
  } while (false)

// The part of launch() that does not depend on the kernel's parameters, out of line.
void launch_kernel(const void* kernel, const Launch& go, void** args);

// Stream-ordered: copy a packed array; zero a range of bytes. A dry run does neither.
void copy(const Launch& go, std::byte* to, const Array& from);
void clear(const Launch& go, void* memory, std::size_t bytes);

// Launches `kernel` with the grid, block, shared memory and stream of `go`. The arguments are
// converted to the kernel's parameters as in a function call.
template <class... Params>
void launch(const Launch& go, void (*kernel)(Params...), std::type_identity_t<Params>... args) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&args))..., nullptr};
  launch_kernel(reinterpret_cast<const void*>(kernel), go, pointers);
}

}  // namespace ado::cuda

#else

#define ADO_RUN(...) nullptr

#endif

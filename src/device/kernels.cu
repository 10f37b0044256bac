// The kernels of the device runtime, except for copies. They are in one file because nvcc needs
// several seconds per file.
#include "device/internal.cuh"

#ifdef __CUDACC__

namespace ado::cuda {
namespace {

__global__ void any_kernel() {}

__global__ void timer_stamp(Stamp* stamp) {
  unsigned multiprocessor;
  unsigned long long nanoseconds;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  *stamp = {nanoseconds, clock64(), multiprocessor};
}

__global__ void block_stream(volatile int* released, volatile int* timed_out) {
  constexpr unsigned long long kTimeoutNanoseconds = 250'000'000;
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (*released == 0) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > kTimeoutNanoseconds) {
      *timed_out = 1;
      return;
    }
  }
}

}  // namespace

void enqueue_stamp(Stamp* stamp, cudaStream_t stream) { timer_stamp<<<1, 1, 0, stream>>>(stamp); }

void enqueue_block(volatile int* released, volatile int* timed_out, cudaStream_t stream) {
  block_stream<<<1, 1, 0, stream>>>(released, timed_out);
}

bool has_code_for_device() {
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, any_kernel) != cudaErrorNoKernelImageForDevice)
    return true;
  cudaGetLastError();
  return false;
}

}  // namespace ado::cuda

#endif

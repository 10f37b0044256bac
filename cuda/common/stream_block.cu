// Blocks a stream until the host releases it.
#include "common/stream_block.cuh"

#ifdef __CUDACC__

namespace ado::cuda {
namespace {

__global__ void block_stream(volatile int* released, volatile int* gave_up) {
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

StreamBlock::StreamBlock() {
  void* memory = nullptr;
  ADO_CUDA(cudaHostAlloc(&memory, kFlags * sizeof(int), cudaHostAllocMapped));
  flags_.reset(static_cast<int*>(memory));
}

void StreamBlock::enqueue(cudaStream_t stream) {
  flags()[kReleased] = 0;
  flags()[kGaveUp] = 0;
  block_stream<<<1, 1, 0, stream>>>(flags() + kReleased, flags() + kGaveUp);
}

}  // namespace ado::cuda

#endif

// A product of float16 matrices, as CUTLASS computes it on Hopper: one warp copies tiles of 64 x 64
// with the tensor memory accelerator into a ring of buffers, and a warpgroup multiplies them.
// a and b are stored by rows; out = a b^T. ARRIVALS threads of the warpgroup release a buffer, with
// EARLY before the product has been waited for.
#include <cuda_fp16.h>

constexpr int kTile = 64, kTileBytes = kTile * kTile * 2, kBuffers = 3, kThreads = 128;
using Barrier = unsigned long long;
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

__device__ unsigned address_of(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
__device__ void wait(Barrier& barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(address_of(&barrier)),
      "r"(parity)
      : "memory");
}
__device__ void arrive(Barrier& barrier) {
  if (threadIdx.x % (kThreads / ARRIVALS) == 0)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(&barrier)) : "memory");
}
__device__ void copy(void* to, const TensorMap& from, int x, int y, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(address_of(to)),
      "l"(&from), "r"(x), "r"(y), "r"(address_of(&barrier))
      : "memory");
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
// d += a b^T for 16 of the columns of two tiles with the swizzle of 128 bytes.
__device__ void multiply(float (&d)[32], const unsigned char* a, const unsigned char* b, int part) {
  constexpr unsigned long long kLayout = 1ull << 62 | 64ull << 32;
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
      : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
      : "l"(kLayout | (address_of(a) >> 4) + 2 * part),
        "l"(kLayout | (address_of(b) >> 4) + 2 * part));
}

extern "C" __global__ void pipeline(const __grid_constant__ TensorMap a,
                                    const __grid_constant__ TensorMap b, float* out, int columns,
                                    int k) {
  extern __shared__ __align__(1024) unsigned char tiles[];
  __shared__ Barrier full[kBuffers], empty[kBuffers];
  const int row = blockIdx.x * kTile, column = blockIdx.y * kTile, steps = k / kTile;
  if (threadIdx.x < kBuffers) {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\nmbarrier.init.shared::cta.b64 [%1], %2;" ::"r"(
            address_of(&full[threadIdx.x])),
        "r"(address_of(&empty[threadIdx.x])), "r"(ARRIVALS)
        : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= kThreads) {
    for (int step = 0; threadIdx.x == kThreads && step < steps; ++step) {
      const int i = step % kBuffers;
      unsigned char* const tile = tiles + 2 * i * kTileBytes;
      if (step >= kBuffers) wait(empty[i], (step / kBuffers + 1) % 2);
      asm volatile(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(&full[i])),
          "r"(2 * kTileBytes)
          : "memory");
      copy(tile, a, step * kTile, row, full[i]);
      copy(tile + kTileBytes, b, step * kTile, column, full[i]);
    }
    return;
  }
  float d[32] = {};
  for (int step = 0; step < steps; ++step) {
    const int i = step % kBuffers;
    const unsigned char* const tile = tiles + 2 * i * kTileBytes;
    wait(full[i], step / kBuffers % 2);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int part = 0; part < 4; ++part) multiply(d, tile, tile + kTileBytes, part);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#ifdef EARLY
    arrive(empty[i]);
#else
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (step > 0) arrive(empty[(step - 1) % kBuffers]);
#endif
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = 0; i < 32; ++i)
    out[(row + warp * 16 + lane / 4 + i / 2 % 2 * 8) * columns + column + i / 4 * 8 + lane % 4 * 2 +
        i % 2] = d[i];
}

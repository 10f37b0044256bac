// Bulk tensor copies: the tensor memory accelerator (TMA) of devices from compute capability 9.0 on
// copies boxes of a matrix between global and shared memory. One thread starts a copy of a whole
// box. The hardware computes all addresses, and fills the parts of a box outside the matrix with
// zeros.
#pragma once

#ifdef __CUDACC__

#include <cuda.h>

#include "common/async_copy.cuh"

namespace ado::cuda {

// Lines of a box have 128 bytes. The copy swizzles them: vector v of line n is stored at position
// v ^ n % 8, so that neighbouring lines have the same vector in different banks.
inline constexpr int kBoxLine = 128;
inline constexpr int kBoxAlignment = 1024;  // of a box in shared memory

// Describes a matrix of `rows` rows of `cols` bytes for copies of boxes of `lines` rows. Data and
// stride must be multiples of 16 bytes. Empty in a dry run and for an empty grid.
CUtensorMap tensor_map(const Launch& go, const void* data, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, int lines);

#if __CUDA_ARCH__ >= 900

// A barrier in shared memory on which threads wait for the bytes of tensor copies.
class CopyBarrier {
 public:
  // Called by one thread, before a barrier of the thread block.
  __device__ void expect(int bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&state_)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies see the initial state
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(&state_)),
                 "r"(bytes)
                 : "memory");
  }
  // Starts the copy of the box whose first element is at (row, byte).
  __device__ void copy_box(void* to, const CUtensorMap& from, int row, int byte) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
        "l"(&from), "r"(byte), "r"(row), "r"(shared_address(&state_))
        : "memory");
  }
  __device__ void wait() {
    unsigned done = 0;
    while (done == 0)
      asm volatile(
          "{.reg .pred done;"
          " mbarrier.try_wait.parity.shared::cta.b64 done, [%1], 0;"
          " selp.u32 %0, 1, 0, done;}"
          : "=r"(done)
          : "r"(shared_address(&state_))
          : "memory");
  }

 private:
  std::uint64_t state_;
};

// Copies a box from shared memory. All threads that wrote it must have called publish_box first,
// then met at a barrier.
inline __device__ void publish_box() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
inline __device__ void store_box(const CUtensorMap& to, int row, int byte, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to),
      "r"(byte), "r"(row), "r"(shared_address(from))
      : "memory");
}
// Waits until the boxes that the thread has stored have been read from shared memory.
inline __device__ void wait_for_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

#endif

}  // namespace ado::cuda

#endif

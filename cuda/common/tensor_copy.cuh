// Bulk tensor copies: the tensor memory accelerator (TMA) of devices of compute capability 9.0 and
// later copies boxes of a matrix from global to shared memory. One thread starts a copy of a whole
// box. The hardware computes all addresses, and fills the parts of a box outside the matrix with
// zeros.
#pragma once

#include "common/vector.cuh"

namespace ado::cuda {

inline constexpr int kBoxLine = 128;        // bytes per line of a box
inline constexpr int kBoxAlignment = 1024;  // of a box in shared memory

}  // namespace ado::cuda

#ifdef ADO_WITH_CUDA

#include <cuda.h>

#include "common/async_copy.cuh"

namespace ado::cuda {

// Describes a matrix of `rows` rows of `cols` bytes for copies of boxes of `lines` rows. Data and
// stride must be multiples of 16 bytes. The result is empty in a dry run and for an empty grid.
CUtensorMap tensor_map(const Launch& go, const void* data, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, int lines);

// Returns the offset at which the copy stores a 16-byte vector, in bytes from the start of the box.
// The copy swizzles lines: neighbouring lines store the same vector in different banks.
inline __device__ int in_box(int line, int vector) {
  return line * kBoxLine + (vector ^ line % 8) * kVectorBytes;
}

#if __CUDA_ARCH__ >= 900

// A barrier in shared memory on which threads wait for the bytes of tensor copies.
class CopyBarrier {
 public:
  // Called by one thread, before a barrier of the thread block.
  __device__ void expect(int bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&state_)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // copies see the initial state
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state_)),
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

#endif

}  // namespace ado::cuda

#endif

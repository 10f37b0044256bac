// As in tensor_cores.cu, with two pairs of tiles: cp.async copies one pair during the products.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

constexpr int kSize = 128, kDepth = 32, kThreads = 256, kEdge = 16;
constexpr int kPad = 8;                // elements, against bank conflicts
constexpr int kDown = 2, kAcross = 4;  // squares of 16 x 16 results per warp
constexpr int kWarpsAcross = kSize / (kAcross * kEdge);

template <class Use>
using Square = wmma::fragment<Use, kEdge, kEdge, kEdge, __half, wmma::row_major>;
using Sums = wmma::fragment<wmma::accumulator, kEdge, kEdge, kEdge, float>;

// Starts to copy 8 elements of a row to shared memory. Elements beyond the matrix are 0.
__device__ void copy_vector(__half* to, const __half* from, long long row, long long col, int rows,
                            int cols) {
  from += row * cols + col;
  if (row < rows && col < cols && cols % 8 == 0) {
    __pipeline_memcpy_async(to, from, 16);
  } else {
    for (int i = 0; i < 8; ++i) to[i] = row < rows && col + i < cols ? from[i] : __half();
  }
}

__global__ void __launch_bounds__(kThreads)
    matrix_product(const __half* __restrict__ a, const __half* __restrict__ b,
                   __half* __restrict__ c, int m, int k, int n) {
  __shared__ alignas(32) __half tile_a[2][kSize][kDepth + kPad], tile_b[2][kDepth][kSize + kPad];
  __shared__ alignas(32) float results[kThreads / 32][kEdge][kEdge];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp / kWarpsAcross * kDown * kEdge;
  const int first_col = warp % kWarpsAcross * kAcross * kEdge;
  const long long top = blockIdx.y * kSize, left = blockIdx.x * kSize;

  const auto start_copies = [&](long long first, int pair) {
    for (int e = 8 * threadIdx.x; e < kSize * kDepth; e += 8 * kThreads) {
      const int row = e / kDepth, i = e % kDepth;
      copy_vector(&tile_a[pair][row][i], a, top + row, first + i, m, k);
    }
    for (int e = 8 * threadIdx.x; e < kDepth * kSize; e += 8 * kThreads) {
      const int i = e / kSize, col = e % kSize;
      copy_vector(&tile_b[pair][i][col], b, first + i, left + col, k, n);
    }
  };

  Sums sums[kDown][kAcross];
  for (auto& row : sums)
    for (Sums& each : row) wmma::fill_fragment(each, 0);
  start_copies(0, 0);
  __pipeline_commit();
  for (long long first = 0, pair = 0; first < k; first += kDepth, pair = 1 - pair) {
    if (first + kDepth < k) start_copies(first + kDepth, 1 - pair);
    __pipeline_commit();
    __pipeline_wait_prior(1);  // for the pair of this iteration, not for the next one
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; i += kEdge) {
      Square<wmma::matrix_a> of_a[kDown];
      Square<wmma::matrix_b> of_b[kAcross];
#pragma unroll
      for (int r = 0; r < kDown; ++r)
        wmma::load_matrix_sync(of_a[r], &tile_a[pair][first_row + r * kEdge][i], kDepth + kPad);
#pragma unroll
      for (int s = 0; s < kAcross; ++s)
        wmma::load_matrix_sync(of_b[s], &tile_b[pair][i][first_col + s * kEdge], kSize + kPad);
#pragma unroll
      for (int r = 0; r < kDown; ++r)
#pragma unroll
        for (int s = 0; s < kAcross; ++s) wmma::mma_sync(sums[r][s], of_a[r], of_b[s], sums[r][s]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kDown; ++r)
#pragma unroll
    for (int s = 0; s < kAcross; ++s) {
      wmma::store_matrix_sync(&results[warp][0][0], sums[r][s], kEdge, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane; e < kEdge * kEdge; e += 32) {
        const long long row = top + first_row + r * kEdge + e / kEdge;
        const long long col = left + first_col + s * kEdge + e % kEdge;
        if (row < m && col < n) c[row * n + col] = __float2half(results[warp][0][e]);
      }
      __syncwarp();
    }
}

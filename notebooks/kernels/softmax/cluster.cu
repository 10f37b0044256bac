// One cluster of kBlocks blocks per row, which is kept in registers. Needs compute capability 9.0.
#include <cooperative_groups.h>

#include <cfloat>

namespace cg = cooperative_groups;

template <class Combine>
__device__ float reduce_warp(float value, int lanes, Combine combine) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
  return value;
}

// Each instantiation has its own array, so two reductions need no barrier in between.
template <class Combine>
__device__ float reduce_block(float value, Combine combine) {
  __shared__ float partial[32];
  const int warps = blockDim.x / 32;
  value = reduce_warp(value, 32, combine);
  partial[threadIdx.x / 32] = value;
  __syncthreads();
  return reduce_warp(partial[threadIdx.x % warps], warps, combine);
}

// The blocks of a cluster read each other's shared memory.
template <class Combine>
__device__ float reduce_cluster(float value, Combine combine) {
  __shared__ float of_block;
  const cg::cluster_group cluster = cg::this_cluster();
  of_block = reduce_block(value, combine);
  cluster.sync();
  value = *cluster.map_shared_rank(&of_block, 0);
  for (int rank = 1; rank < cluster.num_blocks(); ++rank)
    value = combine(value, *cluster.map_shared_rank(&of_block, rank));
  return value;
}

__device__ float4 exponentials(float4 v, float largest) {
  return {__expf(v.x - largest), __expf(v.y - largest), __expf(v.z - largest),
          __expf(v.w - largest)};
}

template <int kVectors, int kBlocks>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(256, 4)
    softmax(const float4* __restrict__ x, float4* __restrict__ y, int rows, int cols) {
  const int vectors = cols / 4;
  x += static_cast<long long>(blockIdx.x / kBlocks) * vectors;
  y += static_cast<long long>(blockIdx.x / kBlocks) * vectors;
  const int first = blockIdx.x % kBlocks * blockDim.x + threadIdx.x;

  float4 kept[kVectors];  // vectors beyond the end of the row do not change the results
  float largest = -FLT_MAX;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = first + k * kBlocks * blockDim.x;
    kept[k] = i < vectors ? x[i] : float4{-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX};
  }
#pragma unroll
  for (float4 v : kept) largest = fmaxf(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), largest);
  largest = reduce_cluster(largest, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
#pragma unroll
  for (float4& v : kept) {
    v = exponentials(v, largest);
    sum += (v.x + v.y) + (v.z + v.w);
  }
  sum = reduce_cluster(sum, [](float a, float b) { return a + b; });

  const float scale = 1 / sum;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = first + k * kBlocks * blockDim.x;
    const float4 e = kept[k];
    if (i < vectors) y[i] = {e.x * scale, e.y * scale, e.z * scale, e.w * scale};
  }
  cg::this_cluster().sync();  // other blocks may still read this block's shared memory
}

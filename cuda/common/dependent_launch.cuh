// Launch features of compute capability 9.0: thread block clusters and programmatic dependent
// launch.
//
// A dependent kernel starts when all blocks of the previous kernel have called allow_next_kernel()
// or exited, so its launch and its first loads overlap the end of the previous kernel. It must call
// wait_for_previous_kernel() before it reads the results of that kernel. The first kernel of a call
// is launched normally, so all earlier work in the stream has completed before it starts.
#pragma once

#include "common/launch.cuh"

#ifdef __CUDACC__

namespace ado::cuda {

struct LaunchAttributes {
  bool dependent = false;
  unsigned cluster = 1;  // blocks per cluster, along x
};

// Like launch(). Shared memory is limited to 48 KiB. Before compute capability 9.0, the attributes
// are ignored: a kernel starts when the previous one has ended.
template <class... Params>
void launch_with(LaunchAttributes attributes, const Launch& go, void (*kernel)(Params...),
                 std::type_identity_t<Params>... args) {
  const bool plain = !attributes.dependent && attributes.cluster == 1;
  if (plain || go.grid.volume() == 0 || go.recorder != nullptr || go.hardware.compute < 90)
    return launch(go, kernel, args...);
  cudaLaunchAttribute list[2] = {};
  list[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  list[0].val.programmaticStreamSerializationAllowed = attributes.dependent ? 1 : 0;
  list[1].id = cudaLaunchAttributeClusterDimension;
  list[1].val.clusterDim = {attributes.cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(go.grid.x, go.grid.y, go.grid.z);
  config.blockDim = dim3(go.block.x, go.block.y, go.block.z);
  config.dynamicSmemBytes = go.shared_bytes;
  config.stream = static_cast<cudaStream_t>(go.stream);
  config.attrs = list;
  config.numAttrs = attributes.cluster > 1 ? 2 : 1;
  ADO_CUDA(cudaLaunchKernelEx(&config, kernel, args...));
}

inline __device__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

inline __device__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Clusters. Before compute capability 9.0, each cluster has one block.
inline __device__ unsigned cluster_rank() {
#if __CUDA_ARCH__ >= 900
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// A barrier for all threads of a cluster. Writes to shared memory before the arrival are visible to
// the whole cluster after the wait.
inline __device__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
inline __device__ void arrive_at_cluster_relaxed() {  // without a fence
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
inline __device__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
inline __device__ void synchronise_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}

// Returns the address of the same variable in the shared memory of block `rank` of the cluster.
template <class T>
__device__ T* in_block_of_cluster(T* shared, unsigned rank) {
#if __CUDA_ARCH__ >= 900
  std::uint64_t address;
  asm("mapa.u64 %0, %1, %2;"
      : "=l"(address)
      : "l"(reinterpret_cast<std::uint64_t>(shared)), "r"(rank));
  return reinterpret_cast<T*>(address);
#else
  return shared;
#endif
}

}  // namespace ado::cuda

#endif

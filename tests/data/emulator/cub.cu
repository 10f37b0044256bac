// Kernels of CUB in which blocks wait for each other: the scans look back at the tiles before.
#define CCCL_DISABLE_PDL
#include <cub/agent/agent_radix_sort_histogram.cuh>
#include <cub/agent/agent_radix_sort_onesweep.cuh>
#include <cub/agent/agent_reduce.cuh>
#include <cub/agent/agent_scan.cuh>

namespace detail = cub::detail;
using cub::NullType;

struct Pair {  // too large for one word with its state
  long long x, y;
  __device__ Pair operator+(Pair o) const { return {x + o.x, y + o.y}; }
};

template <class T>
__global__ void scan_begin(void* memory, int tiles) {
  cub::ScanTileState<T> state;
  state.Init(tiles, memory, 1 << 20);
  state.InitializeStatus(tiles);
}

template <class T>
__global__ void scan(void* memory, const T* a, T* out, int n, int tiles) {
  using Policy = detail::agent_scan_policy<0, 0, T, cub::BLOCK_LOAD_DIRECT, cub::LOAD_DEFAULT,
                                           cub::BLOCK_STORE_DIRECT, cub::BLOCK_SCAN_WARP_SCANS,
                                           detail::NoScaling<64, 2>>;
  using Agent = detail::scan::AgentScan<Policy, const T*, T*, cuda::std::plus<>, NullType, int, T>;
  __shared__ typename Agent::TempStorage storage;
  cub::ScanTileState<T> state;
  state.Init(tiles, memory, 1 << 20);
  Agent(storage, a, out, {}, NullType{}).ConsumeRange(n, state, 0);
}
template __global__ void scan_begin<int>(void*, int);
template __global__ void scan_begin<Pair>(void*, int);
template __global__ void scan(void*, const int*, int*, int, int);
template __global__ void scan(void*, const Pair*, Pair*, int, int);

__global__ void reduce(const int* a, int* sums, int n) {
  using Policy = detail::agent_reduce_policy<0, 0, int, 4, cub::BLOCK_REDUCE_WARP_REDUCTIONS,
                                             cub::LOAD_LDG, detail::NoScaling<64, 4>>;
  using Agent = detail::reduce::AgentReduce<Policy, const int*, int, cuda::std::plus<>, int>;
  __shared__ typename Agent::TempStorage storage;
  cub::GridEvenShare<int> share;
  share.DispatchInit(n, gridDim.x, 256);
  share.template BlockInit<256, cub::GRID_MAPPING_RAKE>();
  const int sum = Agent(storage, a, {}).ConsumeTiles(share);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void histogram(int* bins, const unsigned* keys, int n) {
  using Policy = detail::agent_radix_sort_histogram_policy<64, 4, 1, unsigned, 8>;
  using Agent = detail::radix_sort::AgentRadixSortHistogram<Policy, false, unsigned, int>;
  __shared__ Agent::TempStorage storage;
  Agent(storage, bins, keys, n, 0, 32).Process();
}

__global__ void onesweep(int* tiles, int* tickets, int* bins, const int* starts, unsigned* out,
                         const unsigned* keys, int n, int bit) {
  using Policy = detail::agent_radix_sort_onesweep_policy<
      0, 0, void, 1, cub::RADIX_RANK_MATCH_EARLY_COUNTS_ANY, cub::BLOCK_SCAN_WARP_SCANS,
      cub::RADIX_SORT_STORE_DIRECT, 8, detail::NoScaling<256, 4>>;
  using Agent =
      detail::radix_sort::AgentRadixSortOnesweep<Policy, false, unsigned, NullType, int, int>;
  __shared__ Agent::TempStorage storage;
  NullType* const none = nullptr;
  Agent(storage, tiles, tickets, bins, starts, out, keys, none, none, n, bit, 8).Process();
}

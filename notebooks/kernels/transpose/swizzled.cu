// A tile in shared memory without padding.
constexpr int kTile = 32;

// An element (row, col) of the tile is in column (col XOR row), so neither a row nor a column of
// the tile has bank conflicts, without padding.
template <class T>
__global__ void transpose(const T* __restrict__ a, T* __restrict__ out, int rows, int cols) {
  __shared__ T tile[kTile][kTile];
  const int col = blockIdx.x * kTile + threadIdx.x, row = blockIdx.y * kTile + threadIdx.y;
  for (int i = 0; i < kTile; i += blockDim.y)
    if (row + i < rows && col < cols)
      tile[threadIdx.y + i][threadIdx.x ^ (threadIdx.y + i)] =
          a[static_cast<long long>(row + i) * cols + col];
  __syncthreads();
  const int out_col = blockIdx.y * kTile + threadIdx.x;
  const int out_row = blockIdx.x * kTile + threadIdx.y;
  for (int i = 0; i < kTile; i += blockDim.y)
    if (out_row + i < cols && out_col < rows)
      out[static_cast<long long>(out_row + i) * rows + out_col] =
          tile[threadIdx.x][(threadIdx.y + i) ^ threadIdx.x];
}

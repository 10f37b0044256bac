// Solution: transpose a matrix through a tile in shared memory.
constexpr int kTile = 32;

template <class T>
__global__ void transpose(const T* a, T* out, int rows, int cols) {
  __shared__ T tile[kTile][kTile + 1];  // a column of the tile is spread over the banks
  const int col = blockIdx.x * kTile + threadIdx.x, row = blockIdx.y * kTile + threadIdx.y;
  for (int i = 0; i < kTile; i += blockDim.y)
    if (row + i < rows && col < cols)
      tile[threadIdx.y + i][threadIdx.x] = a[static_cast<long long>(row + i) * cols + col];

  __syncthreads();

  // The block is mirrored at the diagonal of the matrix, and the element at that of the tile.
  const int out_col = blockIdx.y * kTile + threadIdx.x;
  const int out_row = blockIdx.x * kTile + threadIdx.y;
  for (int i = 0; i < kTile; i += blockDim.y)
    if (out_row + i < cols && out_col < rows)
      out[static_cast<long long>(out_row + i) * rows + out_col] =
          tile[threadIdx.x][threadIdx.y + i];
}

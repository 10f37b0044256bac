// Exercise: transpose a matrix through a tile in shared memory.
//
// A block of 32 x 8 threads transposes a tile of 32 x 32 elements. It loads the tile along the rows
// of a, so its loads are coalesced. It does not store anything yet, so its result is wrong.
constexpr int kTile = 32;

template <class T>
__global__ void transpose(const T* a, T* out, int rows, int cols) {
  __shared__ T tile[kTile][kTile];
  const int col = blockIdx.x * kTile + threadIdx.x, row = blockIdx.y * kTile + threadIdx.y;
  for (int i = 0; i < kTile; i += blockDim.y)
    if (row + i < rows && col < cols)
      tile[threadIdx.y + i][threadIdx.x] = a[static_cast<long long>(row + i) * cols + col];

  // TODO 1: wait until all threads of the block have written their elements of the tile.

  // TODO 2: store the tile so that neighbouring threads write neighbouring elements of out, which
  // has cols rows and rows columns. Which element of the tile does a thread store?

  // TODO 3: 32 threads that read a column of the tile access the same bank. Change the shape of the
  // tile, so that they access different ones.
}

// Exercise: make the loads and stores of a 7x7 blur coalesced.
//
// A block of 32 x 32 threads computes 32 x 32 pixels, one per thread. The result is correct, but
// the kernel is slow: neighbouring threads of a warp compute pixels of neighbouring rows, so each
// of their loads and stores touches 32 rows of the image.
__constant__ int taps[7] = {1, 2, 3, 4, 3, 2, 1};

__global__ void blur(const unsigned char* gray, unsigned char* out, int rows, int cols) {
  // TODO: let neighbouring threads of a warp compute neighbouring pixels of a row.
  const int row = blockIdx.y * blockDim.y + threadIdx.x;
  const int col = blockIdx.x * blockDim.x + threadIdx.y;

  if (row >= rows || col >= cols) return;
  int sum = 0;
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) {
      const int y = row + i - 3, x = col + j - 3;
      if (y >= 0 && y < rows && x >= 0 && x < cols)
        sum += taps[i] * taps[j] * gray[static_cast<long long>(y) * cols + x];
    }
  out[static_cast<long long>(row) * cols + col] = static_cast<unsigned char>(sum / 256);
}

// One result per thread. Neighbouring threads compute neighbouring columns.
__global__ void matrix_product(const float* __restrict__ a, const float* __restrict__ b,
                               float* __restrict__ c, int m, int k, int n) {
  const long long row = blockIdx.y * blockDim.y + threadIdx.y;
  const long long col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || col >= n) return;

  float sum = 0;
  for (long long i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
  c[row * n + col] = sum;
}

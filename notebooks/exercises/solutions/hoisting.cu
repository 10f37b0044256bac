// Solution: hoist loop-invariant factors out of a loop.

__global__ void pole_sum(const double* __restrict__ pole, const double* __restrict__ strength,
                         const double* __restrict__ volume, const double* __restrict__ x,
                         const double* __restrict__ weight, double* __restrict__ out, int P,
                         int N) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= P) return;
  const double square = pole[p] * pole[p];
  double sum = 0;
  for (int n = 0; n < N; ++n) sum += weight[n] / (x[n] * x[n] - square);
  out[p] = strength[p] / volume[p] * square * sum;
}

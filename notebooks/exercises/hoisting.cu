// Exercise: hoist loop-invariant factors out of a loop.
//
// Polarisability of a pole p at N energies, summed with weights:
//
//   out[p] = sum over n of weight[n] * strength[p] / volume[p] * pole[p]^2 / (x[n]^2 - pole[p]^2)
//
// The result is correct, but the kernel is slow: each iteration has two divisions. The compiler
// must not change the order of floating-point operations, so it cannot hoist the factors.

__global__ void pole_sum(const double* __restrict__ pole, const double* __restrict__ strength,
                         const double* __restrict__ volume, const double* __restrict__ x,
                         const double* __restrict__ weight, double* __restrict__ out, int P,
                         int N) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= P) return;
  double sum = 0;
  // TODO: which factors are the same for all n? Multiply the sum by them after the loop.
  for (int n = 0; n < N; ++n)
    sum +=
        weight[n] * strength[p] / volume[p] * pole[p] * pole[p] / (x[n] * x[n] - pole[p] * pole[p]);
  out[p] = sum;
}

// Hoist out of the loop
//
// out[p] = sum over n of weight[n] * strength[p] / volume[p] / (x[n]^2 - pole[p]^2). The compiler
// must keep the order of floating-point operations, so this loop divides twice per term. You may
// change the order.
//
// hint: Which factors are the same for all n?
// hint: Multiply the sum by them after the loop.
// hint: One division per term is left: weight[n] / (x[n] * x[n] - square).
// signature: (p),(p),(p),(n),(n)->(p)
// reference: lambda strength, volume, pole, x, weight: strength / volume * ( weight / (x**2 -
//   pole[:, None]**2)).sum(1)
// problems: [tuple(rng.random(k) + low for k, low in ((p, 1), (p, 1), (p, 0), (n, 2), (n, 0))) for
//   p, n in ((64, 32), (1, 1), (33, 7))]
// launch: {"block": 64}
// tolerance: 1e-12
// done: divisions <= 2112
__global__ void respond(const double* strength, const double* volume, const double* pole,
                        const double* x, const double* weight, double* out, int poles, int terms) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= poles) return;
  const double square = pole[p] * pole[p];
  double sum = 0;
  // --- your code
  for (int n = 0; n < terms; ++n)
    sum += weight[n] * strength[p] / volume[p] / (x[n] * x[n] - square);
  out[p] = sum;
  // --- solution
  for (int n = 0; n < terms; ++n) sum += weight[n] / (x[n] * x[n] - square);
  out[p] = strength[p] / volume[p] * sum;
  // --- end
}

// Prices of European options by the Black-Scholes formula, in the order of the CUDA C++ Best
// Practices Guide (strides, arithmetic instructions), with the formula and the last steps of the
// CUDA sample BlackScholes (Podlozhnyuk 2007).
constexpr double kRate = 0.02, kVolatility = 0.30;
constexpr int kEach = 64;

// The cumulative normal distribution, by the polynomial of Abramowitz and Stegun.
__device__ double normal(double d) {
  const double k = 1.0 / (1.0 + 0.2316419 * fabs(d));
  const double sum =
      k *
      (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
  const double tail = 0.39894228040143267794 * exp(-0.5 * d * d) * sum;
  return d > 0 ? 1.0 - tail : tail;
}

// Computes each price by its own formula.
__device__ void price_separately(float& call, float& put, double s, double x, double t) {
  const double d1 =
      (log(s / x) + (kRate + 0.5 * kVolatility * kVolatility) * t) / (kVolatility * sqrt(t));
  const double d2 = d1 - kVolatility * sqrt(t);
  call = s * normal(d1) - x * exp(-kRate * t) * normal(d2);
  put = x * exp(-kRate * t) * normal(-d2) - s * normal(-d1);
}

// A thread prices consecutive options, as a thread of a CPU does.
__global__ void black_scholes_chunks(const float* stock, const float* strike, const float* years,
                                     float* call, float* put, int n) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * kEach;
  for (int i = first; i < min(first + kEach, n); ++i)
    price_separately(call[i], put[i], stock[i], strike[i], years[i]);
}

__global__ void black_scholes_interleaved(const float* stock, const float* strike,
                                          const float* years, float* call, float* put, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    price_separately(call[i], put[i], stock[i], strike[i], years[i]);
}

// The put follows from the call: 1 - N(d) is N(-d).
__global__ void black_scholes_parity(const float* stock, const float* strike, const float* years,
                                     float* call, float* put, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const double s = stock[i], x = strike[i], t = years[i], deviation = kVolatility * sqrt(t);
    const double d1 = (log(s / x) + (kRate + 0.5 * kVolatility * kVolatility) * t) / deviation;
    const double n1 = normal(d1), n2 = normal(d1 - deviation), discounted = x * exp(-kRate * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0 - n2) - s * (1.0 - n1);
  }
}

constexpr float kRateSingle = 0.02f, kVolatilitySingle = 0.30f;
constexpr float kDrift = kRateSingle + 0.5f * kVolatilitySingle * kVolatilitySingle;

__device__ float polynomial(float k) {
  return k * (0.31938153f +
              k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
}

__device__ float normal_single(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  const float tail = 0.39894228040143267794f * expf(-0.5f * d * d) * polynomial(k);
  return d > 0 ? 1.0f - tail : tail;
}

__global__ void black_scholes_single(const float* stock, const float* strike, const float* years,
                                     float* call, float* put, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const float s = stock[i], x = strike[i], t = years[i];
    const float deviation = kVolatilitySingle * sqrtf(t);
    const float d1 = (logf(s / x) + kDrift * t) / deviation, d2 = d1 - deviation;
    const float n1 = normal_single(d1), n2 = normal_single(d2);
    const float discounted = x * expf(-kRateSingle * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
  }
}

__device__ float normal_fast(float d) {
  const float k = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d));
  const float tail = 0.39894228040143267794f * __expf(-0.5f * d * d) * polynomial(k);
  return d > 0 ? 1.0f - tail : tail;
}

__device__ void price_fast(float& call, float& put, float s, float x, float t) {
  const float inverse_root = rsqrtf(t), deviation = kVolatilitySingle * t * inverse_root;
  const float d1 =
      (__logf(__fdividef(s, x)) + kDrift * t) * (inverse_root * (1 / kVolatilitySingle));
  const float n1 = normal_fast(d1), n2 = normal_fast(d1 - deviation);
  const float discounted = x * __expf(-kRateSingle * t);
  call = s * n1 - discounted * n2;
  put = discounted * (1.0f - n2) - s * (1.0f - n1);
}

__global__ void black_scholes_intrinsics(const float* stock, const float* strike,
                                         const float* years, float* call, float* put, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    price_fast(call[i], put[i], stock[i], strike[i], years[i]);
}

// One vector of two options per thread, without a loop; the last thread prices an odd last option.
__global__ void __launch_bounds__(128)
    black_scholes_pairs(const float* stock, const float* strike, const float* years, float* call,
                        float* put, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 2) {
    const float2 s = reinterpret_cast<const float2*>(stock)[i],
                 x = reinterpret_cast<const float2*>(strike)[i],
                 t = reinterpret_cast<const float2*>(years)[i];
    float2 calls, puts;
    price_fast(calls.x, puts.x, s.x, x.x, t.x);
    price_fast(calls.y, puts.y, s.y, x.y, t.y);
    reinterpret_cast<float2*>(call)[i] = calls;
    reinterpret_cast<float2*>(put)[i] = puts;
  } else if (2 * i == n - 1) {
    price_fast(call[2 * i], put[2 * i], stock[2 * i], strike[2 * i], years[2 * i]);
  }
}

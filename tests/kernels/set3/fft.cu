// Fourier transforms of rows of 512 complex numbers, in the order of Govindaraju et al. (2008),
// with the registers and the padding of Volkov and Kazian (2008).
constexpr int kPoints = 512;
constexpr float kPi = 3.14159265358979f;

__device__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ float2 operator-(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }
__device__ float2 operator*(float2 a, float2 b) {
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

__device__ float2 unit(float angle) {
  float2 w;
  sincosf(angle, &w.y, &w.x);
  return w;
}

__device__ float2 unit_fast(float angle) {
  float2 w;
  __sincosf(angle, &w.y, &w.x);
  return w;
}

__device__ int reversed(int i) { return __brev(i) >> 23; }

// Transforms a row in bit-reversed order in place, with one butterfly per thread and stage.
__device__ void transform_in_place(float2* row) {
  const int t = threadIdx.x;
  for (int half = 1; half < kPoints; half *= 2) {
    __syncthreads();
    const int i = 2 * t - t % half;
    const float2 a = row[i], b = unit(-kPi * (t % half) / half) * row[i + half];
    row[i] = a + b;
    row[i + half] = a - b;
  }
  __syncthreads();
}

__global__ void fft_global(const float2* x, float2* y, int rows, int points) {
  x += static_cast<size_t>(blockIdx.x) * kPoints;
  y += static_cast<size_t>(blockIdx.x) * kPoints;
  for (int i = threadIdx.x; i < kPoints; i += blockDim.x) y[i] = x[reversed(i)];
  transform_in_place(y);
}

__global__ void fft_shared(const float2* x, float2* y, int rows, int points) {
  __shared__ float2 row[kPoints];
  x += static_cast<size_t>(blockIdx.x) * kPoints;
  y += static_cast<size_t>(blockIdx.x) * kPoints;
  for (int i = threadIdx.x; i < kPoints; i += blockDim.x) row[reversed(i)] = x[i];
  transform_in_place(row);
  for (int i = threadIdx.x; i < kPoints; i += blockDim.x) y[i] = row[i];
}

// Stockham's algorithm, which needs no bit reversal. A thread keeps two points in registers, and
// exchanges points with other threads through shared memory between stages.
template <bool kFast>
__device__ void transform_stockham(const float2* x, float2* y) {
  __shared__ float2 row[kPoints];
  const int t = threadIdx.x, half = kPoints / 2;
  x += static_cast<size_t>(blockIdx.x) * kPoints;
  y += static_cast<size_t>(blockIdx.x) * kPoints;
  float2 a = x[t], b = x[t + half];
  for (int done = 1; done < half; done *= 2) {
    const float angle = -kPi * (t % done) / done;
    b = (kFast ? unit_fast(angle) : unit(angle)) * b;
    const int to = 2 * t - t % done;
    row[to] = a + b;
    row[to + done] = a - b;
    __syncthreads();
    a = row[t];
    b = row[t + half];
    __syncthreads();
  }
  const float angle = -kPi * t / half;
  b = (kFast ? unit_fast(angle) : unit(angle)) * b;
  y[t] = a + b;
  y[t + half] = a - b;
}

__global__ void fft_stockham(const float2* x, float2* y, int rows, int points) {
  transform_stockham<false>(x, y);
}

__global__ void fft_intrinsics(const float2* x, float2* y, int rows, int points) {
  transform_stockham<true>(x, y);
}

__device__ void transform_two(float2& a, float2& b) {
  const float2 sum = a + b;
  b = a - b;
  a = sum;
}

// Multiplies by -i.
__device__ float2 turned(float2 a) { return {a.y, -a.x}; }

// The transform of four points, with the results in the order 0, 2, 1, 3.
__device__ void transform_four(float2& a, float2& b, float2& c, float2& d) {
  transform_two(a, c);
  transform_two(b, d);
  d = turned(d);
  transform_two(a, b);
  transform_two(c, d);
}

// The transform of eight points in registers, with the results in bit-reversed order.
__device__ void transform_eight(float2 (&v)[8]) {
  constexpr float kRoot = 0.70710678118654752f;
#pragma unroll
  for (int i = 0; i < 4; ++i) transform_two(v[i], v[i + 4]);
  v[5] = float2{kRoot, -kRoot} * v[5];
  v[6] = turned(v[6]);
  v[7] = float2{-kRoot, -kRoot} * v[7];
  transform_four(v[0], v[1], v[2], v[3]);
  transform_four(v[4], v[5], v[6], v[7]);
}

// Eight points per thread of a block of 64: three stages of radix 8. In shared memory, kPad
// unused points follow every 16 points.
template <int kPad>
__device__ void transform_radix_8(const float2* x, float2* y) {
  constexpr int kThreads = kPoints / 8, kOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};
  __shared__ float2 row[kPoints + kPoints / 16 * kPad];
  const int t = threadIdx.x;
  x += static_cast<size_t>(blockIdx.x) * kPoints;
  y += static_cast<size_t>(blockIdx.x) * kPoints;
  float2 v[8];
#pragma unroll
  for (int r = 0; r < 8; ++r) v[r] = x[t + r * kThreads];
#pragma unroll
  for (int done = 1; done < kPoints; done *= 8) {
    if (done > 1) {
      const float angle = -kPi * (t % done) / (4 * done);
#pragma unroll
      for (int r = 1; r < 8; ++r) v[r] = unit_fast(r * angle) * v[r];
    }
    transform_eight(v);
    if (done == kThreads) break;
    const int to = t / done * done * 8 + t % done;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int at = to + r * done;
      row[at + at / 16 * kPad] = v[kOrder[r]];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int at = t + r * kThreads;
      v[r] = row[at + at / 16 * kPad];
    }
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) y[t + r * kThreads] = v[kOrder[r]];
}

__global__ void fft_radix_8(const float2* x, float2* y, int rows, int points) {
  transform_radix_8<0>(x, y);
}

__global__ void fft_padded(const float2* x, float2* y, int rows, int points) {
  transform_radix_8<1>(x, y);
}

// Accelerations of bodies by gravity, in the order of GPU Gems 3, chapter 31.
constexpr float kSoftening = 0.01f;
constexpr int kThreads = 128;

// The square root and the division of the formula.
__device__ void add_plainly(float3& sum, float4 here, float4 other) {
  const float dx = other.x - here.x, dy = other.y - here.y, dz = other.z - here.z;
  const float square = dx * dx + dy * dy + dz * dz + kSoftening;
  const float factor = other.w / (square * sqrtf(square));
  sum.x += dx * factor;
  sum.y += dy * factor;
  sum.z += dz * factor;
}

__device__ void add(float3& sum, float4 here, float4 other) {
  const float dx = other.x - here.x, dy = other.y - here.y, dz = other.z - here.z;
  const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + kSoftening);
  const float factor = other.w * inverse * inverse * inverse;
  sum.x += dx * factor;
  sum.y += dy * factor;
  sum.z += dz * factor;
}

__global__ void nbody_naive(const float4* bodies, float4* out, int n, int four) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 here = bodies[i];
  float3 sum = {};
  for (int j = 0; j < n; ++j) add_plainly(sum, here, bodies[j]);
  out[i] = {sum.x, sum.y, sum.z, 0};
}

__global__ void nbody_reciprocal(const float4* bodies, float4* out, int n, int four) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 here = bodies[i];
  float3 sum = {};
  for (int j = 0; j < n; ++j) add(sum, here, bodies[j]);
  out[i] = {sum.x, sum.y, sum.z, 0};
}

template <int kUnrolled>
__device__ void walk_tiles(const float4* bodies, float4* out, int n) {
  __shared__ float4 tile[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 here = bodies[i];
  float3 sum = {};
  for (int first = 0; first < n; first += kThreads) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll kUnrolled
    for (int j = 0; j < kThreads; ++j) add(sum, here, tile[j]);
    __syncthreads();
  }
  out[i] = {sum.x, sum.y, sum.z, 0};
}

__global__ void nbody_tiled(const float4* bodies, float4* out, int n, int four) {
  walk_tiles<1>(bodies, out, n);
}

__global__ void nbody_unrolled(const float4* bodies, float4* out, int n, int four) {
  walk_tiles<32>(bodies, out, n);
}

// Four threads per body, each with a quarter of every tile.
__global__ void nbody_four_threads(const float4* bodies, float4* out, int n, int four) {
  constexpr int kParts = 4, kBodies = 64;
  __shared__ float4 tile[kParts * kBodies];
  __shared__ float3 sums[kParts][kBodies];
  const int body = threadIdx.x % kBodies, part = threadIdx.x / kBodies;
  const int i = blockIdx.x * kBodies + body;
  const float4 here = bodies[i];
  float3 sum = {};
  for (int first = 0; first < n; first += kParts * kBodies) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 32
    for (int j = 0; j < kBodies; ++j) add(sum, here, tile[part * kBodies + j]);
    __syncthreads();
  }
  sums[part][body] = sum;
  __syncthreads();
  if (part) return;
  for (int other = 1; other < kParts; ++other) {
    sum.x += sums[other][body].x;
    sum.y += sums[other][body].y;
    sum.z += sums[other][body].z;
  }
  out[i] = {sum.x, sum.y, sum.z, 0};
}

// As before, with two bodies per thread, which share each load of the tile.
__global__ void nbody_two_bodies(const float4* bodies, float4* out, int n, int four) {
  constexpr int kParts = 4, kBodies = 64;
  __shared__ float4 tile[kParts * kBodies];
  __shared__ float3 sums[kParts][2][kBodies];
  const int body = threadIdx.x % kBodies, part = threadIdx.x / kBodies;
  const int i = blockIdx.x * 2 * kBodies + body;
  const float4 first_body = bodies[i], second_body = bodies[i + kBodies];
  float3 sum[2] = {};
  for (int first = 0; first < n; first += kParts * kBodies) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 16
    for (int j = 0; j < kBodies; ++j) {
      const float4 other = tile[part * kBodies + j];
      add(sum[0], first_body, other);
      add(sum[1], second_body, other);
    }
    __syncthreads();
  }
  sums[part][0][body] = sum[0];
  sums[part][1][body] = sum[1];
  __syncthreads();
  if (part > 1) return;
  float3 all = {};
  for (int other = 0; other < kParts; ++other) {
    all.x += sums[other][part][body].x;
    all.y += sums[other][part][body].y;
    all.z += sums[other][part][body].z;
  }
  out[i + part * kBodies] = {all.x, all.y, all.z, 0};
}

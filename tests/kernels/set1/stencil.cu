// Seven-point stencil in three dimensions, in the order of "Programming Massively Parallel
// Processors", chapter 8, then in columns without shared memory (Micikevicius 2009).
constexpr float kCentre = 0.4f, kNeighbour = 0.1f;

struct Grid {
  int depth, height, width;
  __device__ size_t at(int z, int y, int x) const {
    return (static_cast<size_t>(z) * height + y) * width + x;
  }
  __device__ bool contains(int z, int y, int x) const {
    return z < depth && y < height && x < width;
  }
  __device__ bool is_border(int z, int y, int x) const {
    return z == 0 || y == 0 || x == 0 || z == depth - 1 || y == height - 1 || x == width - 1;
  }
};

__device__ float combine(float centre, float w, float e, float n, float s, float d, float u) {
  return kCentre * centre + kNeighbour * (w + e + n + s + d + u);
}

__device__ void point(const float* a, float* out, const Grid& g, int z, int y, int x) {
  if (!g.contains(z, y, x)) return;
  const size_t i = g.at(z, y, x), row = g.width, plane = row * g.height;
  out[i] = g.is_border(z, y, x) ? a[i]
                                : combine(a[i], a[i - 1], a[i + 1], a[i - row], a[i + row],
                                          a[i - plane], a[i + plane]);
}

__global__ void stencil_cubes(const float* a, float* out, int depth, int height, int width) {
  point(a, out, {depth, height, width}, blockIdx.z * blockDim.z + threadIdx.z,
        blockIdx.y * blockDim.y + threadIdx.y, blockIdx.x * blockDim.x + threadIdx.x);
}

// The tile has a halo on all sides. All threads load; the threads inside the halo compute.
constexpr int kTile = 8;
__global__ void stencil_tile(const float* a, float* out, int depth, int height, int width) {
  const Grid g{depth, height, width};
  __shared__ float tile[kTile][kTile][kTile];
  const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
  const int x = blockIdx.x * (kTile - 2) + tx - 1, y = blockIdx.y * (kTile - 2) + ty - 1,
            z = blockIdx.z * (kTile - 2) + tz - 1;
  const bool valid = x >= 0 && y >= 0 && z >= 0 && g.contains(z, y, x);
  if (valid) tile[tz][ty][tx] = a[g.at(z, y, x)];
  __syncthreads();
  const bool inside =
      tx > 0 && ty > 0 && tz > 0 && tx < kTile - 1 && ty < kTile - 1 && tz < kTile - 1;
  if (!valid || !inside) return;
  out[g.at(z, y, x)] = g.is_border(z, y, x)
                           ? tile[tz][ty][tx]
                           : combine(tile[tz][ty][tx], tile[tz][ty][tx - 1], tile[tz][ty][tx + 1],
                                     tile[tz][ty - 1][tx], tile[tz][ty + 1][tx],
                                     tile[tz - 1][ty][tx], tile[tz + 1][ty][tx]);
}

// A block walks along z with planes of 32 x 32 points including the halo.
constexpr int kPlane = 32, kSteps = 16;

__global__ void stencil_coarsened(const float* a, float* out, int depth, int height, int width) {
  const Grid g{depth, height, width};
  __shared__ float planes[3][kPlane][kPlane];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int x = blockIdx.x * (kPlane - 2) + tx - 1, y = blockIdx.y * (kPlane - 2) + ty - 1;
  const int first = blockIdx.z * kSteps, last = min(first + kSteps, depth);
  const bool valid = x >= 0 && y >= 0 && x < width && y < height;
  const bool inside = tx > 0 && ty > 0 && tx < kPlane - 1 && ty < kPlane - 1;
  planes[0][ty][tx] = valid && first > 0 ? a[g.at(first - 1, y, x)] : 0;
  planes[1][ty][tx] = valid ? a[g.at(first, y, x)] : 0;
  for (int z = first; z < last; ++z) {
    planes[2][ty][tx] = valid && z + 1 < depth ? a[g.at(z + 1, y, x)] : 0;
    __syncthreads();
    if (valid && inside)
      out[g.at(z, y, x)] =
          g.is_border(z, y, x)
              ? planes[1][ty][tx]
              : combine(planes[1][ty][tx], planes[1][ty][tx - 1], planes[1][ty][tx + 1],
                        planes[1][ty - 1][tx], planes[1][ty + 1][tx], planes[0][ty][tx],
                        planes[2][ty][tx]);
    __syncthreads();
    planes[0][ty][tx] = planes[1][ty][tx];
    planes[1][ty][tx] = planes[2][ty][tx];
  }
}

__global__ void stencil_registers(const float* a, float* out, int depth, int height, int width) {
  const Grid g{depth, height, width};
  __shared__ float plane[kPlane][kPlane];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int x = blockIdx.x * (kPlane - 2) + tx - 1, y = blockIdx.y * (kPlane - 2) + ty - 1;
  const int first = blockIdx.z * kSteps, last = min(first + kSteps, depth);
  const bool valid = x >= 0 && y >= 0 && x < width && y < height;
  const bool inside = tx > 0 && ty > 0 && tx < kPlane - 1 && ty < kPlane - 1;
  float below = valid && first > 0 ? a[g.at(first - 1, y, x)] : 0;
  float here = valid ? a[g.at(first, y, x)] : 0;
  for (int z = first; z < last; ++z) {
    const float above = valid && z + 1 < depth ? a[g.at(z + 1, y, x)] : 0;
    plane[ty][tx] = here;
    __syncthreads();
    if (valid && inside)
      out[g.at(z, y, x)] = g.is_border(z, y, x)
                               ? here
                               : combine(here, plane[ty][tx - 1], plane[ty][tx + 1],
                                         plane[ty - 1][tx], plane[ty + 1][tx], below, above);
    __syncthreads();
    below = here;
    here = above;
  }
}

// Neighbours along x and y come from L1; a thread keeps its column along z in registers.
__global__ void stencil_columns(const float* a, float* out, int depth, int height, int width) {
  const Grid g{depth, height, width};
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int first = blockIdx.z * kSteps, last = min(first + kSteps, depth);
  if (x >= width || y >= height) return;
  float below = first > 0 ? a[g.at(first - 1, y, x)] : 0, here = a[g.at(first, y, x)];
  for (int z = first; z < last; ++z) {
    const size_t i = g.at(z, y, x);
    const float above = z + 1 < depth ? a[g.at(z + 1, y, x)] : 0;
    out[i] = g.is_border(z, y, x)
                 ? here
                 : combine(here, a[i - 1], a[i + 1], a[i - width], a[i + width], below, above);
    below = here;
    here = above;
  }
}

// As before, with four points along x per thread, in vectors.
__global__ void stencil_vectors(const float* a, float* out, int depth, int height, int width) {
  const Grid g{depth, height, width};
  const int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int first = blockIdx.z * kSteps, last = min(first + kSteps, depth);
  if (x >= width || y >= height) return;
  const auto load = [&](size_t i) { return *reinterpret_cast<const float4*>(a + i); };
  const float4 zero = {0, 0, 0, 0};
  float4 below = first > 0 ? load(g.at(first - 1, y, x)) : zero, here = load(g.at(first, y, x));
  for (int z = first; z < last; ++z) {
    const size_t i = g.at(z, y, x);
    const float4 above = z + 1 < depth ? load(g.at(z + 1, y, x)) : zero;
    float4 result = here;
    if (z > 0 && y > 0 && z < depth - 1 && y < height - 1) {
      const float4 n = load(i - width), s = load(i + width);
      const float w = x > 0 ? a[i - 1] : 0, e = x + 4 < width ? a[i + 4] : 0;
      if (x > 0) result.x = combine(here.x, w, here.y, n.x, s.x, below.x, above.x);
      result.y = combine(here.y, here.x, here.z, n.y, s.y, below.y, above.y);
      result.z = combine(here.z, here.y, here.w, n.z, s.z, below.z, above.z);
      if (x + 4 < width) result.w = combine(here.w, here.z, e, n.w, s.w, below.w, above.w);
    }
    *reinterpret_cast<float4*>(out + i) = result;
    below = here;
    here = above;
  }
}

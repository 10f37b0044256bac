// Kernels of test_emulator.py. The numbers of lines marked with "line:" are part of the tests.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <cassert>

#include <cstdio>

extern "C" {

__global__ void copy(const float* a, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i];
}

__global__ void copy_beyond(const float* a, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i + 1];  // line: out of bounds
}

// All blocks fail. Block 0 takes the longest.
__global__ void late_errors(int* out, int n) {
  int x = 0;
  for (int i = 0; i < n >> blockIdx.x; ++i) x = x * 3 + out[0];
  out[8 * blockIdx.x + 4096] = x;
}

__global__ void reverse(const int* a, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

__global__ void reverse_without_barrier(const int* a, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = a[threadIdx.x];          // line: race, writer
  out[threadIdx.x] = tile[127 - threadIdx.x];  // line: race, reader
}

__global__ void async_copy(const int4* a, int4* out, int wait) {
  __shared__ int4 tile[64];
  __pipeline_memcpy_async(&tile[threadIdx.x], &a[threadIdx.x], 16);
  __pipeline_commit();
  if (wait) __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// A call that is not inlined, a local array, printf and assert.
__noinline__ __device__ int pick(const int* values, int index, int* count) {
  ++*count;
  return values[index];
}
__global__ void calls(const int* order, int* out, int n) {
  int values[8], count = 0;
  for (int i = 0; i < 8; ++i) values[i] = i * i;
  const int first = pick(values, order[threadIdx.x], &count);
  out[threadIdx.x] = first + pick(values, order[threadIdx.x] ^ 1, &count) + 1000 * count;
  if (threadIdx.x == 3) printf("thread %d of %u: %.2f %s %lld\n", 3, blockDim.x, 1.5, "text", -5ll);
  assert(n > 0);  // line: assert
}

__global__ void warp_operations(const int* a, int* out) {
  const int lane = threadIdx.x % 32, x = a[threadIdx.x];
  int sum = x;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  int scan = x;
  for (int d = 1; d < 32; d *= 2) {
    const int left = __shfl_up_sync(0xffffffff, scan, d);
    if (lane >= d) scan += left;
  }
  const unsigned odd = __ballot_sync(0xffffffff, x & 1);
  out[threadIdx.x] = sum;
  out[threadIdx.x + 32] = scan;
  out[threadIdx.x + 64] = __popc(odd);
  out[threadIdx.x + 96] = static_cast<int>(__reduce_max_sync(0xffffffff, x));
  out[threadIdx.x + 128] = __popc(__match_any_sync(0xffffffff, x & 3));
  out[threadIdx.x + 160] = __shfl_sync(0xffffffff, x, 5, 8);
  if (lane < 7) out[threadIdx.x + 192] = __reduce_add_sync(0x7f, x);
}

__global__ void histogram(const unsigned char* a, int* counts, int n) {
  __shared__ int own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    atomicAdd(&own[a[i]], 1);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

// Divergence: loops of different length, an early exit, break and a switch.
__global__ void divergence(const int* a, int* out, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  int x = a[i], steps = 0;
  while (x != 1) {
    x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    if (++steps == 60) break;
  }
  switch (a[i] % 5) {
    case 0:
      steps += 1000;
      break;
    case 1:
      steps *= 2;
      break;
    case 3:
      steps -= 7;
      [[fallthrough]];
    case 4:
      steps ^= 5;
      break;
    default:
      break;
  }
  out[i] = steps;
}

// Block b waits for block b + 1.
__global__ void chain(volatile int* flags, int* out) {
  if (threadIdx.x == 0) {
    if (blockIdx.x + 1 < gridDim.x) {
      while (flags[blockIdx.x + 1] == 0) {
      }  // line: polls
      __threadfence();
    }
    out[blockIdx.x] = blockIdx.x + 1 < gridDim.x ? out[blockIdx.x + 1] + 1 : 0;
    __threadfence();
    flags[blockIdx.x] = 1;
  }
}

__global__ void __cluster_dims__(4, 1, 1) cluster_sum(const int* a, int* out) {
  const auto cluster = cooperative_groups::this_cluster();
  __shared__ int own;
  if (threadIdx.x == 0) own = a[blockIdx.x];
  cluster.sync();
  int sum = 0;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank)
    sum += *cluster.map_shared_rank(&own, rank);
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void wide_products(const unsigned long long* a, unsigned long long* out) {
  const unsigned long long x = a[threadIdx.x];
  unsigned low, carry, high;
  asm("add.cc.u32 %0, %3, %4;\n addc.cc.u32 %1, %3, 0;\n addc.u32 %2, 0, 0;"
      : "=r"(low), "=r"(carry), "=r"(high)
      : "r"(static_cast<unsigned>(x)), "r"(static_cast<unsigned>(x >> 32)));
  out[threadIdx.x] = __umul64hi(x, x) + low + carry + high;
}

__global__ void functions(const float* a, float* out) {
  const float x = a[threadIdx.x];
  out[threadIdx.x] = expf(x);
  out[threadIdx.x + 32] = sinf(x) * cosf(x);
  out[threadIdx.x + 64] = logf(fabsf(x) + 1.f) / 3.f;
  out[threadIdx.x + 96] = sqrtf(fabsf(x)) + rsqrtf(fabsf(x) + 1.f) + tanhf(x);
  out[threadIdx.x + 128] =
      powf(fabsf(x) + .5f, 1.3f) + static_cast<float>(erf(static_cast<double>(x)));
}

// Sums of 16-bit floats and of vectors.
__global__ void float_atomics(const float* a, __half2* halves, __nv_bfloat16* brain, float4* four,
                              __half* one) {
  const float x = a[threadIdx.x];
  atomicAdd(halves, __floats2half2_rn(x, 2 * x));
  atomicAdd(brain, __float2bfloat16(x));
  atomicAdd(one, __float2half(x));
#if __CUDA_ARCH__ >= 900
  atomicAdd(four, float4{x, 2 * x, 3 * x, 4 * x});
#endif
}

// Calls through pointers: a table in constant memory and a value that depends on the thread.
__noinline__ __device__ int twice(int x) { return 2 * x; }
__noinline__ __device__ int square(int x) { return x * x; }
__noinline__ __device__ int negative(int x) { return -x; }
using Function = int (*)(int);
__constant__ Function table[] = {twice, square, negative};
__global__ void call_through_table(const int* choices, int* out) {
  out[threadIdx.x] = table[choices[threadIdx.x]](static_cast<int>(threadIdx.x));
}

__device__ unsigned address_of(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
// out = a b in tensor cores: a is 16 x 16, b is 16 x 8 and stored by columns.
__global__ void multiply_fragments(const __half* a, const __half* b, float* out) {
  __shared__ __align__(16) __half tile[16][16];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i / 16][i % 16] = a[i];
  __syncwarp();
  const int group = threadIdx.x / 4, within = threadIdx.x % 4;
  unsigned x[4], y[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address_of(&tile[threadIdx.x % 16][threadIdx.x / 16 * 8])));
  for (int i = 0; i < 2; ++i)
    y[i] = *reinterpret_cast<const unsigned*>(&b[group * 16 + i * 8 + within * 2]);
  float d[4] = {1, 1, 1, 1};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + within * 2 + i % 2] = d[i];
}
// The same with wmma, of 16 x 16 and 8-bit integers; all are stored by rows.
__global__ void multiply_bytes(const signed char* a, const signed char* b, int* out) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, signed char, row_major> x;
  fragment<matrix_b, 16, 16, 16, signed char, row_major> y;
  fragment<accumulator, 16, 16, 16, int> sum;
  load_matrix_sync(x, a, 16);
  load_matrix_sync(y, b, 16);
  fill_fragment(sum, 1);
  mma_sync(sum, x, y, sum);
  store_matrix_sync(out, sum, 16, mem_row_major);
}

// --- Bulk copies and mbarriers -------------------------------------------------------------------

__device__ void init(unsigned long long* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)), "r"(count)
               : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ void expect(unsigned long long* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void arrive(unsigned long long* barrier) {
  asm volatile(
      "{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(address_of(barrier))
      : "memory");
}
__device__ void wait(unsigned long long* barrier, int parity) {
  unsigned done = 0;
  while (done == 0)
    asm volatile(
        "{.reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;"
        " selp.u32 %0, 1, 0, done;}"
        : "=r"(done)
        : "r"(address_of(barrier)), "r"(parity)
        : "memory");
}

struct alignas(64) Map {
  char bytes[128];
};

// Copies a box of 8 x 32 elements at (y, x), and then the box to `out`, as it is in shared memory,
// with bulk copies. `mistake`: 1 does not wait for the load, 2 waits for too many bytes, 3 does not
// wait for the store.
__global__ void copy_box(const __grid_constant__ Map map, int* out, int x, int y, int mistake) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(1024) int box[8 * 32];
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) {
    init(&barrier, 1);
    expect(&barrier, sizeof box + (mistake == 2 ? 16 : 0));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];" ::"r"(address_of(box)),
        "l"(&map), "r"(x), "r"(y), "r"(address_of(&barrier))
        : "memory");
  }
  __syncthreads();
  if (mistake != 1) wait(&barrier, 0);
  box[threadIdx.x] += 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out),
                 "r"(address_of(box)), "r"(static_cast<int>(sizeof box))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    if (mistake != 3) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
#endif
}

// A ring of two buffers: warp 0 loads with bulk copies, warps 1 and 2 add up. `mistake`: 1 does not
// wait until a buffer is free, 2 arrives once too often.
__global__ void ring(const int* a, int* out, int count, int mistake) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(16) int buffers[2][64];
  __shared__ unsigned long long full[2], empty[2];
  if (threadIdx.x < 2) {
    init(&full[threadIdx.x], 1);
    init(&empty[threadIdx.x], 64);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < count; ++i) {
      if (mistake != 1) wait(&empty[i % 2], (i / 2 + 1) % 2);
      expect(&full[i % 2], sizeof buffers[0]);
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(address_of(buffers[i % 2])),
          "l"(a + 64 * i), "r"(static_cast<int>(sizeof buffers[0])), "r"(address_of(&full[i % 2]))
          : "memory");
    }
  } else if (threadIdx.x >= 32) {
    int sum = 0;
    for (int i = 0; i < count; ++i) {
      wait(&full[i % 2], i / 2 % 2);
      sum += buffers[i % 2][threadIdx.x - 32];
      arrive(&empty[i % 2]);
      if (mistake == 2) arrive(&empty[i % 2]);
    }
    out[threadIdx.x - 32] = sum;
  }
#endif
}

// cp.async whose completion an mbarrier counts.
__global__ void copies_that_arrive(const int* a, int* out, int mistake) {
  __shared__ int tile[64];
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) init(&barrier, 64);
  __syncthreads();
  __pipeline_memcpy_async(&tile[threadIdx.x], &a[threadIdx.x], 4);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address_of(&barrier))
               : "memory");
  if (!mistake) wait(&barrier, 0);
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

}  // extern "C"

// Transposes of the course: the counts that the documents explain.
template <int kColumns>
__global__ void transpose(const float* a, float* out, int n) {
  __shared__ float tile[32][kColumns];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
  for (int i = y; i < 32; i += 8) tile[i][x] = a[(row + i) * n + col + x];
  __syncthreads();
  for (int i = y; i < 32; i += 8) out[(col + i) * n + row + x] = tile[x][i];
}
template __global__ void transpose<32>(const float*, float*, int);
template __global__ void transpose<33>(const float*, float*, int);

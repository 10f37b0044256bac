// Throughput of FP64 instructions by the number of different registers that they read, which limits
// the last variants of gpp; and of FP64 matrix instructions (tensor cores, compute capability 9.0)
// alone and while other warps execute FMAs.
//
//   nvcc -O3 -std=c++20 -arch=native -o fp64_operands benchmarks/fp64_operands.cu &&
//   ./fp64_operands
//
// An FMA of three different registers takes longer, unless the previous instruction has left one of
// them in the operand cache. Instructions of other pipes do not overlap with FP64 for free: they
// also take time to read their operands.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#define CHECK(call)                                                        \
  do {                                                                     \
    if (const cudaError_t status = (call); status != cudaSuccess) {        \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

namespace {

enum class Operands {
  kAdd,
  kMultiply,
  kMultiplyAndSelect,
  kTwo,
  kShared,
  kPairsShare,
  kThree,
  kThreeAndSelect
};

constexpr int kChains = 8, kUnroll = 8, kPasses = 4000;
constexpr int kThreads = 128, kBlocks = 4;  // blocks per multiprocessor

template <Operands kWhich>
__global__ void __launch_bounds__(kThreads) chains(const double* in, double* out) {
  const double* const own = in + threadIdx.x;
  double sum[kChains], c[kChains], d[kChains];
  for (int i = 0; i < kChains; ++i) {
    sum[i] = own[i];
    c[i] = own[kChains + i];
    d[i] = own[2 * kChains + i];
  }
  const double m = own[3 * kChains], n = own[3 * kChains + 1];
  unsigned bits[kChains];
  for (int i = 0; i < kChains; ++i) bits[i] = threadIdx.x + i;
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll
    for (int i = 0; i < kUnroll * kChains; ++i) {
      double& s = sum[i % kChains];
      const double x = c[i % kChains], y = d[i % kChains];
      if (kWhich == Operands::kAdd) s = s + x;
      if (kWhich == Operands::kMultiply || kWhich == Operands::kMultiplyAndSelect) s = s * x;
      if (kWhich == Operands::kTwo) s = fma(s, x, 1.0);
      if (kWhich == Operands::kShared) s = fma(x, m, s);
      if (kWhich == Operands::kPairsShare) s = fma(c[i % kChains / 2], i % 2 == 0 ? m : n, s);
      if (kWhich == Operands::kThree || kWhich == Operands::kThreeAndSelect) s = fma(x, y, s);
      if (kWhich == Operands::kMultiplyAndSelect || kWhich == Operands::kThreeAndSelect)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; selp.b32 %0, %0, %1, p;}"
                     : "+r"(bits[i % kChains])
                     : "r"(bits[(i + 1) % kChains]), "r"(blockDim.x));
    }
  }
  double total = 0;
  for (int i = 0; i < kChains; ++i) total += sum[i] + bits[i];
  out[blockIdx.x * kThreads + threadIdx.x] = total;
}

// A matrix product of 16 x 16 and 16 x 8 elements per warp: 2048 FMAs.
__device__ void add_product(double (&sum)[4], const double (&a)[8], const double (&b)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

enum class Warps { kFma, kMatrix, kBoth };
constexpr int kTiles = 4, kFmas = 128;  // of a pass; both take the same time, if alone

// With kBoth, odd warps execute matrix instructions, and even warps FMAs.
template <Warps kWarps>
__global__ void __launch_bounds__(kThreads) tensor(const double* in, double* out) {
  const double* const own = in + threadIdx.x;
  double a[8], b[4], sum[kChains], tiles[kTiles][4] = {};
  for (int i = 0; i < 8; ++i) a[i] = own[i];
  for (int i = 0; i < 4; ++i) b[i] = own[8 + i];
  for (int i = 0; i < kChains; ++i) sum[i] = own[16 + i];
  const double m = own[3 * kChains];
  if (kWarps == Warps::kMatrix || (kWarps == Warps::kBoth && threadIdx.x / 32 % 2 == 1)) {
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass)
#pragma unroll
      for (double(&tile)[4] : tiles) add_product(tile, a, b);
  } else {
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass)
#pragma unroll
      for (int i = 0; i < kFmas; ++i) sum[i % kChains] = fma(sum[i % kChains], m, 1.0);
  }
  double total = 0;
  for (const double s : sum) total += s;
  for (const auto& tile : tiles)
    for (const double s : tile) total += s;
  out[blockIdx.x * kThreads + threadIdx.x] = total;
}

// The shortest of five times in seconds.
double seconds_of(void (*kernel)(const double*, double*), int multiprocessors, const double* in,
                  double* out) {
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  float best = 1e9F;
  for (int repeat = 0; repeat < 5; ++repeat) {
    CHECK(cudaEventRecord(start));
    kernel<<<multiprocessors * kBlocks, kThreads>>>(in, out);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    best = std::min(best, milliseconds);
  }
  return best / 1e3;
}

template <Operands kWhich>
void measure(const char* name, int multiprocessors, const double* in, double* out) {
  const double instructions =
      1.0 * multiprocessors * kBlocks * kThreads * kPasses * kUnroll * kChains;
  const double seconds = seconds_of(chains<kWhich>, multiprocessors, in, out);
  std::printf("%-44s %6.2f T FP64 instructions/s\n", name, instructions / seconds / 1e12);
}

template <Warps kWarps>
void measure_tensor(const char* name, int multiprocessors, const double* in, double* out) {
  const double warps = 1.0 * multiprocessors * kBlocks * kThreads / 32;
  const double matrix = kWarps == Warps::kFma ? 0 : kWarps == Warps::kBoth ? 0.5 : 1;
  const double seconds = seconds_of(tensor<kWarps>, multiprocessors, in, out);
  const double rate = 2 * warps * kPasses / seconds / 1e12;  // 10^12 FLOP/s of one FMA per pass
  std::printf("%-44s %6.2f TFLOP/s of matrix instructions, %6.2f of FMAs\n", name,
              matrix * kTiles * 2048 * rate, (1 - matrix) * kFmas * 32 * rate);
}

}  // namespace

int main() {
  int multiprocessors = 0;
  CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  double *in = nullptr, *out = nullptr;
  CHECK(cudaMalloc(&in, sizeof(double) * (kThreads + 4 * kChains)));
  CHECK(cudaMemset(in, 0, sizeof(double) * (kThreads + 4 * kChains)));
  CHECK(cudaMalloc(&out, sizeof(double) * multiprocessors * kBlocks * kThreads));
  measure<Operands::kAdd>("DADD", multiprocessors, in, out);
  measure<Operands::kMultiply>("DMUL", multiprocessors, in, out);
  measure<Operands::kMultiplyAndSelect>("DMUL and SEL", multiprocessors, in, out);
  measure<Operands::kTwo>("DFMA, two registers and a constant", multiprocessors, in, out);
  measure<Operands::kShared>("DFMA, three registers, one shared by all", multiprocessors, in, out);
  measure<Operands::kPairsShare>("DFMA, three registers, pairs share one", multiprocessors, in,
                                 out);
  measure<Operands::kThree>("DFMA, three registers", multiprocessors, in, out);
  measure<Operands::kThreeAndSelect>("DFMA, three registers, and SEL", multiprocessors, in, out);
  measure_tensor<Warps::kMatrix>("DMMA", multiprocessors, in, out);
  measure_tensor<Warps::kFma>("DFMA", multiprocessors, in, out);
  measure_tensor<Warps::kBoth>("DMMA and DFMA in different warps", multiprocessors, in, out);
  return 0;
}

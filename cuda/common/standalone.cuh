// A ladder as a program: main calls run_ladder, which checks each step against a loop on the CPU,
// and prints the time, the bandwidth and the speed-up of the step over the first step.
//
//   nvcc -O3 -std=c++20 -arch=native -I cuda -I src -DSTANDALONE cuda/transpose/steps.cu -o ladder
//   ./ladder
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include "common/tensor_copy.cuh"
#include "core/operand.hpp"

namespace ado::cuda {

// --- Replacements of src/device ------------------------------------------------------------------

void throw_error(cudaError_t status, const char* call, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(status));
  std::exit(1);
}

void launch_kernel(const void* kernel, const Launch& go, void** args) {
  ADO_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(go.shared_bytes)));
  ADO_CUDA(cudaLaunchKernel(kernel, dim3(go.grid.x, go.grid.y, go.grid.z),
                            dim3(go.block.x, go.block.y, go.block.z), args, go.shared_bytes));
}

CUtensorMap tensor_map(const Launch&, const void* data, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, int lines) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  ADO_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                            cudaEnableDefault, &found));
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride)};
  const cuuint32_t box[] = {kBoxLine, static_cast<cuuint32_t>(lines)}, steps[] = {1, 1};
  reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}

// --- The program ---------------------------------------------------------------------------------

// A packed array on the host: real numbers from 0 to 1, or random bytes.
inline Array random_array(ElementType type, std::initializer_list<std::int64_t> shape) {
  static std::mt19937 random;
  Array a{.type = type, .rank = static_cast<int>(shape.size())};
  std::copy(shape.begin(), shape.end(), a.shape);
  a = packed_like(a, static_cast<std::byte*>(std::malloc(a.bytes())));
  for (std::int64_t i = 0; i < a.elements(); ++i)
    if (type == kFloat32)
      a.as<float>()[i] = static_cast<float>(random() >> 8) / (1 << 24);
    else if (type == kFloat64)
      a.as<double>()[i] = random() / 4294967296.0;
    else
      for (int byte = 0; byte < type.size; ++byte)
        a.data[i * type.size + byte] = std::byte(random());
  return a;
}

struct Operands {
  std::vector<Array*> inputs, outputs;
  void input(const Operand&, Array& a) { inputs.push_back(&a); }
  void output(const Operand&, Array& a) { outputs.push_back(&a); }
  template <class Value>
  void option(const Option&, Value&) {}
};

// Returns true if numbers differ by at most rounding errors, and other elements are equal.
inline bool equal(const Array& a, const std::byte* b) {
  const auto close = [&]<class T>(T error) {
    for (std::int64_t i = 0; i < a.elements(); ++i)
      if (const T x = a.as<T>()[i], y = reinterpret_cast<const T*>(b)[i];
          !(std::abs(x - y) <= error * std::max(T{1}, std::abs(x))))
        return false;
    return true;
  };
  if (a.type == kFloat32) return close(1e-5F);
  return a.type == kFloat64 ? close(1e-12) : std::memcmp(a.data, b, a.bytes()) == 0;
}

// Runs the steps of a ladder on a problem in host memory. `compute` computes the expected results.
template <class Routine>
int run_ladder(const Ladder<Routine>& ladder, Routine host,
               std::type_identity_t<void (*)(const Routine&)> compute) {
  cudaDeviceProp gpu;
  if (const cudaError_t status = cudaGetDeviceProperties(&gpu, 0); status != cudaSuccess) {
    std::fprintf(stderr, "This program needs a GPU: %s\n", cudaGetErrorString(status));
    return 1;
  }
  const Hardware hardware{.compute = 10 * gpu.major + gpu.minor,
                          .multiprocessors = gpu.multiProcessorCount,
                          .threads_per_multiprocessor = gpu.maxThreadsPerMultiProcessor,
                          .l2_bytes = gpu.l2CacheSize,
                          .shared_bytes = static_cast<std::int64_t>(gpu.sharedMemPerBlockOptin)};
  compute(host);

  Routine problem = host;
  Operands own, given;
  host.operands(own);
  problem.operands(given);
  double operand_bytes = 0;
  const auto to_device = [&](Array& a) {
    const std::byte* const from = a.data;
    ADO_CUDA(cudaMalloc(&a.data, a.bytes()));
    ADO_CUDA(cudaMemcpy(a.data, from, a.bytes(), cudaMemcpyHostToDevice));
    operand_bytes += static_cast<double>(a.bytes());
  };
  for (Array* a : given.inputs) to_device(*a);
  for (Array* a : given.outputs) to_device(*a);

  cudaEvent_t start, stop;
  ADO_CUDA(cudaEventCreate(&start));
  ADO_CUDA(cudaEventCreate(&stop));
  constexpr int kCompiledFor[] = {__CUDA_ARCH_LIST__};
  bool wrong = false;
  double first_seconds = 0;
  std::printf("%s on %s\n%-20s %10s %10s %10s\n", Routine::kName, gpu.name, "step", "us", "GB/s",
              "speed-up");
  for (const Variant<Routine>& step : ladder) {
    const char* reason = step.why_not != nullptr ? step.why_not(problem) : nullptr;
    if (step.min_compute > hardware.compute) reason = "this GPU is too old";
    if (10 * step.min_compute > *std::max_element(std::begin(kCompiledFor), std::end(kCompiledFor)))
      reason = "compile with -arch=native";
    if (reason != nullptr) {
      std::printf("%-20s skipped: %s\n", step.name, reason);
      continue;
    }
    for (Array* a : given.outputs) ADO_CUDA(cudaMemset(a->data, 0xff, a->bytes()));
    Launch go = launch_of(step, problem, step.blocks[0], hardware);
    if (step.scratch_bytes)
      ADO_CUDA(cudaMalloc(&go.scratch, step.scratch_bytes(problem, hardware)));
    std::vector<float> milliseconds(21);
    for (float& sample : milliseconds) {
      ADO_CUDA(cudaEventRecord(start));
      step.run(problem, go);
      ADO_CUDA(cudaEventRecord(stop));
      ADO_CUDA(cudaEventSynchronize(stop));
      ADO_CUDA(cudaEventElapsedTime(&sample, start, stop));
    }
    ADO_CUDA(cudaFree(go.scratch));
    std::nth_element(milliseconds.begin(), milliseconds.begin() + 10, milliseconds.end());
    const double seconds = milliseconds[10] / 1e3;
    const double bytes = step.bytes ? step.bytes(problem, hardware) : operand_bytes;
    if (!step.ceiling && first_seconds == 0) first_seconds = seconds;
    std::printf("%-20s %10.1f %10.0f", step.name, seconds * 1e6, bytes / seconds / 1e9);
    if (!step.ceiling) std::printf(" %10.2f", first_seconds / seconds);
    bool right = true;
    for (std::size_t i = 0; i < own.outputs.size(); ++i) {
      std::vector<std::byte> result(own.outputs[i]->bytes());
      ADO_CUDA(
          cudaMemcpy(result.data(), given.outputs[i]->data, result.size(), cudaMemcpyDeviceToHost));
      right = right && (step.ceiling || equal(*own.outputs[i], result.data()));
    }
    std::printf("%s\n", right ? "" : "  WRONG");
    wrong = wrong || !right;
  }
  return wrong ? 1 : 0;
}

}  // namespace ado::cuda

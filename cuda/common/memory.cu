// Device memory and blocking copies.
#include "common/launch.cuh"
#include "core/error.hpp"
#include "runtime/device.hpp"

#ifdef __CUDACC__

namespace ado::cuda {

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t status = cudaMallocAsync(&data, bytes, nullptr);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    ADO_CUDA(cudaMemGetInfo(&free, &total));
    throw OutOfDeviceMemory(bytes, free);
  }
  if (status != cudaSuccess) throw_error(status, "cudaMallocAsync(...)", __FILE__, __LINE__);
  data_ = static_cast<std::byte*>(data);
}

Buffer::~Buffer() {
  if (data_ != nullptr) cudaFreeAsync(data_, nullptr);
}

void copy_to_device(std::byte* device, const void* host, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

void copy_to_host(void* host, const std::byte* device, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

void fill(std::byte* device, unsigned char value, std::size_t bytes) {
  if (bytes != 0) ADO_CUDA(cudaMemset(device, value, bytes));
}

void synchronize() {
  require();
  ADO_CUDA(cudaDeviceSynchronize());
}

}  // namespace ado::cuda

#endif

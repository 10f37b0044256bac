// Devices by name: "cpu", "cuda", "cuda:1", "emulator"; the default device.
#pragma once

#include <string>
#include <string_view>

#include "core/variant.hpp"
#include "device/stream.hpp"

namespace ado {

// A device: the CPU or one GPU.
struct DeviceId {
  Device kind = Device::kCpu;
  int ordinal = 0;  // CUDA's number of a GPU; kAnyGpu: not determined

  static constexpr int kAnyGpu = -1;

  bool determined() const { return kind == Device::kCpu || ordinal != kAnyGpu; }
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

inline constexpr DeviceId kHost{};

constexpr DeviceId gpu(int ordinal) { return {Device::kCuda, ordinal}; }

inline constexpr DeviceId kEmulator = gpu(cuda::kEmulatedGpu);

// "cpu" or "cuda".
const char* name_of(Device device);
// "cpu", "cuda:1", "emulator", or "cuda" if the GPU is not determined.
std::string name_of(const DeviceId& device);
// Throws ValueError if the name is malformed. Does not check whether the device exists.
DeviceId device_named(std::string_view name);

// The GPU if there is one, otherwise the CPU. The first call starts the CUDA driver. Child
// processes that are forked afterwards cannot use CUDA, not even from other libraries. So call this
// function only if the result is needed.
//
// If set_default_device has set no ordinal, the ordinal is kAnyGpu: calls use the current GPU of
// the calling thread.
DeviceId default_device();
void set_default_device(const DeviceId& device);  // throws Unavailable

// Returns true if resolve_gpu returns the emulated GPU.
bool is_emulated(const DeviceId& wanted);
// Returns the GPU to use for a request: `wanted` itself if it is determined, otherwise the GPU of
// set_default_device, otherwise the current GPU of the calling thread. Throws Unavailable if it
// does not exist.
DeviceId resolve_gpu(const DeviceId& wanted);

}  // namespace ado

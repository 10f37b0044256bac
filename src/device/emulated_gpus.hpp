// The GPU that is emulated: its properties, and the limits of its compute capability.
#pragma once

#include <map>
#include <string>

#include "device/device.hpp"

namespace ado::cuda::emulated {

struct GpuModel {
  Properties properties;
  int blocks_per_multiprocessor = 0;
  int reserved_shared_bytes = 0;  // per block
};

// A GPU: its short name, and changed values of properties, which have the names in Python's
// cuda_properties().
struct GpuChoice {
  std::string name = "H200";
  std::map<std::string, double> changes = {};
  auto operator<=>(const GpuChoice&) const = default;
};

// Chooses the GPU of later calls. Throws ValueError for an unknown name or property, and for a
// compute capability without known limits.
void choose_gpu(const GpuChoice& choice);
GpuChoice chosen_gpu();
// The chosen GPU. The object is never changed or destroyed.
const GpuModel& gpu_model();

}  // namespace ado::cuda::emulated

#include "runtime/settings.hpp"

#include <optional>

#include "core/error.hpp"
#include "runtime/device.hpp"
#include "runtime/host.hpp"

namespace ado {
namespace {

std::optional<Device> chosen_device;

Isa& current_isa() {
  static Isa current = host::supported_isa();
  return current;
}

}  // namespace

const char* name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

Device device_named(const std::string& name) {
  if (name == "cpu") return Device::kCpu;
  if (name == "cuda") return Device::kCuda;
  throw ValueError("device must be 'cpu' or 'cuda', got '" + name + "'");
}

Device default_device() {
  if (!chosen_device)
    chosen_device = cuda::why_unavailable().empty() ? Device::kCuda : Device::kCpu;
  return *chosen_device;
}

void set_default_device(Device device) {
  if (device == Device::kCuda) cuda::require();
  chosen_device = device;
}

Isa isa() { return current_isa(); }
void set_isa(Isa isa) { current_isa() = isa; }

}  // namespace ado

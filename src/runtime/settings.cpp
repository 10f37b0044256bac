#include "runtime/settings.hpp"

#include <atomic>

#include "core/error.hpp"
#include "runtime/device.hpp"
#include "runtime/host.hpp"

namespace ado {
namespace {

// Both are read without the GIL. The device is -1 until it is chosen.
std::atomic<int> chosen_device = -1;

std::atomic<Isa>& current_isa() {
  static std::atomic<Isa> current = host::supported_isa();
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
  if (chosen_device < 0)
    chosen_device =
        static_cast<int>(cuda::why_unavailable().empty() ? Device::kCuda : Device::kCpu);
  return static_cast<Device>(chosen_device.load());
}

void set_default_device(Device device) {
  if (device == Device::kCuda) cuda::require();
  chosen_device = static_cast<int>(device);
}

Isa isa() { return current_isa(); }
void set_isa(Isa isa) { current_isa() = isa; }

}  // namespace ado

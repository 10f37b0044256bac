#include "runtime/settings.hpp"

#include <atomic>

#include "device/device.hpp"
#include "runtime/host.hpp"

namespace ado {
namespace {

// Both variables are read without the GIL.
constexpr DeviceId kNotChosen = gpu(-2);
std::atomic<DeviceId> chosen_device = kNotChosen;

std::atomic<Isa>& current_isa() {
  static std::atomic<Isa> current = host::supported_isa();
  return current;
}

}  // namespace

DeviceId default_device() {
  DeviceId chosen = chosen_device.load();
  if (chosen != kNotChosen) return chosen;
  const DeviceId found = cuda::why_unavailable().empty() ? gpu(DeviceId::kAnyGpu) : kHost;
  // Another thread may choose a device meanwhile.
  while (chosen == kNotChosen)
    if (chosen_device.compare_exchange_weak(chosen, found)) return found;
  return chosen;
}

void set_default_device(const DeviceId& device) {
  if (device.kind == Device::kCuda) {
    cuda::require();
    if (device.determined()) resolve_gpu(device);
  }
  chosen_device = device;
}

Isa isa() { return current_isa(); }
void set_isa(Isa isa) { current_isa() = isa; }

}  // namespace ado

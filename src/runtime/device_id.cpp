#include "runtime/device_id.hpp"

#include <atomic>
#include <charconv>

#include "core/error.hpp"
#include "device/device.hpp"

namespace ado {
namespace {

// Atomic, because calls read it without the GIL.
constexpr DeviceId kNotChosen = gpu(-2);
std::atomic<DeviceId> chosen_device = kNotChosen;

}  // namespace

const char* name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

std::string name_of(const DeviceId& device) {
  std::string name = name_of(device.kind);
  if (device == kEmulator) return "emulator";
  if (device.kind == Device::kCuda && device.determined())
    name += ":" + std::to_string(device.ordinal);
  return name;
}

DeviceId device_named(std::string_view name) {
  if (name == "cpu") return kHost;
  if (name == "cuda") return gpu(DeviceId::kAnyGpu);
  if (name == "emulator") return kEmulator;
  constexpr std::string_view kPrefix = "cuda:";
  if (name.starts_with(kPrefix)) {
    const char *first = name.data() + kPrefix.size(), *last = name.data() + name.size();
    int ordinal = 0;
    const auto [end, error] = std::from_chars(first, last, ordinal);
    if (error == std::errc() && end == last && ordinal >= 0 && *first != '-' &&
        gpu(ordinal) != kEmulator)
      return gpu(ordinal);
  }
  throw ValueError("device must be 'cpu', 'cuda', 'cuda:N' or 'emulator', got '" + std::string(name) + "'");
}

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
  if (device.kind == Device::kCuda && device != kEmulator) {
    cuda::require();
    if (device.determined()) resolve_gpu(device);
  }
  chosen_device = device;
}

bool is_emulated(const DeviceId& wanted) {
  return wanted == kEmulator ||
         (wanted == gpu(DeviceId::kAnyGpu) && default_device() == kEmulator);
}

DeviceId resolve_gpu(const DeviceId& wanted) {
  if (is_emulated(wanted)) return kEmulator;
  cuda::require();
  DeviceId device = wanted.kind == Device::kCuda ? wanted : gpu(DeviceId::kAnyGpu);
  if (!device.determined()) {
    const DeviceId chosen = default_device();
    if (chosen.kind == Device::kCuda) device = chosen;
  }
  if (!device.determined()) return gpu(cuda::current_device());
  if (const int count = cuda::device_count(); device.ordinal >= count)
    throw Unavailable("device " + name_of(device) + " does not exist; this process sees " +
                      (count == 1 ? "one GPU, cuda:0"
                                  : std::to_string(count) +
                                        " GPUs, cuda:0 to cuda:" + std::to_string(count - 1)));
  return device;
}

}  // namespace ado

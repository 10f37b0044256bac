// Objects of which each GPU has one: properties, library handles, timers, pinned memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "runtime/device.hpp"

namespace ado::cuda {

// One object per GPU, created on first use. It is never destroyed, because the driver may already
// be unloaded at the end of the process.
template <class T>
class PerDevice {
 public:
  // Returns the object of the current device. `make` creates it while that device is current.
  template <class Make>
  T& current(Make make) {
    std::atomic<T*>& slot = slots_.at(static_cast<std::size_t>(current_device()));
    if (T* const known = slot.load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(mutex_);
    if (T* const known = slot.load(std::memory_order_acquire)) return *known;
    T* const made = new T(make());
    slot.store(made, std::memory_order_release);
    return *made;
  }

 private:
  static constexpr std::size_t kMaxDevices = 256;

  std::mutex mutex_;
  std::array<std::atomic<T*>, kMaxDevices> slots_{};
};

}  // namespace ado::cuda

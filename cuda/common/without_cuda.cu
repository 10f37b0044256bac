// The interface to CUDA in a build without a CUDA compiler: every function throws Unavailable.
#ifndef __CUDACC__

#include "core/error.hpp"
#include "runtime/device.hpp"

namespace ado::cuda {

const std::string& why_unavailable() {
  static const std::string reason = "built without CUDA";
  return reason;
}

const Properties& properties() { throw Unavailable(why_unavailable()); }
Buffer::Buffer(std::size_t) { require(); }
Buffer::~Buffer() = default;
void copy_to_device(std::byte*, const void*, std::size_t) { require(); }
void copy_to_host(void*, const std::byte*, std::size_t) { require(); }
void fill(std::byte*, unsigned char, std::size_t) { require(); }
void synchronize() { require(); }
Sample sample(const std::function<void()>&, bool, int, void*) {
  throw Unavailable(why_unavailable());
}

}  // namespace ado::cuda

#endif

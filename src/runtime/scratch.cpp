#include "runtime/scratch.hpp"

#include <new>

namespace ado {
namespace {

constexpr std::align_val_t kAlign{64};

thread_local HostMemory buffer;
thread_local bool buffer_in_use = false;

}  // namespace

void FreeHostMemory::operator()(std::byte* data) const { ::operator delete(data, kAlign); }

HostMemory allocate_host_memory(std::size_t bytes) {
  return HostMemory(static_cast<std::byte*>(::operator new(bytes, kAlign)));
}

HostScratch::HostScratch(std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kBufferBytes || buffer_in_use) {
    own_ = allocate_host_memory(bytes);
    data_ = own_.get();
    return;
  }
  if (buffer == nullptr) buffer = allocate_host_memory(kBufferBytes);
  data_ = buffer.get();
  buffer_in_use = true;
}

HostScratch::~HostScratch() {
  if (data_ != nullptr && own_ == nullptr) buffer_in_use = false;
}

}  // namespace ado

#include "runtime/scratch.hpp"

#include <memory>
#include <new>

namespace ado {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::align_val_t kAlign{64};

struct Delete {
  void operator()(std::byte* data) const { ::operator delete(data, kAlign); }
};
using Memory = std::unique_ptr<std::byte, Delete>;

Memory allocate(std::size_t bytes) {
  return Memory(static_cast<std::byte*>(::operator new(bytes, kAlign)));
}

thread_local Memory buffer;
thread_local bool in_use = false;

}  // namespace

HostScratch::HostScratch(std::size_t bytes) {
  if (bytes == 0) return;
  shared_ = bytes <= kBufferBytes && !in_use;
  if (shared_ && buffer == nullptr) buffer = allocate(kBufferBytes);
  data_ = shared_ ? buffer.get() : allocate(bytes).release();
  if (shared_) in_use = true;
}

HostScratch::~HostScratch() {
  if (shared_)
    in_use = false;
  else
    Delete()(data_);
}

}  // namespace ado

// Scratch memory of CPU variants, aligned to cache lines. It is not initialised, because a variant
// writes its scratch memory before it reads it.
#pragma once

#include <cstddef>
#include <memory>

namespace ado {

struct FreeHostMemory {
  void operator()(std::byte* data) const;
};
using HostMemory = std::unique_ptr<std::byte, FreeHostMemory>;
HostMemory allocate_host_memory(std::size_t bytes);  // throws std::bad_alloc

// The scratch memory of one call. Scratch memory of at most kBufferBytes is a buffer that
// is allocated once per calling thread, unless another call of the thread uses it.
class HostScratch {
 public:
  static constexpr std::size_t kBufferBytes = 1 << 20;

  explicit HostScratch(std::size_t bytes);  // 0: none. Throws std::bad_alloc.
  ~HostScratch();
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  HostMemory own_;  // empty if data_ is the buffer of the thread
};

}  // namespace ado

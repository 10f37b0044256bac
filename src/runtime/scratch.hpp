// Scratch memory of one call on the CPU. It is not initialised, because a variant writes its
// scratch memory before it reads it.
#pragma once

#include <cstddef>

namespace ado {

// Small scratch memory is a buffer of the calling thread, which is allocated once.
class HostScratch {
 public:
  explicit HostScratch(std::size_t bytes);  // 0: none. Throws std::bad_alloc.
  ~HostScratch();
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  bool shared_ = false;  // data_ is the buffer of the thread
};

}  // namespace ado

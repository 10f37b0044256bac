// Copies with non-temporal stores, for results that are larger than the caches.
#include <cstddef>
#include <cstdint>

#include "core/streaming.hpp"

namespace ado::ADO_ISA {

void stream_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  stream(to, from, bytes);
}

}  // namespace ado::ADO_ISA

#include "runtime/device.hpp"

#include "core/error.hpp"

namespace ado::cuda {

void require() {
  if (!why_unavailable().empty()) throw Unavailable(why_unavailable());
}

}  // namespace ado::cuda

// A counter for kernels that a CUDA graph captures.
#pragma once

#include "core/variant.hpp"

namespace ado::cuda {

// If a graph captures the stream, returns a counter of the graph. It is 0 before each kernel,
// because each kernel must leave it at 0. Otherwise returns nullptr.
unsigned* counter_of_graph(const Launch& go);

}  // namespace ado::cuda

// A counter for kernels that a CUDA graph captures.
#pragma once

#include "core/variant.hpp"

namespace ado::cuda {

// If a graph captures the stream, returns a counter of the graph that is 0 before each kernel that
// leaves it 0. Otherwise returns nullptr.
unsigned* counter_of_graph(const Launch& go);

}  // namespace ado::cuda

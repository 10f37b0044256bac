// The GPP self-energy on the GPU.
#include "routines/gpp.hpp"

#include "launch.cuh"

namespace ado::cuda {

Ladder<Gpp> gpp_ladder() { return {}; }

}  // namespace ado::cuda

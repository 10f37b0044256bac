// Averages of vectors times a matrix on the GPU.
#include "routines/average_matvec.hpp"

#include "launch.cuh"

namespace ado::cuda {

Ladder<AverageMatvec> average_matvec_ladder() { return {}; }

}  // namespace ado::cuda

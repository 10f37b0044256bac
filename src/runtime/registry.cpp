// The list of all routines, one line per routine.
#include <set>
#include <stdexcept>

#include "core/error.hpp"
#include "routines/average_matvec.hpp"
#include "routines/branch.hpp"
#include "routines/ceilings.hpp"
#include "routines/component.hpp"
#include "routines/edge_detect.hpp"
#include "routines/gather.hpp"
#include "routines/gaussian_blur.hpp"
#include "routines/gpp.hpp"
#include "routines/gpp_tiles.hpp"
#include "routines/grayscale.hpp"
#include "routines/instruction_parallelism.hpp"
#include "routines/max_plus.hpp"
#include "routines/sobel.hpp"
#include "routines/strided_copy.hpp"
#include "routines/transpose.hpp"
#include "runtime/adaptor.hpp"
#include "runtime/text.hpp"

// Each line has the routine's struct and the function that returns its ladder. CPU ladders are in
// one namespace per instruction set, CUDA ladders in ado::cuda. CPU and CUDA are for routines with
// a ladder on one device only.
#define ADO_ROUTINES(BOTH, CPU, CUDA)        \
  BOTH(Ceilings, ceilings_ladder)            \
  BOTH(Transpose, transpose_ladder)          \
  BOTH(Grayscale, grayscale_ladder)          \
  BOTH(GaussianBlur, gaussian_blur_ladder)   \
  BOTH(Sobel, sobel_ladder)                  \
  BOTH(EdgeDetect, edge_detect_ladder)       \
  BOTH(AverageMatvec, average_matvec_ladder) \
  BOTH(MaxPlus, max_plus_ladder)             \
  BOTH(Gpp, gpp_ladder)                      \
  BOTH(GppTiles, gpp_tiles_ladder)           \
  BOTH(StridedCopy, strided_copy_ladder)     \
  BOTH(Gather, gather_ladder)                \
  BOTH(Component, component_ladder)          \
  BOTH(Branch, branch_ladder)                \
  BOTH(InstructionParallelism, instruction_parallelism_ladder)

namespace ado {

#define ADO_DECLARE(Struct, ladder) Ladder<Struct> ladder();
#define ADO_SKIP(Struct, ladder)
namespace baseline {
ADO_ROUTINES(ADO_DECLARE, ADO_DECLARE, ADO_SKIP)
}
#if defined(__x86_64__)
namespace avx2 {
ADO_ROUTINES(ADO_DECLARE, ADO_DECLARE, ADO_SKIP)
}
namespace avx512 {
ADO_ROUTINES(ADO_DECLARE, ADO_DECLARE, ADO_SKIP)
}
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif
namespace cuda {
ADO_ROUTINES(ADO_DECLARE, ADO_SKIP, ADO_DECLARE)
}

namespace {

// Throws if two variants of a routine have the same name: the name alone must select the device.
void require_unique_names(const Routine& routine) {
  std::set<std::string> names;
  for (const AnyVariant* variant : routine.variants())
    if (!names.insert(variant->name).second)
      throw std::logic_error(routine.name + " has two variants named " + variant->name);
}

std::vector<std::unique_ptr<Routine>> all_routines() {
  std::vector<std::unique_ptr<Routine>> list;
#define ADO_CPU_LADDERS(ladder) {baseline::ladder(), avx2::ladder(), avx512::ladder()}
#define ADO_ADD(Struct, ladder) \
  list.push_back(RoutineBuilder<Struct>::build(ADO_CPU_LADDERS(ladder), cuda::ladder()));
#define ADO_ADD_CPU(Struct, ladder) \
  list.push_back(RoutineBuilder<Struct>::build(ADO_CPU_LADDERS(ladder), {}));
#define ADO_ADD_CUDA(Struct, ladder) \
  list.push_back(RoutineBuilder<Struct>::build({}, cuda::ladder()));
  ADO_ROUTINES(ADO_ADD, ADO_ADD_CPU, ADO_ADD_CUDA)
  for (const auto& routine : list) require_unique_names(*routine);
  return list;
}

}  // namespace

const std::vector<std::unique_ptr<Routine>>& routines() {
  static const auto* const all = new std::vector<std::unique_ptr<Routine>>(all_routines());
  return *all;
}

const Routine& routine(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& candidate : routines()) {
    if (candidate->name == name) return *candidate;
    names.push_back(candidate->name);
  }
  throw NameError("no routine '" + name + "'" + suggest(name, names));
}

}  // namespace ado

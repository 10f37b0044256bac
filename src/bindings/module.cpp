// The extension module.
#include "bindings/bind.hpp"

PYBIND11_MODULE(_core, m) {
  using namespace ado::bindings;
  m.doc() = "The C++ core of adokernels.";
  bind_errors(m);
  bind_arrays(m);
  bind_block_copies(m);
  bind_variants(m);
  bind_routines(m);
  bind_machine(m);
  bind_source_kernels(m);
  bind_profiler(m);
}

// Packs the arrays of a device problem if kernels cannot access them in place.
#include <algorithm>
#include <memory>

#include "runtime/call.hpp"

namespace ado {

PackedProblem::PackedProblem(const Problem& problem, const cuda::Stream& stream)
    : original_(problem), stream_(stream) {
  const auto takes = [&](const Array* array) { return problem.takes_in_place(*array); };
  if (std::all_of(problem.inputs.begin(), problem.inputs.end(), takes) &&
      std::all_of(problem.outputs.begin(), problem.outputs.end(), takes))
    return;
  packed_ = problem.clone();
  packed_->move_arrays(problem.memory, [&](const Array& array) -> std::byte* {
    if (problem.takes_in_place(array)) return nullptr;
    const auto bytes = static_cast<std::size_t>(array.bytes());
    buffers_.push_back(std::make_unique<cuda::Buffer>(bytes, stream));
    return buffers_.back()->data();
  });
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (!takes(problem.inputs[i]))
      cuda::copy_strided(*packed_->inputs[i], *problem.inputs[i], stream);
}

void PackedProblem::store() const {
  if (!packed_) return;
  for (std::size_t i = 0; i < original_.outputs.size(); ++i)
    if (!original_.takes_in_place(*original_.outputs[i]))
      cuda::copy_strided(*original_.outputs[i], *packed_->outputs[i], stream_);
}

}  // namespace ado

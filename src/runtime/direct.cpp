#include "runtime/direct.hpp"

#include <vector>

#include "core/scope_exit.hpp"
#include "core/thread.hpp"
#include "runtime/scratch.hpp"

namespace ado {

DirectProblem::DirectProblem(const Routine& routine)
    : routine_(routine), problem_(routine.new_problem()), lengths_(routine.lengths) {}

DirectProblem& DirectProblem::of(const Routine& routine) {
  thread_local std::vector<std::unique_ptr<DirectProblem>> problems;
  for (const auto& problem : problems)
    if (&problem->routine_ == &routine) return *problem;
  problems.push_back(std::unique_ptr<DirectProblem>(new DirectProblem(routine)));
  return *problems.back();
}

void DirectProblem::begin() { lengths_ = Lengths(routine_.lengths); }

bool DirectProblem::bind_input(std::size_t i, const Array& view) {
  const OperandInfo& info = routine_.inputs[i];
  const bool accepted =
      info.same_as >= 0
          ? view.type == problem_->inputs[static_cast<std::size_t>(info.same_as)]->type
      : info.type.accepts != nullptr ? info.type.accepts(view.type)
                                     : view.type == info.type.fixed;
  if (!accepted || !lengths_.fits(info.name, info.shape, view)) return false;
  *problem_->inputs[i] = view;
  if (i + 1 < routine_.inputs.size()) return true;
  if (problem_->why_not() != nullptr) return false;
  routine_.set_result_length(lengths_, *problem_);
  return true;
}

bool DirectProblem::bind_output(std::size_t i, const Array& view, bool given) {
  *problem_->outputs[i] = view;
  if (!given) return true;
  const OperandInfo& info = routine_.outputs[i];
  const ElementType type = info.same_as < 0
                               ? info.type.fixed
                               : problem_->inputs[static_cast<std::size_t>(info.same_as)]->type;
  // The test whether strided elements share memory is too slow for this path.
  if (view.type != type || !view.packed() || !lengths_.fits(info.name, info.shape, view))
    return false;
  for (const Array* input : problem_->inputs)
    if (extents_overlap(*input, view)) return false;
  for (std::size_t j = 0; j < i; ++j)
    if (extents_overlap(*problem_->outputs[j], view)) return false;
  return true;
}

bool DirectProblem::check() const { return problem_->why_not() == nullptr; }

bool DirectProblem::small() const {
  constexpr double kSmall = 32 << 10;  // bytes and FLOPs; at most a few microseconds
  return problem_->compulsory_bytes() + problem_->useful_flops() < kSmall;
}

void DirectProblem::run() {
  running_ = true;
  const ScopeExit stopped([this] { running_ = false; });
  problem_->check_values({routine_.name});
  if (problem_->result_elements() == 0) return;
  const AnyVariant& variant = routine_.best(*problem_, Device::kCpu);
  const HostScratch scratch(variant.scratch_bytes(*problem_));
  Launch launch;
  launch.scratch = scratch.data();
  with_large_stack([&] { variant.run(*problem_, launch); });
}

}  // namespace ado

// Pipelines: variants that run variants of other ladders as their stages.
//
// A pipeline names its stages by routine and variant (Variant::stages). The kernels are in other
// translation units, so the compiler cannot check the names. check_stage checks them when the
// pipeline's ladder is built. If a name does not exist, the import of the module fails.
#pragma once

#include <cstring>

#include "core/variant.hpp"

namespace ado {

// Throws std::logic_error: "<routine>[<pipeline>]: its stage <routine>[<variant>] <problem>".
[[noreturn]] void throw_bad_stage(const char* routine, const char* pipeline, const Stage& stage,
                                  const char* problem);

// The variant of a ladder with this name, or nullptr.
template <class Routine>
ADO_INLINE const Variant<Routine>* find_variant(const Ladder<Routine>& ladder, const char* name) {
  for (const Variant<Routine>& variant : ladder)
    if (std::strcmp(variant.name, name) == 0) return &variant;
  return nullptr;
}

// Throws unless `stage` is a variant of `ladder`. A ceiling is not allowed, because it does not
// compute the result.
template <class Pipeline, class Routine>
ADO_INLINE void check_stage(const Variant<Pipeline>& pipeline, const Stage& stage,
                            const Ladder<Routine>& ladder) {
  const auto fail = [&](const char* problem) {
    throw_bad_stage(Pipeline::kName, pipeline.name, stage, problem);
  };
  if (stage.variant == nullptr) fail("is missing");
  if (std::strcmp(stage.routine, Routine::kName) != 0) fail("is of the wrong routine");
  const Variant<Routine>* variant = find_variant(ladder, stage.variant);
  if (variant == nullptr) fail("does not exist");
  if (variant->ceiling) fail("is a ceiling");
  if (variant->scratch_bytes) fail("needs scratch memory, which pipelines do not provide");
  if (variant->min_compute > pipeline.min_compute) fail("needs a newer device than the pipeline");
}

}  // namespace ado

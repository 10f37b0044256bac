#include "core/pipeline.hpp"

#include <stdexcept>
#include <string>

namespace ado {

void throw_bad_stage(const char* routine, const char* pipeline, const Stage& stage,
                     const char* problem) {
  const auto text = [](const char* name) { return name != nullptr ? name : "?"; };
  throw std::logic_error(std::string(routine) + "[" + pipeline + "]: its stage " +
                         text(stage.routine) + "[" + text(stage.variant) + "] " + problem);
}

}  // namespace ado

// Joins the steps of a ladder with its engine, which chooses among all of them.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/variant.hpp"

namespace ado::cuda {

// The reason why another variant is faster than `variant` (Variant::why_slower).
template <class Routine>
struct Choice {
  std::string_view variant;
  Formula<const char*(const Routine&)> why_slower;
};

template <class Routine, std::size_t kVariants, std::size_t kChoices>
std::vector<Variant<Routine>> with_engine(const Ladder<Routine>& steps,
                                          const Variant<Routine> (&engine)[kVariants],
                                          const Choice<Routine> (&choices)[kChoices]) {
  std::vector<Variant<Routine>> ladder(steps.begin(), steps.end());
  ladder.insert(ladder.end(), std::begin(engine), std::end(engine));
  for (const Choice<Routine>& choice : choices) {
    const auto chosen = std::ranges::find(ladder, choice.variant, &Variant<Routine>::name);
    if (chosen == ladder.end())
      throw std::logic_error(std::string(Routine::kName) + " has no variant " +
                             std::string(choice.variant));
    chosen->why_slower = choice.why_slower;
  }
  return ladder;
}

}  // namespace ado::cuda

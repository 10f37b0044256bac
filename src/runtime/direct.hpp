// Calls of the most common kind, without memory allocations and texts: operands in host memory,
// options with their default values, and the default variant on the CPU. Such a call of a small
// problem takes less time than its preparation in call.hpp.
//
// Nothing here throws an error about the caller's mistakes. If a function returns false, the call
// is not of this kind or not valid. The caller then takes the way of call.hpp, which reports the
// error.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/routine.hpp"

namespace ado {

class DirectProblem {
 public:
  // The problem of this routine that the calling thread uses for all its calls.
  static DirectProblem& of(const Routine& routine);

  // Call these functions in this order: begin, bind_input for every input, bind_output for every
  // output, check, run.
  void begin();
  bool bind_input(std::size_t i, const Array& view);
  // The shape and type of an output, from the inputs. The type is that of the input number
  // outputs[i].same_as, unless that is -1.
  Shape result_shape(std::size_t i) const { return lengths_.shape_of(routine_.outputs[i].shape); }
  // `given`: the caller passed the output, so shape, type and overlap are checked.
  bool bind_output(std::size_t i, const Array& view, bool given);
  bool check() const;
  // Checks the values of operands and runs. Throws ValueError for a wrong value, and
  // std::bad_alloc. Does not need the GIL.
  void run();

  // Whether a run takes so little time that it is not worth to release the GIL.
  bool small() const;

 private:
  explicit DirectProblem(const Routine& routine);

  const Routine& routine_;
  std::unique_ptr<Problem> problem_;
  Lengths lengths_;
};

}  // namespace ado

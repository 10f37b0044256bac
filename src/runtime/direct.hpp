// The fast path for the most common calls: operands in host memory, options with their default
// values, and the default variant on the CPU. It allocates no memory and formats no text. For a
// small problem, the whole call takes less time than its preparation in call.hpp.
//
// The bind functions and check() do not throw for invalid arguments. If one of them returns false,
// the call is not supported here or not valid. The caller then uses call.hpp, which reports the
// error.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/routine.hpp"

namespace ado {

class DirectProblem {
 public:
  // Returns the problem of this routine that the calling thread uses for all its calls.
  static DirectProblem& of(const Routine& routine);

  // Call these functions in this order: begin, bind_input for every input, bind_output for every
  // output, check, run.
  void begin();
  bool bind_input(std::size_t i, const Array& view);
  // Returns the shape of output i, computed from the inputs. Its type is that of input
  // outputs[i].same_as, or a fixed type if same_as is -1.
  Shape result_shape(std::size_t i) const { return lengths_.shape_of(routine_.outputs[i].shape); }
  // `given` means that the caller passed the output, so shape, type and overlap are checked.
  bool bind_output(std::size_t i, const Array& view, bool given);
  bool check() const;
  // Checks the values of operands and runs the default variant. Throws ValueError for an invalid
  // value, or std::bad_alloc. Does not need the GIL.
  void run();

  // Returns true during run(). A signal handler in Python may then make another call.
  bool running() const { return running_; }

  // Returns true if a run is too short for a release of the GIL to pay off.
  bool small() const;

 private:
  explicit DirectProblem(const Routine& routine);

  const Routine& routine_;
  std::unique_ptr<Problem> problem_;
  Lengths lengths_;
  bool running_ = false;
};

}  // namespace ado

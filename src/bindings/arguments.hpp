// The arguments of a Python call, bound to a problem.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "runtime/problem.hpp"
#include "runtime/routine.hpp"

namespace ado::bindings {

// The arguments that Python passes to a routine.
struct Given {
  PyObject* const* positional;
  std::size_t count;
  std::vector<std::pair<std::size_t, py::object>> keywords = {};  // with the result of find_keyword
  py::handle out = Py_None;     // None, an array or a tuple of arrays
  py::handle stream = Py_None;  // the stream for a call on a GPU, or None
};

// Returns the index of an operand, or the index of an option plus the number of operands.
std::optional<std::size_t> find_keyword(const Routine& routine, const py::handle& name);
// Throws the TypeError for an unknown keyword of the function `who`. The message suggests the
// keywords that the call can have: all but the first `count` operands, options, and `others`.
[[noreturn]] void refuse_keyword(const Routine& routine, const py::handle& name,
                                 const std::string& who, std::size_t count,
                                 std::span<const char* const> others = {});

// The arrays of a problem from Python. The problem owns this object.
class Arguments {
 public:
  // Returns a problem without arguments.
  static std::unique_ptr<Problem> new_problem(const Routine& routine);
  // Returns the arguments of a problem that new_problem() returned.
  static Arguments& of(const Problem& problem) {
    return *static_cast<Arguments*>(problem.owner.get());
  }
  explicit Arguments(Problem& problem);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Converts, binds and checks the arguments of a call.
  void bind(const Given& given);
  // Clears the arguments for the next call.
  void clear();

  const std::vector<PyArray>& inputs() const { return inputs_; }
  const std::vector<PyArray>& outputs() const { return outputs_; }
  // The stream of a call with device operands, or the stream that was passed.
  std::optional<std::uintptr_t> stream() const;

 private:
  // These functions and PyArray::open execute all Python code of the arguments, for example
  // __array__, __dlpack__ and __index__. This code can resize operands, so the addresses of NumPy
  // arrays are read afterwards.
  void read_inputs(const Given& given);
  void read_options(const Given& given);
  void read_outputs(const py::handle& out);
  void choose_stream();
  void bind_arrays(bool out_given);

  Problem& problem_;
  std::vector<PyArray> inputs_, outputs_;  // never resized: the problem points to the elements
  std::optional<StreamHandle> stream_;
};

}  // namespace ado::bindings

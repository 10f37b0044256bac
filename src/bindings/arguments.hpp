// One Python call: its operands, options and results bound to a routine.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "bindings/arrays.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {

class PyCall {
 public:
  // Operands by position or by name, options by name; `out` is None, an array or a tuple of arrays.
  // `stream`: the stream for a call on a GPU, or None.
  PyCall(const Routine& routine, const py::tuple& arguments, const py::dict& keywords,
         const py::object& out, const py::object& stream = py::none());
  PyCall(const PyCall&) = delete;
  PyCall& operator=(const PyCall&) = delete;

  BoundProblem& bound() { return bound_; }
  const BoundProblem& bound() const { return bound_; }
  py::tuple arguments() const;                          // the operands, in the routine's order
  const py::dict& options() const { return options_; }  // the options that were passed
  // (name, shape, dtype) of each operand.
  py::list operands() const;
  py::object results() const;  // the return value of a call: the result, or a tuple of results
  py::object results_on_host() const;
  py::tuple host_arguments() const;  // the operands as NumPy arrays
  // The stream of a call with device operands, or the stream that was passed.
  std::optional<std::uintptr_t> stream() const;

 private:
  // These functions and PyArray::open execute all Python code of the arguments, for example
  // __array__, __dlpack__ and __index__. This code can resize operands, so the addresses of NumPy
  // arrays are read afterwards.
  void read_inputs(const py::tuple& arguments, const py::dict& keywords);
  void read_options(const py::dict& keywords);
  void read_outputs(const py::object& out);
  void choose_stream();
  void bind_arrays(bool out_given);
  void require_unchanged() const;
  void refuse_leftovers(const py::tuple& arguments, const py::dict& keywords) const;

  BoundProblem bound_;
  std::deque<PyArray> inputs_, outputs_;  // a deque: the bound problem points to the elements
  std::optional<StreamHandle> stream_;
  py::dict options_;
};

}  // namespace ado::bindings

// One Python call: its operands, options and results bound to a routine.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {

class PyCall {
 public:
  // Operands by position or by name, options by name; `out` is None, an array or a tuple of arrays.
  PyCall(const Routine& routine, const py::tuple& arguments, const py::dict& keywords,
         const py::object& out);
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

 private:
  // The three read_ functions run all Python code of the arguments, for example __array__ and
  // __index__. This code can resize operands, so the addresses of arrays are read afterwards.
  struct Given {
    std::string who;  // the name of the operand in error messages
    py::object array;
  };
  std::vector<Given> read_inputs(const py::tuple& arguments, const py::dict& keywords) const;
  // Returns the index and the value of each option that was passed.
  std::vector<std::pair<std::size_t, OptionValue>> read_options(const py::dict& keywords) const;
  std::vector<Given> read_outputs(const py::object& out) const;  // empty if out is None
  void refuse_leftovers(const py::tuple& arguments, const py::dict& keywords) const;

  void bind_outputs(std::vector<Given> given);
  void require_unchanged() const;

  BoundProblem bound_;
  std::deque<PyArray> inputs_, outputs_;  // a deque: the bound problem points to the elements
  py::dict options_;
};

}  // namespace ado::bindings

// From Python objects to the structs of src/routines and back: one visitor that documents and one
// that marshals.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/options.hpp"
#include "core/array.hpp"
#include "core/error.hpp"
#include "core/operand.hpp"
#include "runtime/device.hpp"

namespace ado::py_binding {

namespace py = pybind11;

// Gives up the GIL. Unlike pybind11's guard it survives that Python, when it ends, takes a daemon
// thread away in the destructor (by pthread_exit, which must not unwind through a noexcept frame):
// the thread then waits for the end of the process.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;
  ~ReleaseGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* state_;
};

// An array in device memory, as Python sees it: packed, with NumPy's dtype.
struct DeviceArray {
  std::shared_ptr<cuda::Buffer> memory;
  Array view;
  py::dtype dtype;

  DeviceArray(py::dtype dtype, const Array& shape_of);
  py::array numpy() const;
};

ElementType element_type(const py::dtype& dtype);
// Throws TypeError if elements hold references to Python objects, which must not be moved as bytes.
void refuse_references(const std::string& who, const py::dtype& dtype);
// Throws ValueError if it has too many dimensions.
Array view_of(const std::string& who, const py::array& array);

// What the documentation, the stubs and the error messages know of an operand or option.
struct ParameterInfo {
  std::string name, role, doc;            // role: "input", "output" or "option"
  std::string shape = {}, elements = {};  // of an array
  bool any_elements = false;              // `elements` describes several types, else names one
  OptionType type = {};                   // of an option
  py::object default_value = py::none();  // of an option
};

class Describe {
 public:
  std::vector<ParameterInfo> parameters;

  void input(const Operand& operand, Array&) { add(operand, "input"); }
  void output(const Operand& operand, Array&) { add(operand, "output"); }
  template <class Value>
  void option(const Option& option, Value& value) {
    parameters.push_back({.name = option.name,
                          .role = "option",
                          .doc = option.doc,
                          .type = option_type<Value>(),
                          .default_value = option_to_python(value)});
  }

 private:
  void add(const Operand& operand, const char* role);
};

// Lengths that the names in shapes stand for, as the operands seen so far have fixed them.
class Lengths {
 public:
  // Checks `array` against `operand.shape` and fixes the names that are new.
  void match(const std::string& routine, const Operand& operand, const Array& array);
  // The shape of a result.
  std::vector<py::ssize_t> resolve(const Operand& operand) const;

 private:
  struct Length {
    std::string name;
    std::int64_t value;
    std::string operand;  // who fixed it
  };
  const Length* find(std::string_view name) const;
  std::vector<Length> lengths_;
  std::vector<std::int64_t> batch_;
  std::string batch_operand_;
};

// Shows every value of an operand of float64 to `holds`; throws ValueError for the first that does
// not.
struct EachValue {
  std::string routine = {};
  bool on_device = false;

  void operator()(const char* name, const Array& array, const char* rule,
                  const std::function<bool(double)>& holds) const;
};

// Fills a routine's struct from a Python call, checking every rule, and keeps alive what it views.
class Marshal {
 public:
  Marshal(std::string routine, const py::tuple& arguments, const py::dict& options, py::object out);

  void input(const Operand& operand, Array& slot);
  void output(const Operand& operand, Array& slot);
  template <class Value>
  void option(const Option& option, Value& value) {
    if (!keywords_.contains(option.name)) return;
    keywords_used_.emplace_back(option.name);
    option_from_python(routine_ + ": " + option.name, keywords_[option.name], value);
    options_[option.name] = option_to_python(value);
  }
  // After the visit: nothing may be left over, the values must suit the routine, and results may
  // not lie on top of operands unless it allows that.
  template <class Routine>
  void finish(const Routine& routine) {
    refuse_leftovers();
    refuse_shared_results();
    if constexpr (requires { routine.why_not(); })
      if (const char* reason = routine.why_not()) refuse(reason);
    if (!out_was_given_ || !overlaps()) return;
    const char* reason = "out overlaps an operand";
    if constexpr (requires { routine.why_not_overlap(); }) reason = routine.why_not_overlap();
    if (reason != nullptr) throw ValueError(routine_ + ": " + reason);
  }

  // Has the routine look at the values of its operands.
  template <class Routine>
  void examine(Routine& routine) const {
    if constexpr (requires { routine.check_values(EachValue{}); })
      routine.check_values(EachValue{routine_, on_device()});
  }

  bool on_device() const { return on_device_.value_or(false); }
  // What the call returns: the result, or a tuple of them.
  py::object results() const;

  struct Held {
    std::string name;
    py::object object;  // a py::array or a DeviceArray
    py::dtype dtype;
    Array view;
  };
  const std::vector<Held>& inputs() const { return inputs_; }
  const std::vector<Held>& outputs() const { return outputs_; }
  const py::dict& options() const { return options_; }  // those given, as the routine reads them

  static std::string type_name(const py::handle& object);

 private:
  const Held& hold(std::vector<Held>& where, const Operand& operand, const py::object& value);
  void check_type(const Operand& operand, const Held& held) const;
  py::object as_array(const Operand& operand, py::object value) const;
  void check_residence(const Operand& operand, bool on_device);
  py::object allocate(const Operand& operand);
  void refuse_leftovers() const;
  // With the value found, if the reason begins with the name of an option that was given.
  [[noreturn]] void refuse(const std::string& reason) const;
  void refuse_shared_results() const;
  bool overlaps() const;

  std::string routine_;
  py::tuple arguments_;
  py::dict keywords_, options_;
  py::object out_;
  bool out_was_given_;
  std::vector<std::string> keywords_used_;
  std::optional<bool> on_device_;
  Lengths lengths_;
  std::vector<Held> inputs_, outputs_;
};

}  // namespace ado::py_binding

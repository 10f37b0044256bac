// The fast path for calls of a routine with NumPy arrays: ado.transpose(a), also with out= or
// device="cpu". It executes no Python code and uses runtime/direct.hpp. All other calls and all
// invalid calls are passed to the method `_general_call` of the Python class.
#include "bindings/direct_call.hpp"

#include <pybind11/numpy.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/gil.hpp"
#include "runtime/direct.hpp"
#include "runtime/settings.hpp"

namespace ado::bindings {
namespace {

struct DirectCall {
  PyObject_HEAD;
  vectorcallfunc call;
  const Routine* routine;
};

// Interned names. They are compared by address, because Python interns names in source code.
PyObject *name_out, *name_device, *name_general_call;

// The keyword arguments of a direct call.
struct Keywords {
  PyObject* out = nullptr;  // borrowed
  bool on_cpu = false;      // device="cpu"
};

bool read_keywords(PyObject* names, PyObject* const* values, Keywords& keywords) {
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *const name = PyTuple_GET_ITEM(names, i), *const value = values[i];
    if (value == Py_None) {
      if (name != name_out && name != name_device) return false;
    } else if (name == name_out) {
      keywords.out = value;
    } else if (name == name_device && PyUnicode_Check(value) &&
               PyUnicode_CompareWithASCIIString(value, "cpu") == 0) {
      keywords.on_cpu = true;
    } else {
      return false;
    }
  }
  return true;
}

// Sets `view` to the elements of a NumPy array. Returns false if the array is not supported, and
// for any other object, including arrays of a subclass.
bool view_of(PyObject* object, Array& view) {
  if (Py_TYPE(object) != py::detail::npy_api::get().PyArray_Type_) return false;
  const auto* const array = py::detail::array_proxy(object);
  if (array->nd > kMaxRank) return false;
  const auto dtype = py::reinterpret_borrow<py::dtype>(array->descr);
  if (has_references(dtype)) return false;
  view.data = reinterpret_cast<std::byte*>(array->data);
  view.type = element_type(dtype);
  view.rank = array->nd;
  std::copy(array->dimensions, array->dimensions + view.rank, view.shape);
  std::copy(array->strides, array->strides + view.rank, view.stride);
  return true;
}

// Returns the dtype of this type. dtypes are cached, because NumPy parses their names.
py::object dtype_of(const ElementType& type) {
  static auto* const known = new std::vector<std::pair<ElementType, py::dtype>>;
  for (const auto& [kept, dtype] : *known)
    if (kept == type) return dtype;
  known->emplace_back(type, numpy_dtype(type));
  return known->back().second;
}

// Returns a new array for output i. If an input must have the same type, its dtype is used.
py::object new_result(const DirectProblem& problem, const OperandInfo& info, std::size_t i,
                      PyObject* const* inputs) {
  const auto& numpy = py::detail::npy_api::get();
  const Shape shape = problem.result_shape(i);
  Py_intptr_t lengths[kMaxRank];
  std::copy(shape.lengths, shape.lengths + shape.rank, lengths);
  py::object dtype =
      info.same_as >= 0
          ? py::reinterpret_borrow<py::object>(py::detail::array_proxy(inputs[info.same_as])->descr)
          : dtype_of(info.type.fixed);
  // PyArray_NewFromDescr steals the reference to the dtype.
  PyObject* const array =
      numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, dtype.release().ptr(), shape.rank, lengths,
                                  nullptr, nullptr, 0, nullptr);
  if (array == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(array);
}

// Returns the results, or an empty object if the call is not direct or not valid.
py::object call_directly(const Routine& routine, PyObject* const* arguments, std::size_t count,
                         PyObject* names) {
  Keywords keywords;
  if (count != routine.inputs.size() || !read_keywords(names, arguments + count, keywords))
    return {};
  const bool given = keywords.out != nullptr;
  const std::size_t results = routine.outputs.size();
  constexpr std::size_t kMaxResults = 4;
  if (results > (given ? 1 : kMaxResults)) return {};
  DirectProblem& problem = DirectProblem::of(routine);
  if (problem.running()) return {};
  problem.begin();
  for (std::size_t i = 0; i < count; ++i) {
    Array view;
    if (!view_of(arguments[i], view) || !problem.bind_input(i, view)) return {};
    // dtypes of equal kind and size may still differ, for example in their units.
    const int same_as = routine.inputs[i].same_as;
    if (same_as >= 0 && py::detail::array_proxy(arguments[i])->descr !=
                            py::detail::array_proxy(arguments[same_as])->descr)
      return {};
  }
  if (!keywords.on_cpu && default_device() != kHost) return {};
  py::object outputs[kMaxResults];
  for (std::size_t i = 0; i < results; ++i) {
    const OperandInfo& info = routine.outputs[i];
    outputs[i] = given ? py::reinterpret_borrow<py::object>(keywords.out)
                       : new_result(problem, info, i, arguments);
    Array view;
    if (!view_of(outputs[i].ptr(), view) || !problem.bind_output(i, view, given)) return {};
    if (!given) continue;
    const auto* const array = py::detail::array_proxy(outputs[i].ptr());
    if ((array->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_) == 0) return {};
    if (info.same_as >= 0 &&
        array->descr != py::detail::array_proxy(arguments[info.same_as])->descr)
      return {};
  }
  if (!problem.check()) return {};
  if (problem.small()) {
    problem.run();
  } else {
    without_gil([&] { problem.run(); });
  }
  if (results == 1) return std::move(outputs[0]);
  py::tuple all(results);
  for (std::size_t i = 0; i < results; ++i) all[i] = std::move(outputs[i]);
  return all;
}

PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
               PyObject* names) {
  const Routine* const routine = reinterpret_cast<DirectCall*>(self)->routine;
  const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flagged_count));
  try {
    if (py::object results = call_directly(*routine, arguments, count, names))
      return results.release().ptr();
  } catch (py::error_already_set& error) {  // for example, KeyboardInterrupt
    error.restore();
    return nullptr;
  } catch (const std::exception&) {
    // If there was no memory for error_already_set, Python's exception is still set.
    if (PyErr_Occurred() != nullptr) return nullptr;
    // The general call fails too. It reports the error with its context.
  }
  const auto method = py::reinterpret_steal<py::object>(PyObject_GetAttr(self, name_general_call));
  if (!method) return nullptr;
  return PyObject_Vectorcall(method.ptr(), arguments, count, names);
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  const bool single = PyTuple_GET_SIZE(arguments) == 1 && keywords == nullptr;
  const py::handle core = single ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
  if (!core || !py::isinstance<Routine>(core)) {
    PyErr_Format(PyExc_TypeError, "%s() requires one argument, a _core.Routine", type->tp_name);
    return nullptr;
  }
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* const direct = reinterpret_cast<DirectCall*>(self);
  direct->call = call;
  direct->routine = core.cast<const Routine*>();
  return self;
}

}  // namespace

void bind_direct_call(py::module_& m) {
  // pybind11 loads NumPy's table of functions at its first use, and releases the GIL meanwhile. If
  // Python exits at that moment, the destructor that acquires the GIL again aborts the process.
  // Load the table here, before a daemon thread can make a call.
  py::detail::npy_api::get();
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(DirectCall, call), READONLY, nullptr}, {}};
  static PyType_Slot slots[] = {
      {Py_tp_doc,
       const_cast<char*>("Base class of routines. Its instances are callable; all but the most "
                         "common calls are passed to the method _general_call.")},
      {Py_tp_new, reinterpret_cast<void*>(make)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_members, members},
      {}};
  static PyType_Spec spec = {
      .name = "adokernels._core.DirectCall",
      .basicsize = sizeof(DirectCall),
      .itemsize = 0,
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
      .slots = slots};
  name_out = PyUnicode_InternFromString("out");
  name_device = PyUnicode_InternFromString("device");
  name_general_call = PyUnicode_InternFromString("_general_call");
  m.add_object("DirectCall", py::reinterpret_steal<py::object>(PyType_FromSpec(&spec)));
}

}  // namespace ado::bindings

// Calls of routines and variants: ado.transpose(a), ado.transpose["tiled"](a). They execute no
// Python code of the package, except for calls with Dask arrays and labelled arrays. A call with
// NumPy arrays allocates only its result.
#include <cxxabi.h>
#include <pybind11/pybind11.h>
// after Python.h:
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/options.hpp"
#include "core/error.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {
namespace {

// The Python class: a base class of routines and of variants.
struct Callable {
  PyObject_HEAD;
  vectorcallfunc call;
  const Routine* routine;
  const char* variant;  // nullptr for a routine
};

enum Keyword : std::size_t { kVariant, kBlock, kDevice, kOut, kStream, kKeywords };
constexpr const char* kNames[] = {"variant", "block", "device", "out", "stream"};
PyObject* names_of_keywords[kKeywords];  // interned
PyObject *dask_array, *lazy_call;

// Returns the number of a keyword, or kKeywords.
std::size_t keyword_named(PyObject* name) {
  std::size_t keyword = 0;
  while (keyword < kKeywords && names_of_keywords[keyword] != name) ++keyword;
  if (keyword < kKeywords) return keyword;
  // Python interns names in source code. Other names are compared by their text.
  for (keyword = 0; keyword < kKeywords; ++keyword)
    if (PyUnicode_Compare(name, names_of_keywords[keyword]) == 0) break;
  return keyword;
}

bool is_plain(PyObject* value) {
  return Py_TYPE(value) == py::detail::npy_api::get().PyArray_Type_;
}

// Returns true if the class has the name of a class of xarray or pandas with labelled axes. Python
// code decides whether it is one of them.
bool may_be_labelled(PyObject* value) {
  constexpr std::string_view kNamesOfClasses[] = {"DataArray", "DataFrame", "Series"};
  const std::string_view name = Py_TYPE(value)->tp_name;
  return std::find(std::begin(kNamesOfClasses), std::end(kNamesOfClasses), name) !=
         std::end(kNamesOfClasses);
}

// Returns true if an argument is a Dask array or may be labelled. There is no Dask array unless
// Dask is loaded.
bool has_container(PyObject* const* values, std::size_t count) {
  py::object type;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_plain(values[i])) continue;
    if (may_be_labelled(values[i])) return true;
    if (!type) {
      const auto module = py::reinterpret_steal<py::object>(PyImport_GetModule(dask_array));
      if (!module && PyErr_Occurred() != nullptr) throw py::error_already_set();
      // Another thread may be importing the module, so the class may not exist yet.
      type = module ? py::getattr(module, "Array", py::tuple()) : py::tuple();
    }
    if (py::isinstance(values[i], type)) return true;
  }
  return false;
}

// Converts a NumPy array to the library of the first operand that is not a NumPy array. Results
// have the type of the operands for tensors of torch and arrays of JAX in host memory.
py::object like_operands(py::object result, PyObject* const* values, std::size_t count) {
  if (!is_plain(result.ptr())) return result;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_plain(values[i])) continue;
    const auto type = foreign_type_of(py::reinterpret_borrow<py::object>(values[i]));
    if (type.protocol == Protocol::kNone) continue;
    if (type.library == Library::kTorch)
      return py::module_::import("torch").attr("from_numpy")(result);
    if (type.library == Library::kJax)
      return py::module_::import("jax.numpy").attr("asarray")(result);
  }
  return result;
}

// A problem for one call. It is reused by the next call of the same routine on the same thread. A
// Python signal handler, or Python code of an argument, can make a call during a call; it then
// gets another problem.
class Lease {
 public:
  explicit Lease(const Routine& routine) : idle_(idle()) {
    for (std::unique_ptr<Problem>& problem : idle_)
      if (&problem->routine() == &routine) {
        problem_ = std::move(problem);
        std::swap(problem, idle_.back());
        idle_.pop_back();
        return;
      }
    problem_ = Arguments::new_problem(routine);
    idle_.reserve(idle_.size() + 1);
  }
  ~Lease() {
    problem_->reset();
    Arguments::of(*problem_).clear();
    // A nested call can have filled the list. The problem is then deleted.
    if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(problem_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Problem& problem() const { return *problem_; }

 private:
  // The problems without arguments of the calling thread.
  static std::vector<std::unique_ptr<Problem>>& idle() {
    thread_local std::vector<std::unique_ptr<Problem>> list;
    return list;
  }

  std::vector<std::unique_ptr<Problem>>& idle_;
  std::unique_ptr<Problem> problem_;
};

// Returns true if a run takes a few microseconds, so that a release of the GIL does not pay off.
bool is_small(const Problem& problem) {
  constexpr double kSmall = 32 << 10;  // bytes and FLOPs
  return problem.compulsory_bytes() + problem.useful_flops() < kSmall;
}

[[noreturn]] void refuse_keyword_of_call(const Callable& self, PyObject* name, std::size_t count) {
  const std::span<const char* const> own(kNames);
  if (self.variant == nullptr) refuse_keyword(*self.routine, name, self.routine->name, count, own);
  refuse_keyword(*self.routine, name, self.routine->name + "[" + self.variant + "]", count,
                 own.subspan(kVariant + 1));
}

py::object results_of(const std::vector<PyArray>& outputs, PyObject* const* values,
                      std::size_t count) {
  if (outputs.size() == 1) return like_operands(outputs.front().object(), values, count);
  py::tuple all(outputs.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = like_operands(outputs[i].object(), values, count);
  return all;
}

py::object run_call(PyObject* object, PyObject* const* values, std::size_t count, PyObject* names) {
  const auto& self = *reinterpret_cast<const Callable*>(object);
  const Routine& routine = *self.routine;
  const auto named = static_cast<std::size_t>(names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  Given given{values, count};
  py::handle own[kKeywords] = {Py_None, Py_None, Py_None, Py_None, Py_None};
  for (std::size_t i = 0; i < named; ++i) {
    PyObject *const name = PyTuple_GET_ITEM(names, i), *const value = values[count + i];
    const std::size_t keyword = keyword_named(name);
    if (keyword == kKeywords) {
      const auto index = find_keyword(routine, name);
      if (!index) refuse_keyword_of_call(self, name, count);
      given.keywords.emplace_back(*index, py::reinterpret_borrow<py::object>(value));
    } else if (keyword == kVariant && self.variant != nullptr) {
      throw TypeError(routine.name + "['" + self.variant +
                      "'] is a variant and does not take variant=");
    } else {
      own[keyword] = value;
    }
  }
  if (has_container(values, count + named)) {
    const auto method = py::reinterpret_steal<py::object>(PyObject_GetAttr(object, lazy_call));
    if (!method) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(
        PyObject_Vectorcall(method.ptr(), values, count, names));
  }
  const AnyVariant* variant = nullptr;
  if (self.variant != nullptr)
    variant = &routine.find(self.variant);
  else if (!own[kVariant].is_none())
    variant = variant_from_python(routine, own[kVariant]);
  Block block;
  if (!own[kBlock].is_none()) block = block_from_python(own[kBlock]);
  std::optional<DeviceId> device;
  if (!own[kDevice].is_none()) device = device_from_python(own[kDevice]);
  given.out = own[kOut];
  given.stream = own[kStream];

  const Lease lease(routine);
  Problem& problem = lease.problem();
  Arguments& arguments = Arguments::of(problem);
  arguments.bind(given);
  const DeviceId where = problem.resolve_device(variant, device);
  const auto stream = arguments.stream();
  const auto work = [&] {
    problem.check_values(stream.value_or(0));
    run(problem, variant, where, block, stream);
  };
  if (where.kind == Device::kCpu && is_small(problem))
    work();
  else
    without_gil(work);
  return own[kOut].is_none() ? results_of(arguments.outputs(), values, count + named)
                             : results_of(arguments.outputs(), values, 0);
}

PyObject* call(PyObject* self, PyObject* const* values, std::size_t flagged_count,
               PyObject* names) {
  const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flagged_count));
  try {
    return run_call(self, values, count, names).release().ptr();
  } catch (py::error_already_set& error) {  // for example, KeyboardInterrupt
    error.restore();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    // If there was no memory for error_already_set, Python's exception is still set.
    if (PyErr_Occurred() == nullptr) py::detail::try_translate_exceptions();
  }
  return nullptr;
}

PyTypeObject* callable_type;

// Callable(core) makes a routine, Callable(routine, info) one of its variants.
PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  const auto given = py::reinterpret_borrow<py::tuple>(arguments);
  const Routine* routine = nullptr;
  const char* variant = nullptr;
  if (keywords == nullptr && given.size() == 1 && py::isinstance<Routine>(given[0])) {
    routine = py::object(given[0]).cast<const Routine*>();
  } else if (keywords == nullptr && given.size() == 2 &&
             PyObject_TypeCheck(py::object(given[0]).ptr(), callable_type) &&
             py::isinstance<AnyVariant>(given[1])) {
    routine = reinterpret_cast<const Callable*>(py::object(given[0]).ptr())->routine;
    variant = py::object(given[1]).cast<const AnyVariant&>().name;
  } else {
    PyErr_Format(PyExc_TypeError,
                 "%s() requires a _core.Routine, or a routine and a _core.VariantInfo",
                 type->tp_name);
    return nullptr;
  }
#if PY_VERSION_HEX < 0x030C0000
  // Later versions of Python inherit this flag, unless the class defines __call__.
  if (type->tp_call == PyVectorcall_Call) type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#endif
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* const made = reinterpret_cast<Callable*>(self);
  made->call = call;
  made->routine = routine;
  made->variant = variant;
  return self;
}

}  // namespace

void bind_calls(py::module_& m) {
  // pybind11 loads NumPy's table of functions at its first use, and releases the GIL meanwhile. If
  // Python exits at that moment, the destructor that acquires the GIL again aborts the process.
  // Load the table here, before a daemon thread can make a call.
  py::detail::npy_api::get();
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, call), READONLY, nullptr}, {}};
  static PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>(
                      "Base class of routines and variants. Their calls execute no Python code, "
                      "except calls with Dask arrays and labelled arrays: these call _lazy_call.")},
      {Py_tp_new, reinterpret_cast<void*>(make)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_members, members},
      {}};
  static PyType_Spec spec = {
      .name = "adokernels._core.Callable",
      .basicsize = sizeof(Callable),
      .itemsize = 0,
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
      .slots = slots};
  std::transform(std::begin(kNames), std::end(kNames), names_of_keywords,
                 PyUnicode_InternFromString);
  dask_array = PyUnicode_InternFromString("dask.array");
  lazy_call = PyUnicode_InternFromString("_lazy_call");
  callable_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  m.add_object("Callable", reinterpret_cast<PyObject*>(callable_type));
}

}  // namespace ado::bindings

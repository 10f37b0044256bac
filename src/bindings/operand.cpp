// Operands of calls: arrays of any library, and their use on streams.
#include <pybind11/gil_safe_call_once.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

py::module_ numpy_module() { return py::module_::import("numpy"); }

bool is_masked(const py::object& value) {
  return py::isinstance(value, numpy_module().attr("ma").attr("MaskedArray"));
}

void refuse_references(const Who& who, const Element& element) {
  if (has_references(element.dtype))
    throw TypeError(who + " must hold numbers or bytes, got references to Python objects (" +
                    element.name() + ")");
}

// Returns a Python object that keeps a tensor alive. The memory of a tensor may belong to the
// tensor only, for example if the library has exported a copy.
py::capsule owner_of(std::shared_ptr<const ManagedTensor> tensor) {
  using Owner = std::shared_ptr<const ManagedTensor>;
  auto owner = std::make_unique<Owner>(std::move(tensor));
  const py::capsule capsule(owner.get(),
                            [](void* pointer) { delete static_cast<Owner*>(pointer); });
  static_cast<void>(owner.release());  // the capsule owns it
  return capsule;
}

// Tensors and objects that are kept alive after a call has returned, because its work on a stream
// still uses them. Later calls release them. The list is never freed.
struct Kept {
  std::shared_ptr<cuda::Event> end;
  py::object object;
  std::shared_ptr<const ManagedTensor> tensor;
};
std::vector<Kept>& kept() {
  static auto* const list = new std::vector<Kept>;
  return *list;
}

}  // namespace

void release_finished() {
  auto& list = kept();
  if (list.empty()) return;
  // The deleters may execute Python code that calls this function, so they run last.
  const auto middle = std::partition(list.begin(), list.end(),
                                     [](const Kept& entry) { return !entry.end->done(); });
  std::vector<Kept> finished(std::make_move_iterator(middle), std::make_move_iterator(list.end()));
  list.erase(middle, list.end());
}

void PyArray::set(const Who& who, py::object object, bool output) {
  who_ = who;
  output_ = output;
  object_ = std::move(object);
  argument_.memory = kHost;
  // The most frequent types are tested first, because they need none of the other checks.
  if (Py_TYPE(object_.ptr()) == py::detail::npy_api::get().PyArray_Type_) {
    set_numpy();
  } else if (py::isinstance<DeviceArray>(object_)) {
    const auto& array = object_.cast<const DeviceArray&>();
    element_ = array.element;
    argument_.view = array.view;
    argument_.memory = gpu(array.device());
    foreign_.buffer = array.memory;
    foreign_.stream =
        StreamHandle{cuda::handle_of(array.memory->stream()), array.memory->stream_owner};
  } else if (py::isinstance<py::array>(object_)) {
    set_numpy();
  } else {
    set_foreign();
  }
}

std::byte* PyArray::make(const Who& who, const Element& element, const Array& like,
                         const DeviceId& memory, const StreamHandle& stream) {
  if (memory.kind == Device::kCuda) {
    const cuda::Stream order = cuda::stream_of(memory.ordinal, stream.handle);
    if (cuda::is_captured(order))
      throw ValueError(who +
                       " must be passed as out= while a graph captures the stream, because its "
                       "replays cannot allocate a new array");
    set(who, py::cast(DeviceArray(element, like, order, stream.owner)), true);
    return argument_.view.data;
  }
  if (element.opaque)
    throw TypeError("NumPy has no type " + element.name() +
                    " for the result; pass out=, or install the package ml_dtypes");
  // The constructor of py::array allocates memory for shape and strides, this function does not. It
  // steals the reference to the dtype.
  const auto& numpy = py::detail::npy_api::get();
  object_ = py::reinterpret_steal<py::object>(
      numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, py::object(element.dtype).release().ptr(),
                                  like.rank, like.shape, nullptr, nullptr, 0, nullptr));
  if (!object_) throw py::error_already_set();
  who_ = who;
  is_numpy_ = true;
  element_ = element;
  argument_.memory = kHost;
  return reinterpret_cast<std::byte*>(py::detail::array_proxy(object_.ptr())->data);
}

void PyArray::clear() {
  if (foreign_.end != nullptr && !foreign_.end->done())
    kept().push_back({std::move(foreign_.end), std::move(object_), std::move(foreign_.tensor)});
  if (!is_numpy_) foreign_ = {};  // otherwise, it is empty
  is_numpy_ = false;
  element_.dtype = py::dtype();
  object_ = py::object();
}

void PyArray::set_numpy() {
  const bool plain = Py_TYPE(object_.ptr()) == py::detail::npy_api::get().PyArray_Type_;
  if (!plain && is_masked(object_))
    throw TypeError(output_ ? who_ + " must be an array, got " + bindings::type_name(object_)
                            : who_ + " must not be a masked array; fill it first (.filled())");
  const auto* const array = py::detail::array_proxy(object_.ptr());
  if (output_ && (array->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_) == 0)
    throw ValueError(who_ + " must be writable, got a read-only array");
  is_numpy_ = true;
  element_ = {py::reinterpret_borrow<py::dtype>(array->descr)};
  refuse_references(who_, element_);
}

void PyArray::set_foreign() {
  foreign_.type = foreign_type_of(object_);
  if (output_ && foreign_.type.library == Library::kJax)
    throw ValueError(who_ + " must be writable, got a JAX array, which is immutable");
  if (is_lazy_view(foreign_.type, object_)) {
    call_dlpack(who_, object_, std::nullopt);  // torch rejects most of them and gives the reason
    throw TypeError(who_ + " is conjugated or negated lazily; pass .resolve_conj().resolve_neg()");
  }
  switch (foreign_.type.protocol) {
    case Protocol::kExchangeTable: {
      DLManagedTensorVersioned* tensor = nullptr;
      if (foreign_.type.table->managed_tensor_from_py_object_no_sync(object_.ptr(), &tensor) != 0)
        throw py::error_already_set();
      set_tensor(ManagedTensor(tensor));
      break;
    }
    case Protocol::kDlpack: {
      const auto [type, id] = cast_or<std::pair<int, int>>(
          object_.attr("__dlpack_device__")(),
          [&] { return who_ + ": __dlpack_device__ must return two integers"; });
      argument_.memory = device_of(who_, {static_cast<DLDeviceType>(type), id});
      foreign_.opened = false;
      break;
    }
    case Protocol::kCudaInterface: {
      CudaInterface read = read_cuda_interface(who_, object_);
      if (output_ && read.read_only)
        throw ValueError(who_ + " must be writable, got a read-only array");
      element_ = std::move(read.element);
      argument_.view = read.view;
      argument_.memory = gpu(read.device);
      foreign_.written_on = std::move(read.stream);
      break;
    }
    case Protocol::kNone:
      if (is_masked(object_))
        throw TypeError(who_ + " must not be a masked array; fill it first (.filled())");
      if (output_ || object_.is_none() || py::isinstance<py::str>(object_) ||
          py::isinstance<py::bytes>(object_))
        throw TypeError(who_ + " must be an array, got " + bindings::type_name(object_));
      return convert_to_numpy();
  }
  if (argument_.memory.kind == Device::kCuda)
    foreign_.stream = current_stream(foreign_.type, argument_.memory.ordinal);
}

void PyArray::open(const std::optional<cuda::Stream>& stream) {
  if (foreign_.opened) return;
  foreign_.opened = true;
  const bool on_device = argument_.memory.kind == Device::kCuda;
  try {
    std::optional<std::int64_t> waiting;
    // -1: no wait. before_use() waits for the current stream of a known library, and a captured
    // stream must not wait for one that is not captured.
    if (on_device && stream)
      waiting = foreign_.stream || cuda::is_captured(*stream)
                    ? -1
                    : static_cast<std::int64_t>(cuda::handle_of(*stream));
    set_tensor(call_dlpack(who_, object_, waiting));
  } catch (const py::error_already_set& error) {
    // Some libraries do not export an array with DLPack, but NumPy can convert it.
    if (on_device || output_ || !error.matches(PyExc_BufferError)) throw;
    convert_to_numpy();
  }
}

void PyArray::convert_to_numpy() {
  object_ = numpy_module().attr("asarray")(object_);
  foreign_ = {};
  set_numpy();
}

const Argument& PyArray::argument() {
  if (!is_numpy_) return argument_;
  const auto* const array = py::detail::array_proxy(object_.ptr());
  if (array->nd > kMaxRank)
    throw ValueError(who_ + " has " + std::to_string(array->nd) + " dimensions, more than " +
                     std::to_string(kMaxRank));
  if (array->descr != element_.dtype.ptr())  // Python code has set it since set() was called
    element_ = {py::reinterpret_borrow<py::dtype>(array->descr)};
  Array& view = argument_.view;
  view.data = reinterpret_cast<std::byte*>(array->data);
  view.type = element_type(element_.dtype);
  view.rank = array->nd;
  std::copy_n(array->dimensions, view.rank, view.shape);
  std::copy_n(array->strides, view.rank, view.stride);
  return argument_;
}

// Python code, for example a finaliser, can run even after argument() was called. If it has moved
// an operand, the address in the problem is invalid. The memory of other arrays belongs to a DLPack
// tensor or to a Buffer.
void PyArray::require_unchanged() const {
  if (!is_numpy_) return;
  const auto* const array = py::detail::array_proxy(object_.ptr());
  const Array& view = argument_.view;
  bool same =
      reinterpret_cast<const std::byte*>(array->data) == view.data && array->nd == view.rank;
  for (int d = 0; same && d < view.rank; ++d)
    same = array->dimensions[d] == view.shape[d] && array->strides[d] == view.stride[d];
  if (!same) throw ValueError(who_ + " must not be resized during the call");
}

void PyArray::set_tensor(ManagedTensor tensor) {
  foreign_.tensor = std::make_shared<const ManagedTensor>(std::move(tensor));
  const DLTensor& view = foreign_.tensor->tensor();
  if (output_ && foreign_.tensor->has_flag(DLPACK_FLAG_BITMASK_READ_ONLY))
    throw ValueError(who_ + " must be writable, got a read-only array");
  if (output_ && foreign_.tensor->has_flag(DLPACK_FLAG_BITMASK_IS_COPIED))
    throw ValueError(who_ + " must be exported without a copy, but its library has copied it");
  argument_.memory = device_of(who_, view.device);
  element_ = element_of(who_, view.dtype);
  argument_.view = view_of(who_, view, element_);
}

bool PyArray::same_type(const ArrayTraits& other) const {
  return element_.equal(static_cast<const PyArray&>(other).element_);
}

py::array PyArray::as_numpy() const {
  if (is_numpy_) {
    // A plain array, because NumPy calls __array_function__ of subclasses, which is Python code.
    const py::object plain = numpy_module().attr("ndarray");
    return plain.attr("view")(object_, plain).cast<py::array>();
  }
  const std::vector<py::ssize_t> shape(argument_.view.shape,
                                       argument_.view.shape + argument_.view.rank);
  const std::vector<py::ssize_t> strides(argument_.view.stride,
                                         argument_.view.stride + argument_.view.rank);
  const py::object owner =
      foreign_.tensor != nullptr ? py::object(owner_of(foreign_.tensor)) : object_;
  py::array array(element_.dtype, shape, strides, argument_.view.data, owner);
  py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

bool PyArray::shares_memory(const ArrayTraits& other) const {
  // The exact test can take exponential time, so NumPy's work is limited. If NumPy exceeds the
  // limit, the arrays count as sharing memory. NumPy only compares addresses, so it can also
  // test arrays in device memory.
  constexpr int kMaxWork = 10'000;
  try {
    return numpy_module()
        .attr("shares_memory")(as_numpy(), static_cast<const PyArray&>(other).as_numpy(), kMaxWork)
        .cast<bool>();
  } catch (const py::error_already_set&) {
    return true;
  }
}

// Follows the owners of the memory: arrays, memory views, and finally an object of mmap.mmap.
bool PyArray::may_be_mapped() const {
  if (!is_numpy_) return false;
  PyObject* owner = object_.ptr();
  while (owner != nullptr) {
    if (py::isinstance<py::array>(owner))
      owner = py::detail::array_proxy(owner)->base;
    else if (PyMemoryView_Check(owner))
      owner = PyMemoryView_GET_BASE(owner);
    else
      break;
  }
  if (owner == nullptr) return false;
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> mmap;
  const py::object& type =
      mmap.call_once_and_store_result([] { return py::module_::import("mmap").attr("mmap"); })
          .get_stored();
  return py::isinstance(owner, type);
}

py::array PyArray::numpy() const {
  if (is_numpy_) return object_.cast<py::array>();
  if (argument_.memory.kind == Device::kCpu) return as_numpy();
  if (is_device_array()) return object_.cast<const DeviceArray&>().numpy();
  py::array host(
      element_.dtype,
      std::vector<py::ssize_t>(argument_.view.shape, argument_.view.shape + argument_.view.rank));
  const cuda::Stream stream{argument_.memory.ordinal};
  for (const auto& other : {foreign_.stream, foreign_.written_on})
    if (other) cuda::wait_for(stream, cuda::stream_of(argument_.memory.ordinal, other->handle));
  const cuda::Buffer packed(static_cast<std::size_t>(argument_.view.bytes()), stream);
  cuda::copy_strided(packed_like(argument_.view, packed.data()), argument_.view, stream);
  cuda::copy_to_host(host.mutable_data(), packed.data(), packed.bytes(), stream);
  return host;
}

void PyArray::before_use(const cuda::Stream& stream, bool writes) {
  if (is_device_array()) return foreign_.buffer->before_use(stream, writes);
  for (const auto& other : {foreign_.stream, foreign_.written_on})
    if (other) cuda::wait_for(stream, cuda::stream_of(stream.device, other->handle));
}

// Called at the end of a scope, so it must not throw.
void PyArray::after_use(const cuda::Stream& stream, bool writes) {
  try {
    if (is_device_array()) return foreign_.buffer->after_use(stream, writes);
    // If the library knows the stream, it frees the memory in the order of that stream.
    const bool known =
        foreign_.stream && cuda::stream_of(stream.device, foreign_.stream->handle) == stream;
    if (argument_.memory.kind != Device::kCuda || known) return;
    const bool captured = cuda::is_captured(stream);
    const auto end = std::make_shared<cuda::Event>(stream);
    if (!captured) foreign_.end = end;  // captured work is not running
    if (!foreign_.stream || !foreign_.library_waits) return;
    const auto library = cuda::stream_of(stream.device, foreign_.stream->handle);
    if (captured == cuda::is_captured(library)) end->block(library);
  } catch (...) {
    // CUDA has failed. The next call reports it.
  }
}

}  // namespace ado::bindings

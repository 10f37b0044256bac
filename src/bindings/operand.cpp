// Operands of calls: arrays of any library, and their use on streams.
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

void refuse_references(const std::string& who, const Element& element) {
  if (has_references(element.dtype))
    throw TypeError(who + " holds references to Python objects (" + element.name() +
                    "), which cannot be copied as bytes");
}

Array view_of_ndarray(const std::string& who, const py::array& array) {
  if (array.ndim() > kMaxRank)
    throw ValueError(who + " has " + std::to_string(array.ndim()) + " dimensions, more than " +
                     std::to_string(kMaxRank));
  Array view;
  view.data = static_cast<std::byte*>(const_cast<void*>(array.data()));
  view.type = element_type(array.dtype());
  view.rank = static_cast<int>(array.ndim());
  for (int d = 0; d < view.rank; ++d) {
    view.shape[d] = array.shape(d);
    view.stride[d] = array.strides(d);
  }
  return view;
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

PyArray::PyArray(std::string who, py::object object, bool output)
    : who_(std::move(who)), output_(output), object_(std::move(object)) {
  // The most frequent types are tested first, because they need none of the other checks.
  if (Py_TYPE(object_.ptr()) == py::detail::npy_api::get().PyArray_Type_) {
    set_numpy();
  } else if (py::isinstance<DeviceArray>(object_)) {
    const auto& array = object_.cast<const DeviceArray&>();
    element_ = array.element;
    view_ = array.view;
    memory_ = gpu(array.device());
    buffer_ = array.memory;
    stream_ = StreamHandle{cuda::handle_of(buffer_->stream()), buffer_->stream_owner};
  } else if (py::isinstance<py::array>(object_)) {
    set_numpy();
  } else {
    set_foreign();
  }
}

PyArray::~PyArray() {
  if (end_ == nullptr || end_->done()) return;
  kept().push_back({std::move(end_), std::move(object_), std::move(tensor_)});
}

void PyArray::set_numpy() {
  const auto array = object_.cast<py::array>();
  if (Py_TYPE(object_.ptr()) != py::detail::npy_api::get().PyArray_Type_ && is_masked(object_))
    throw TypeError(output_ ? who_ + " must be an array, not " + bindings::type_name(object_)
                            : who_ + " is a masked array; fill it first (.filled())");
  if (output_ && !array.writeable()) throw ValueError(who_ + " is read-only");
  element_ = {array.dtype()};
  refuse_references(who_, element_);
}

void PyArray::set_foreign() {
  type_ = foreign_type_of(object_);
  if (output_ && type_.library == Library::kJax)
    throw ValueError(who_ + " is read-only: JAX arrays are immutable");
  if (is_lazy_view(type_, object_)) {
    call_dlpack(who_, object_, std::nullopt);  // torch rejects most of them and gives the reason
    throw TypeError(who_ + " is conjugated or negated lazily; pass .resolve_conj().resolve_neg()");
  }
  switch (type_.protocol) {
    case Protocol::kExchangeTable: {
      DLManagedTensorVersioned* tensor = nullptr;
      if (type_.table->managed_tensor_from_py_object_no_sync(object_.ptr(), &tensor) != 0)
        throw py::error_already_set();
      set_tensor(ManagedTensor(tensor));
      break;
    }
    case Protocol::kDlpack: {
      const auto device = object_.attr("__dlpack_device__")().cast<std::pair<int, int>>();
      memory_ = device_of(who_, {static_cast<DLDeviceType>(device.first), device.second});
      opened_ = false;
      break;
    }
    case Protocol::kCudaInterface: {
      CudaInterface read = read_cuda_interface(who_, object_);
      if (output_ && read.read_only) throw ValueError(who_ + " is read-only");
      element_ = std::move(read.element);
      view_ = read.view;
      memory_ = gpu(read.device);
      written_on_ = std::move(read.stream);
      break;
    }
    case Protocol::kNone:
      if (is_masked(object_))
        throw TypeError(who_ + " is a masked array; fill it first (.filled())");
      if (output_ || object_.is_none() || py::isinstance<py::str>(object_) ||
          py::isinstance<py::bytes>(object_))
        throw TypeError(who_ + " must be an array, not " + bindings::type_name(object_));
      object_ = numpy_module().attr("asarray")(object_);
      return set_numpy();
  }
  if (memory_.kind == Device::kCuda) stream_ = current_stream(type_, memory_.ordinal);
}

void PyArray::open(const std::optional<cuda::Stream>& stream) {
  if (opened_) return;
  opened_ = true;
  const bool on_device = memory_.kind == Device::kCuda;
  try {
    set_tensor(call_dlpack(who_, object_, on_device ? stream : std::nullopt));
  } catch (const py::error_already_set& error) {
    // Some libraries do not export an array with DLPack, but NumPy can convert it.
    if (on_device || output_ || !error.matches(PyExc_BufferError)) throw;
    object_ = numpy_module().attr("asarray")(object_);
    set_numpy();
  }
}

Argument PyArray::argument() {
  if (py::isinstance<py::array>(object_)) view_ = view_of_ndarray(who_, object_.cast<py::array>());
  return {view_, memory_, this};
}

void PyArray::set_tensor(ManagedTensor tensor) {
  tensor_ = std::make_shared<const ManagedTensor>(std::move(tensor));
  const DLTensor& view = tensor_->tensor();
  if (output_ && tensor_->has_flag(DLPACK_FLAG_BITMASK_READ_ONLY))
    throw ValueError(who_ + " is read-only");
  if (output_ && tensor_->has_flag(DLPACK_FLAG_BITMASK_IS_COPIED))
    throw ValueError(who_ + " must be exported without a copy, but its library has copied it");
  memory_ = device_of(who_, view.device);
  element_ = element_of(who_, view.dtype);
  view_ = view_of(who_, view, element_);
}

bool PyArray::same_type(const ArrayTraits& other) const {
  return element_.equal(static_cast<const PyArray&>(other).element_);
}

py::array PyArray::as_numpy() const {
  if (py::isinstance<py::array>(object_)) {
    // A plain array, because NumPy calls __array_function__ of subclasses, which is Python code.
    const py::object plain = numpy_module().attr("ndarray");
    return plain.attr("view")(object_, plain).cast<py::array>();
  }
  const std::vector<py::ssize_t> shape(view_.shape, view_.shape + view_.rank);
  const std::vector<py::ssize_t> strides(view_.stride, view_.stride + view_.rank);
  const py::object owner = tensor_ != nullptr ? py::object(owner_of(tensor_)) : object_;
  py::array array(element_.dtype, shape, strides, view_.data, owner);
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

py::array PyArray::numpy() const {
  if (py::isinstance<py::array>(object_)) return object_.cast<py::array>();
  if (memory_.kind == Device::kCpu) return as_numpy();
  if (is_device_array()) return object_.cast<const DeviceArray&>().numpy();
  py::array host(element_.dtype, std::vector<py::ssize_t>(view_.shape, view_.shape + view_.rank));
  const cuda::Stream stream{memory_.ordinal};
  for (const auto& other : {stream_, written_on_})
    if (other) cuda::wait_for(stream, cuda::stream_of(memory_.ordinal, other->handle));
  const cuda::Buffer packed(static_cast<std::size_t>(view_.bytes()), stream);
  cuda::copy_strided(packed_like(view_, packed.data()), view_, stream);
  cuda::copy_to_host(host.mutable_data(), packed.data(), packed.bytes(), stream);
  return host;
}

void PyArray::before_use(const cuda::Stream& stream, bool writes) {
  if (is_device_array()) return buffer_->before_use(stream, writes);
  for (const auto& other : {stream_, written_on_})
    if (other) cuda::wait_for(stream, cuda::stream_of(stream.device, other->handle));
}

// Called at the end of a scope, so it must not throw.
void PyArray::after_use(const cuda::Stream& stream, bool writes) {
  try {
    if (is_device_array()) return buffer_->after_use(stream, writes);
    // If the library knows the stream, it frees the memory in the order of that stream.
    const bool known = stream_ && cuda::stream_of(stream.device, stream_->handle) == stream;
    if (memory_.kind != Device::kCuda || known) return;
    end_ = std::make_shared<cuda::Event>(stream);
    if (stream_ && library_waits_) end_->block(cuda::stream_of(stream.device, stream_->handle));
  } catch (...) {
    // CUDA has failed. The next call reports it.
  }
}

}  // namespace ado::bindings

// Conversion of arrays of any library to the runtime's views, and DeviceArray.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bindings/dlpack.hpp"
#include "bindings/dtypes.hpp"
#include "bindings/foreign.hpp"
#include "bindings/streams.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {

namespace py = pybind11;

// A packed, row-major array in device memory.
struct DeviceArray {
  std::shared_ptr<cuda::Buffer> memory;
  Array view;
  Element element;

  DeviceArray(Element element, const Array& shape_of, const cuda::Stream& stream,
              std::shared_ptr<void> stream_owner = nullptr);
  int device() const { return memory->stream().device; }
  py::array numpy() const;
};

DeviceArray to_device(const py::object& array, const std::optional<std::string>& device);

// An operand of a call: the Python object with its element type and a view of its memory. The
// functions need the GIL, except before_use and after_use.
//
// The memory is accessed in three steps, because the first two execute Python code that could
// resize or free the memory of other operands: the constructors of all operands, open() of all
// operands, then argument() of all operands.
class PyArray final : public ArrayTraits {
 public:
  // `who` names the operand in error messages: "transpose: a". Calls write an `output`.
  PyArray(std::string who, py::object object, bool output);
  ~PyArray();
  PyArray(const PyArray&) = delete;
  PyArray& operator=(const PyArray&) = delete;

  const DeviceId& memory() const { return memory_; }
  // Returns the current stream of the array's library, or the stream of a DeviceArray.
  const std::optional<StreamHandle>& stream() const { return stream_; }
  // Makes the library's current stream wait for the call, if the call uses the array on another
  // one.
  void make_library_wait() { library_waits_ = true; }
  bool is_device_array() const { return buffer_ != nullptr; }
  // Imports the memory, for use on `stream` if it is in device memory.
  void open(const std::optional<cuda::Stream>& stream);
  Argument argument();

  const py::object& object() const { return object_; }
  const Element& element() const { return element_; }
  const Array& view() const { return view_; }
  // Returns a view of host memory, or a copy of device memory. The view of an array of another
  // library is read-only, and it keeps the memory alive.
  py::array numpy() const;

  std::string type_name() const override { return element_.name(); }
  bool same_type(const ArrayTraits& other) const override;
  bool shares_memory(const ArrayTraits& other) const override;
  void before_use(const cuda::Stream& stream, bool writes) override;
  void after_use(const cuda::Stream& stream, bool writes) override;

 private:
  void set_foreign();
  void set_numpy();
  void set_tensor(ManagedTensor tensor);
  py::array as_numpy() const;  // a view; in device memory, its elements must not be read

  std::string who_;
  bool output_;
  py::object object_;  // a py::array, a DeviceArray or an array of another library
  Element element_;
  Array view_;
  DeviceId memory_;
  ForeignType type_;
  bool library_waits_ = false;
  bool opened_ = true;                           // false: open() must call __dlpack__
  std::shared_ptr<const ManagedTensor> tensor_;  // of an array that was imported with DLPack
  std::shared_ptr<cuda::Buffer> buffer_;         // of a DeviceArray
  std::optional<StreamHandle> stream_;           // the result of stream()
  std::optional<StreamHandle> written_on_;       // the stream of __cuda_array_interface__
  std::shared_ptr<cuda::Event> end_;             // of work on a stream unknown to the library
};

// Releases the arrays that calls kept alive and whose work has finished.
void release_finished();

// Returns a new array for a result, in the memory of the device. `element` is the element type of
// the operand that must have the same type as the result, or nullptr.
py::object new_array(const BoundProblem::ResultType& type, const Element* element,
                     const DeviceId& memory, const StreamHandle& stream);

py::tuple shape_of(const Array& view);
std::string type_name(const py::handle& object);

}  // namespace ado::bindings

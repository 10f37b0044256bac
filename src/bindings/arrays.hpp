// Conversion of arrays of any library to the runtime's views, and DeviceArray.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/dlpack.hpp"
#include "bindings/dtypes.hpp"
#include "bindings/foreign.hpp"
#include "runtime/problem.hpp"

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
// functions need the GIL, except before_use and after_use. An object is used for many operands, one
// after the other.
//
// The memory is accessed in three steps, because the first two execute Python code that could
// resize or free the memory of other operands: set() of all operands, open() of all operands, then
// argument() of all operands.
class PyArray final : public ArrayTraits {
 public:
  PyArray() = default;
  PyArray(const Who& who, py::object object, bool output) { set(who, std::move(object), output); }
  ~PyArray() { clear(); }
  PyArray(const PyArray&) = delete;
  PyArray& operator=(const PyArray&) = delete;

  // `who` names the operand in error messages. Calls write an `output`.
  void set(const Who& who, py::object object, bool output);
  // Makes a new array for a result, with the shape of a packed array, in the memory of the device.
  // Returns the address of its memory.
  std::byte* make(const Who& who, const Element& element, const Array& like, const DeviceId& memory,
                  const StreamHandle& stream);
  // Releases the operand. If work on a stream that its library does not know still uses it, the
  // operand is kept alive until this work has finished.
  void clear();

  const DeviceId& memory() const { return argument_.memory; }
  // Returns the current stream of the array's library, or the stream of a DeviceArray.
  const std::optional<StreamHandle>& stream() const { return foreign_.stream; }
  // Makes the library's current stream wait for the call, if the call uses the array on another
  // one.
  void make_library_wait() { foreign_.library_waits = true; }
  bool is_device_array() const { return foreign_.buffer != nullptr; }
  // Imports the memory, for use on `stream` if it is in device memory.
  void open(const std::optional<cuda::Stream>& stream);
  const Argument& argument();
  // Throws ValueError if the array has been resized since argument() was called.
  void require_unchanged() const;

  const py::object& object() const { return object_; }
  const Element& element() const { return element_; }
  const Array& view() const { return argument_.view; }
  // Returns a view of host memory, or a copy of device memory. The view of an array of another
  // library is read-only, and it keeps the memory alive.
  py::array numpy() const;

  std::string type_name() const override { return element_.name(); }
  bool same_type(const ArrayTraits& other) const override;
  bool shares_memory(const ArrayTraits& other) const override;
  bool may_be_mapped() const override;
  void before_use(const cuda::Stream& stream, bool writes) override;
  void after_use(const cuda::Stream& stream, bool writes) override;

 private:
  // Properties of arrays of other libraries.
  struct Foreign {
    ForeignType type;
    bool library_waits = false;
    bool opened = true;                           // false: open() must call __dlpack__
    std::shared_ptr<const ManagedTensor> tensor;  // set if imported with DLPack
    std::shared_ptr<cuda::Buffer> buffer;         // memory of a DeviceArray
    std::optional<StreamHandle> stream;           // result of stream()
    std::optional<StreamHandle> written_on;       // stream of __cuda_array_interface__
    std::shared_ptr<cuda::Event> end;             // after work on a stream unknown to the library
  };

  void set_foreign();
  void set_numpy();
  void convert_to_numpy();
  void set_tensor(ManagedTensor tensor);
  py::array as_numpy() const;  // a view; in device memory, its elements must not be read

  Who who_{};
  bool output_ = false;
  bool is_numpy_ = false;
  py::object object_;  // a py::array, a DeviceArray or an array of another library
  Element element_;
  Argument argument_{{}, kHost, this};
  Foreign foreign_;
};

// Releases the arrays that calls kept alive and whose work has finished.
void release_finished();

py::tuple shape_of(const Array& view);

}  // namespace ado::bindings

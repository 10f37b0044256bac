// DLPack: reads tensors of other libraries, and exports arrays to them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/dtypes.hpp"
#include "dlpack/dlpack.h"
#include "runtime/call.hpp"

namespace ado::bindings {

// Owns a tensor that another library has exported. Calls its deleter exactly once.
class ManagedTensor {
 public:
  ManagedTensor() = default;
  explicit ManagedTensor(DLManagedTensorVersioned* tensor) : versioned_(tensor) {}
  explicit ManagedTensor(DLManagedTensor* tensor) : plain_(tensor) {}
  ManagedTensor(ManagedTensor&& other) noexcept
      : versioned_(std::exchange(other.versioned_, nullptr)),
        plain_(std::exchange(other.plain_, nullptr)) {}
  ManagedTensor& operator=(ManagedTensor&& other) noexcept {
    std::swap(versioned_, other.versioned_);
    std::swap(plain_, other.plain_);
    return *this;
  }
  ~ManagedTensor();

  // Takes the tensor from a capsule that __dlpack__ returned, and marks the capsule as used. Throws
  // TypeError for other objects and for incompatible versions of DLPack.
  static ManagedTensor from_capsule(const Who& who, const py::object& capsule);

  const DLTensor& tensor() const {
    return versioned_ != nullptr ? versioned_->dl_tensor : plain_->dl_tensor;
  }
  bool has_flag(std::uint64_t flag) const {
    return versioned_ != nullptr && (versioned_->flags & flag) != 0;
  }

 private:
  DLManagedTensorVersioned* versioned_ = nullptr;
  DLManagedTensor* plain_ = nullptr;
};

// Calls object.__dlpack__. `stream` is the handle of the stream that waits for earlier work on the
// array; -1: no stream waits. Nothing for host memory.
ManagedTensor call_dlpack(const Who& who, const py::object& object,
                          const std::optional<std::int64_t>& stream);

// Returns the device of a tensor. Throws TypeError if it is neither host memory nor memory of a
// CUDA device.
DeviceId device_of(const Who& who, const DLDevice& device);

// Returns a view of a tensor. Throws ValueError if it has too many dimensions or is malformed.
Array view_of(const Who& who, const DLTensor& tensor, const Element& element);

// Throws ValueError if a length is negative or the size of the array in bytes overflows.
void check_shape(const Who& who, const Array& view);

// The strides of dimensions of length 1, and all strides of an empty array, can have any value.
// Sets them to the strides of a packed array. Throws ValueError if the distance between two
// elements overflows.
void normalise_strides(const Who& who, Array& view);

// Arguments of __dlpack__.
struct ExportRequest {
  bool versioned = false;  // a capsule of DLPack 1.x
  bool copied = false;     // the memory is a copy for the consumer only
};

// Returns a capsule with the array. `owner` is released when the consumer deletes the tensor.
// Throws BufferError if DLPack has no type for the elements.
py::object to_capsule(const Array& view, const Element& element, const DLDevice& device,
                      std::shared_ptr<void> owner, const ExportRequest& request);

// Returns a shared pointer to a Python object. It may be released without the GIL.
std::shared_ptr<void> share(py::object object);

}  // namespace ado::bindings

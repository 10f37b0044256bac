// Arrays and streams of other libraries.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bindings/dtypes.hpp"
#include "core/error.hpp"
#include "dlpack/dlpack.h"
#include "runtime/device_id.hpp"

namespace ado::bindings {

// A cudaStream_t and the object that keeps it alive, if known.
struct StreamHandle {
  std::uintptr_t handle = 0;
  std::shared_ptr<void> owner = {};
};

std::string type_name(const py::handle& object);

// Converts a value that Python code of another library returned. Throws TypeError with rule() and
// the value instead of pybind11's error.
template <class Value, class Rule>
Value cast_or(const py::handle& object, const Rule& rule) {
  try {
    return object.cast<Value>();
  } catch (const py::cast_error&) {
    throw TypeError(rule() + ", got " + std::string(py::repr(object)));
  }
}

// Returns the stream of an argument stream=, which is None, a handle or a stream object of a
// library. Throws TypeError for other objects.
std::optional<StreamHandle> stream_from_python(const py::object& stream);

// The protocol by which an object exports its memory. The fastest available one is used.
enum class Protocol {
  kNone,           // the object has no known protocol
  kExchangeTable,  // DLPack's table of C functions: torch from version 2.10
  kDlpack,
  kCudaInterface,  // __cuda_array_interface__: Numba
};

enum class Library { kOther, kTorch, kCupy, kJax };

struct ForeignType {
  Protocol protocol = Protocol::kNone;
  Library library = Library::kOther;
  const DLPackExchangeAPI* table = nullptr;
};

// Returns the protocol and the library of an object. Does not access its memory.
ForeignType foreign_type_of(const py::object& object);

// Returns the current stream of the library on a device, if the library has current streams.
std::optional<StreamHandle> current_stream(const ForeignType& type, int device);

// Returns true if the memory of a tensor does not contain its values, because torch negates and
// conjugates lazily. Also returns true for tensors that require gradients.
bool is_lazy_view(const ForeignType& type, const py::object& object);

// The contents of __cuda_array_interface__.
struct CudaInterface {
  Element element;
  Array view;
  int device = 0;
  bool read_only = false;
  std::optional<StreamHandle> stream;  // the stream that last wrote the array
};
CudaInterface read_cuda_interface(const Who& who, const py::object& object);

}  // namespace ado::bindings

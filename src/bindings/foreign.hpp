// Arrays of other libraries: which protocol they offer, and the current streams of the libraries.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <string>

#include "bindings/dtypes.hpp"
#include "bindings/streams.hpp"
#include "dlpack/dlpack.h"
#include "runtime/device_id.hpp"

namespace ado::bindings {

// How an object hands over its memory. The fastest protocol that it offers is used.
enum class Protocol {
  kNone,           // not an array of a library with one of the protocols
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

// Returns what an object offers. Does not touch its memory.
ForeignType foreign_type_of(const py::object& object);

// Returns the stream on which the library works at present, if the library has such a stream.
std::optional<StreamHandle> current_stream(const ForeignType& type, int device);

// Returns true if the memory of a tensor does not contain its values: torch negates and conjugates
// lazily. Tensors that take part in the computation of gradients count as such, too.
bool is_lazy_view(const ForeignType& type, const py::object& object);

// The contents of __cuda_array_interface__.
struct CudaInterface {
  Element element;
  Array view;
  int device = 0;
  bool read_only = false;
  std::optional<StreamHandle> stream;  // on which the array was last written
};
CudaInterface read_cuda_interface(const std::string& who, const py::object& object);

}  // namespace ado::bindings

// Streams of other libraries.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace ado::bindings {

namespace py = pybind11;

// A cudaStream_t and what keeps it alive, if that is known.
struct StreamHandle {
  std::uintptr_t handle = 0;
  std::shared_ptr<void> owner = {};
};

// The stream of an argument stream=: None, a handle, or an object of a library. Throws TypeError
// for other objects.
std::optional<StreamHandle> stream_from_python(const py::object& stream);

}  // namespace ado::bindings

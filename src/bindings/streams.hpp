// Streams of other libraries.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace ado::bindings {

namespace py = pybind11;

// A cudaStream_t and the object that keeps it alive, if known.
struct StreamHandle {
  std::uintptr_t handle = 0;
  std::shared_ptr<void> owner = {};
};

// Returns the stream of an argument stream=, which is None, a handle or a stream object of a
// library. Throws TypeError for other objects.
std::optional<StreamHandle> stream_from_python(const py::object& stream);

}  // namespace ado::bindings

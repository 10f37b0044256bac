// Reads versions 2 and 3 of __cuda_array_interface__.
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/foreign.hpp"
#include "core/error.hpp"
#include "device/device.hpp"

namespace ado::bindings {
namespace {

std::string interface_rule(const Who& who, const std::string& what) {
  return who + ": __cuda_array_interface__ must have " + what;
}

[[noreturn]] void malformed(const Who& who, const std::string& what) {
  throw TypeError(interface_rule(who, what));
}

py::object entry(const Who& who, const py::dict& interface, const char* key) {
  if (!interface.contains(key)) malformed(who, std::string("the entry '") + key + "'");
  return interface[key];
}

std::vector<std::int64_t> lengths_from(const Who& who, const py::object& object, const char* key) {
  std::vector<std::int64_t> lengths;
  const auto rule = [&] { return interface_rule(who, std::string("integers in '") + key + "'"); };
  if (!py::isinstance<py::sequence>(object)) throw TypeError(rule() + ", got " + type_name(object));
  for (const py::handle item : object) lengths.push_back(cast_or<std::int64_t>(item, rule));
  return lengths;
}

}  // namespace

CudaInterface read_cuda_interface(const Who& who, const py::object& object) {
  const py::object value = object.attr("__cuda_array_interface__");
  if (!py::isinstance<py::dict>(value)) malformed(who, "the type dict, got " + type_name(value));
  const auto interface = value.cast<py::dict>();
  if (interface.contains("mask") && !py::object(interface["mask"]).is_none())
    throw TypeError(who + " must not be a masked array; fill it first");

  CudaInterface read;
  read.element = {py::dtype::from_args(entry(who, interface, "typestr"))};
  if (has_references(read.element.dtype))
    throw TypeError(who + " must hold numbers or bytes, got references to Python objects");
  const auto shape = lengths_from(who, entry(who, interface, "shape"), "shape");
  if (shape.size() > kMaxRank)
    throw ValueError(who + " has " + std::to_string(shape.size()) + " dimensions, more than " +
                     std::to_string(kMaxRank));
  const auto data = cast_or<std::pair<std::uintptr_t, bool>>(entry(who, interface, "data"), [&] {
    return interface_rule(who, "an address and a bool in 'data'");
  });
  read.read_only = data.second;
  Array& view = read.view;
  view.type = element_type(read.element.dtype);
  view.rank = static_cast<int>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) malformed(who, "lengths of at least 0, got " + std::to_string(shape[d]));
    view.shape[d] = shape[d];
  }
  check_shape(who, view);
  view = packed_like(view, reinterpret_cast<std::byte*>(data.first));
  const py::object strides =
      interface.contains("strides") ? py::object(interface["strides"]) : py::none();
  if (!strides.is_none()) {
    const auto steps = lengths_from(who, strides, "strides");
    if (steps.size() != shape.size()) malformed(who, "one stride per dimension");
    std::copy(steps.begin(), steps.end(), view.stride);
  }
  normalise_strides(who, view);

  cuda::require();
  read.device = view.elements() == 0 ? cuda::current_device() : cuda::device_of(view.data);
  if (interface.contains("stream"))
    read.stream = stream_from_python(py::object(interface["stream"]));
  return read;
}

}  // namespace ado::bindings

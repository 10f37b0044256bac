#include "bindings/bind.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace ado::py_binding {

Settings& settings() {
  static Settings current;
  return current;
}

// Looking for a GPU starts the driver, after which a forked child has no CUDA, not even from other
// libraries. So nobody looks before it matters.
Device default_device() {
  auto& device = settings().device;
  if (!device) device = cuda::why_unavailable().empty() ? Device::kCuda : Device::kCpu;
  return *device;
}

const char* name_of(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

Device device_named(const std::string& name) {
  if (name == "cpu") return Device::kCpu;
  if (name == "cuda") return Device::kCuda;
  throw ValueError("device must be 'cpu' or 'cuda', got '" + name + "'");
}

std::string why_unavailable(Device device, int min_compute, bool built) {
  if (device == Device::kCpu) return {};
  if (!built) return "built without CUDA";
  if (!cuda::why_unavailable().empty()) return cuda::why_unavailable();
  const int compute = cuda::properties().compute;
  if (compute >= min_compute) return {};
  const auto text = [](int c) { return std::to_string(c / 10) + "." + std::to_string(c % 10); };
  return "needs compute capability " + text(min_compute) + ", this device has " + text(compute);
}

std::string describe(const Marshal& marshal) {
  std::string text;
  for (const auto& held : marshal.inputs()) {
    if (!text.empty()) text += ", ";
    const py::object shape = held.object.attr("shape");
    text += held.name + ": " + std::string(py::str(shape)) + " " +
            std::string(py::str(static_cast<const py::object&>(held.dtype)));
  }
  for (const auto& [name, value] : marshal.options())
    text += ", " + std::string(py::str(name)) + "=" + std::string(py::repr(value));
  return text;
}

std::vector<unsigned> extent_list(const Extent& extent) {
  std::vector<unsigned> list{extent.x};
  if (extent.y > 1 || extent.z > 1) list.push_back(extent.y);
  if (extent.z > 1) list.push_back(extent.z);
  return list;
}

Name name_from(const py::object& value, const char* keyword) {
  if (value.is_none()) return std::nullopt;
  if (!py::isinstance<py::str>(value))
    throw TypeError(std::string(keyword) + " must be a str, not " + Marshal::type_name(value));
  return text_of(keyword, value);
}

Block block_from(const py::object& value) {
  if (value.is_none()) return std::nullopt;
  try {
    if (py::isinstance<py::int_>(value)) return std::vector{value.cast<std::int64_t>()};
    return value.cast<std::vector<std::int64_t>>();
  } catch (const py::cast_error&) {
    throw TypeError("block must be a tuple of int, got " + std::string(py::repr(value)));
  }
}

Extent choose_block(const std::function<std::string()>& who, const Blocks& blocks,
                    const Block& wanted) {
  if (!wanted) return blocks[0];
  std::string choices;
  for (const Extent& block : blocks) {
    if (block.volume() == 0) continue;
    std::vector<std::int64_t> lengths = *wanted;
    if (lengths.size() <= 3) lengths.resize(3, 1);
    if (lengths == std::vector<std::int64_t>{block.x, block.y, block.z}) return block;
    choices += (choices.empty() ? "" : ", ") +
               std::string(py::str(py::tuple(py::cast(extent_list(block)))));
  }
  throw ValueError(who() + "block must be one of " + choices + ", got " +
                   std::string(py::str(py::tuple(py::cast(*wanted)))));
}

void require_unique_names(const std::string& routine, const std::vector<VariantInfo>& variants) {
  std::set<std::string> names;
  for (const auto& variant : variants)
    if (!names.insert(variant.name).second)
      throw std::logic_error(routine + " has two variants named " + variant.name);
}

void throw_unknown_variant(const std::string& routine, const std::string& wanted,
                           const std::vector<VariantInfo>& variants) {
  py::list names;
  for (const auto& variant : variants) names.append(variant.name);
  const py::list close = py::module_::import("difflib").attr("get_close_matches")(wanted, names, 1);
  std::string text = routine + " has no variant '" + wanted + "'; there is " +
                     std::string(py::str(py::str(", ").attr("join")(names)));
  if (!close.empty()) text += ". Did you mean '" + std::string(py::str(close[0])) + "'?";
  throw py::key_error(text);
}

}  // namespace ado::py_binding

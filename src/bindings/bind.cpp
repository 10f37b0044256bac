#include "bindings/bind.hpp"

#include <algorithm>

namespace ado::py_binding {

Settings& settings() {
  static Settings current;
  return current;
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

std::string describe(const std::vector<Marshal::Held>& inputs) {
  std::string text;
  for (const auto& held : inputs) {
    if (!text.empty()) text += ", ";
    const py::object shape = held.object.attr("shape");
    text += held.name + ": " + std::string(py::str(shape)) + " " +
            std::string(py::str(static_cast<const py::object&>(held.dtype)));
  }
  return text;
}

std::vector<unsigned> extent_list(const Extent& extent) {
  std::vector<unsigned> list{extent.x};
  if (extent.y > 1 || extent.z > 1) list.push_back(extent.y);
  if (extent.z > 1) list.push_back(extent.z);
  return list;
}

Extent choose_block(const std::function<std::string()>& who, const Blocks& blocks,
                    const Block& wanted) {
  if (!wanted) return blocks[0];
  if (wanted->empty() || wanted->size() > 3)
    throw ValueError(who() + "block must have one to three lengths");
  Extent block{.x = (*wanted)[0]};
  if (wanted->size() > 1) block.y = (*wanted)[1];
  if (wanted->size() > 2) block.z = (*wanted)[2];
  if (block.volume() != 0 && std::find(blocks.begin(), blocks.end(), block) != blocks.end())
    return block;
  std::string choices;
  for (const Extent& known : blocks)
    if (known.volume() != 0)
      choices += (choices.empty() ? "" : ", ") + std::string(py::str(py::cast(extent_list(known))));
  throw ValueError(who() + "block must be one of " + choices + ", got " +
                   std::string(py::str(py::cast(*wanted))));
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

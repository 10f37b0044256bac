// Arrays in device memory, and new arrays for results.
#include "bindings/arrays.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "runtime/staging.hpp"

namespace ado::bindings {

std::string type_name(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

py::tuple shape_of(const Array& view) {
  py::tuple shape(static_cast<std::size_t>(view.rank));
  for (int d = 0; d < view.rank; ++d) shape[static_cast<std::size_t>(d)] = view.shape[d];
  return shape;
}

DeviceArray::DeviceArray(Element element, const Array& shape_of, const cuda::Stream& stream,
                         std::shared_ptr<void> stream_owner)
    : memory(std::make_shared<cuda::Buffer>(static_cast<std::size_t>(shape_of.bytes()), stream)),
      view(packed_like(shape_of, memory->data())),
      element(std::move(element)) {
  memory->stream_owner = std::move(stream_owner);
}

py::array DeviceArray::numpy() const {
  py::array host(element.dtype, std::vector<py::ssize_t>(view.shape, view.shape + view.rank));
  const Array target = packed_like(view, static_cast<std::byte*>(host.mutable_data()));
  const ReleaseGil release;
  const cuda::Stream stream = cuda::nameable(memory->stream());
  memory->before_use(stream, false);
  download(target, view.data, stream);
  memory->after_use(stream, false);
  return host;
}

DeviceArray to_device(const py::object& array, const std::optional<std::string>& device) {
  DeviceId wanted = device ? device_named(*device) : gpu(DeviceId::kAnyGpu);
  if (wanted.kind != Device::kCuda)
    throw ValueError("to_device: device must be 'cuda', 'cuda:N' or 'emulator', got '" + *device +
                     "'");
  wanted = resolve_gpu(wanted);
  PyArray source({"to_device", "the array"}, array, false);
  if (source.memory() != kHost)
    throw ValueError("to_device: the array must be in host memory, got an array on " +
                     name_of(source.memory()));
  source.open(std::nullopt);
  const cuda::Stream stream{wanted.ordinal};
  const Array view = source.argument().view;
  DeviceArray copy(source.element(), view, stream);
  const ReleaseGil release;
  upload(copy.view.data, view, stream);
  return copy;
}

}  // namespace ado::bindings

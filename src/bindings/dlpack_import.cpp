#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "bindings/arrays.hpp"
#include "bindings/dlpack.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

constexpr const char *kPlain = "dltensor", *kUsedPlain = "used_dltensor";
constexpr const char *kVersioned = "dltensor_versioned",
                     *kUsedVersioned = "used_dltensor_versioned";

template <class Managed>
Managed* take(const py::object& capsule, const char* name, const char* used_name) {
  void* const pointer = PyCapsule_GetPointer(capsule.ptr(), name);
  if (pointer == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0)
    throw py::error_already_set();
  return static_cast<Managed*>(pointer);
}

// Converts a stride from elements to bytes. Returns false if the product overflows.
//
// CuPy converts negative strides from bytes to elements by an unsigned division, for example
// (2^64 - 240) / 4. The product then overflows, but its lowest 64 bits are the stride in bytes.
bool in_bytes(std::int64_t elements, int size, std::int64_t& bytes) {
  if (!__builtin_mul_overflow(elements, std::int64_t{size}, &bytes)) return true;
  constexpr std::int64_t kLongest = std::int64_t{1} << 57;  // bytes of the address space
  return elements > 0 && bytes < 0 && bytes >= -kLongest;
}

// Returns true if the address is in memory of this process. Costs one system call.
bool is_mapped(const std::byte* address) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  auto* const start = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & -page);
  return mincore(start, 1, &resident) == 0;
}

}  // namespace

ManagedTensor::~ManagedTensor() {
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
  if (plain_ != nullptr && plain_->deleter != nullptr) plain_->deleter(plain_);
}

ManagedTensor ManagedTensor::from_capsule(const Who& who, const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0) {
    ManagedTensor tensor(take<DLManagedTensorVersioned>(capsule, kVersioned, kUsedVersioned));
    if (const DLPackVersion version = tensor.versioned_->version;
        version.major != DLPACK_MAJOR_VERSION)
      throw TypeError(who + " must be exported with DLPack 1.x, got DLPack " +
                      std::to_string(version.major) + "." + std::to_string(version.minor));
    return tensor;
  }
  if (PyCapsule_IsValid(capsule.ptr(), kPlain) != 0)
    return ManagedTensor(take<DLManagedTensor>(capsule, kPlain, kUsedPlain));
  throw TypeError(who + ": __dlpack__ must return an unused capsule with a tensor, got " +
                  std::string(py::repr(capsule)));
}

ManagedTensor call_dlpack(const Who& who, const py::object& object,
                          const std::optional<std::int64_t>& stream) {
  const py::object method = object.attr("__dlpack__");
  py::dict keywords;
  if (stream) keywords["stream"] = *stream;
  const py::dict old_keywords = keywords.attr("copy")();
  keywords["max_version"] = py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  py::object capsule;
  try {
    capsule = method(**keywords);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = method(**old_keywords);  // max_version does not exist before DLPack 1.0
  }
  return ManagedTensor::from_capsule(who, capsule);
}

DeviceId device_of(const Who& who, const DLDevice& device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return kHost;
    case kDLCUDA:
    case kDLCUDAManaged:
      return gpu(device.device_id);
    default:
      throw TypeError(who + " must be in host memory or on a CUDA device, got DLPack device type " +
                      std::to_string(device.device_type));
  }
}

Array view_of(const Who& who, const DLTensor& tensor, const Element& element) {
  if (tensor.ndim < 0)
    throw ValueError(who + " has " + std::to_string(tensor.ndim) + " dimensions");
  if (tensor.ndim > kMaxRank)
    throw ValueError(who + " has " + std::to_string(tensor.ndim) + " dimensions, more than " +
                     std::to_string(kMaxRank));
  if (tensor.shape == nullptr && tensor.ndim > 0)
    throw ValueError(who + " has " + std::to_string(tensor.ndim) + " dimensions without a shape");
  Array view;
  view.type = element_type(element.dtype);
  view.rank = tensor.ndim;
  std::copy_n(tensor.shape, view.rank, view.shape);
  check_shape(who, view);
  view = packed_like(view, static_cast<std::byte*>(tensor.data) + tensor.byte_offset);
  if (tensor.strides != nullptr)
    for (int d = 0; d < view.rank; ++d)
      if (!in_bytes(tensor.strides[d], view.type.size, view.stride[d]))
        throw ValueError(who + " has an invalid stride: " + std::to_string(tensor.strides[d]) +
                         " elements in dimension " + std::to_string(d));
  normalise_strides(who, view);
  if (view.elements() == 0) return view;
  if (tensor.data == nullptr) throw ValueError(who + " has elements, but its address is null");
  if (tensor.byte_offset != 0 && device_of(who, tensor.device).kind == Device::kCpu &&
      !is_mapped(view.data))
    throw ValueError(who + " begins outside of memory, at the offset " +
                     std::to_string(tensor.byte_offset));
  return view;
}

void check_shape(const Who& who, const Array& view) {
  std::int64_t bytes = view.type.size;
  for (int d = 0; d < view.rank; ++d)
    if (view.shape[d] < 0 ||
        (view.shape[d] > 0 && __builtin_mul_overflow(bytes, view.shape[d], &bytes)))
      throw ValueError(who + " has an invalid shape: dimension " + std::to_string(d) + " has " +
                       std::to_string(view.shape[d]) + " elements");
}

void normalise_strides(const Who& who, Array& view) {
  const Array packed = packed_like(view, view.data);
  if (view.elements() == 0) {
    view = packed;
    return;
  }
  for (int d = 0; d < view.rank; ++d)
    if (view.shape[d] == 1) view.stride[d] = packed.stride[d];
  std::int64_t low = 0, high = 0;  // offsets of the first and the last element in memory
  for (int d = 0; d < view.rank; ++d) {
    std::int64_t distance = 0;
    std::int64_t& end = view.stride[d] < 0 ? low : high;
    if (__builtin_mul_overflow(view.stride[d], view.shape[d] - 1, &distance) ||
        __builtin_add_overflow(end, distance, &end))
      throw ValueError(who + " has an invalid stride: " + std::to_string(view.stride[d]) +
                       " bytes in dimension " + std::to_string(d));
  }
}

}  // namespace ado::bindings

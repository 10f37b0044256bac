#include <algorithm>

#include "bindings/dlpack.hpp"
#include "core/error.hpp"

namespace ado::bindings {
namespace {

bool python_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

// A tensor for a consumer, with the shape, the strides and the owner of its memory.
template <class Managed>
struct Exported {
  Managed managed = {};
  std::int64_t shape[kMaxRank] = {}, strides[kMaxRank] = {};
  std::shared_ptr<void> owner;

  static void destroy(Managed* managed) { delete static_cast<Exported*>(managed->manager_ctx); }
};

// The destructor of a capsule: deletes the tensor unless a consumer has taken it.
template <class Managed>
void destroy_capsule(PyObject* capsule) {
  const char* const name = PyCapsule_GetName(capsule);
  if (name == nullptr || std::string_view(name).starts_with("used_")) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

template <class Managed>
py::object make_capsule(const Array& view, const DLDataType& type, const DLDevice& device,
                        std::shared_ptr<void> owner, const char* name, std::uint64_t flags) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->owner = std::move(owner);
  std::copy_n(view.shape, view.rank, exported->shape);
  for (int d = 0; d < view.rank; ++d) exported->strides[d] = view.stride[d] / view.type.size;
  Managed& managed = exported->managed;
  managed.manager_ctx = exported.get();
  managed.deleter = &Exported<Managed>::destroy;
  managed.dl_tensor = {.data = view.data,
                       .device = device,
                       .ndim = view.rank,
                       .dtype = type,
                       .shape = exported->shape,
                       .strides = exported->strides,
                       .byte_offset = 0};
  if constexpr (requires { managed.flags; }) {
    managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed.flags = flags;
  }
  PyObject* const capsule = PyCapsule_New(&managed, name, destroy_capsule<Managed>);
  if (capsule == nullptr) throw py::error_already_set();
  exported.release();  // the capsule owns it
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

py::object to_capsule(const Array& view, const Element& element, const DLDevice& device,
                      std::shared_ptr<void> owner, const ExportRequest& request) {
  const auto type = dlpack_type(element);
  if (!type) throw py::buffer_error("DLPack has no type for elements of " + element.name());
  for (int d = 0; d < view.rank; ++d)
    if (view.shape[d] > 1 && view.stride[d] % view.type.size != 0)
      throw py::buffer_error("DLPack strides must be whole elements, got a stride of " +
                             std::to_string(view.stride[d]) + " bytes for elements of " +
                             std::to_string(view.type.size) + " bytes");
  const std::uint64_t flags = request.copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0;
  if (request.versioned)
    return make_capsule<DLManagedTensorVersioned>(view, *type, device, std::move(owner),
                                                  "dltensor_versioned", flags);
  return make_capsule<DLManagedTensor>(view, *type, device, std::move(owner), "dltensor", flags);
}

std::shared_ptr<void> share(py::object object) {
  return {object.release().ptr(), [](void* pointer) {
            if (python_is_ending()) return;  // the object is not freed
            const py::gil_scoped_acquire lock;
            Py_DECREF(static_cast<PyObject*>(pointer));
          }};
}

}  // namespace ado::bindings

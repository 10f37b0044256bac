#include "bindings/dtypes.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/error.hpp"

namespace ado::bindings {
namespace {

struct CodeName {
  DLDataTypeCode code;
  const char* name;
  int bits;  // of each type with this code; 0: the number of bits follows the name
};

constexpr CodeName kCodes[] = {
    {kDLInt, "int", 0},
    {kDLUInt, "uint", 0},
    {kDLFloat, "float", 0},
    {kDLOpaqueHandle, "handle", 0},
    {kDLBfloat, "bfloat", 0},
    {kDLComplex, "complex", 0},
    {kDLBool, "bool", 8},
    {kDLFloat8_e3m4, "float8_e3m4", 8},
    {kDLFloat8_e4m3, "float8_e4m3", 8},
    {kDLFloat8_e4m3b11fnuz, "float8_e4m3b11fnuz", 8},
    {kDLFloat8_e4m3fn, "float8_e4m3fn", 8},
    {kDLFloat8_e4m3fnuz, "float8_e4m3fnuz", 8},
    {kDLFloat8_e5m2, "float8_e5m2", 8},
    {kDLFloat8_e5m2fnuz, "float8_e5m2fnuz", 8},
    {kDLFloat8_e8m0fnu, "float8_e8m0fnu", 8},
    {kDLFloat6_e2m3fn, "float6_e2m3fn", 6},
    {kDLFloat6_e3m2fn, "float6_e3m2fn", 6},
    {kDLFloat4_e2m1fn, "float4_e2m1fn", 4},
};

std::string name_of(const DLDataType& type) {
  std::string name = "type " + std::to_string(type.code);
  for (const CodeName& known : kCodes)
    if (known.code == type.code)
      name = known.bits == 0 ? known.name + std::to_string(type.bits) : known.name;
  return type.lanes == 1 ? name : name + "x" + std::to_string(type.lanes);
}

// Returns true if types with this code cannot have this number of bits.
bool has_wrong_bits(const DLDataType& type) {
  return std::any_of(std::begin(kCodes), std::end(kCodes), [&](const CodeName& known) {
    return known.code == type.code && known.bits != 0 && known.bits != type.bits;
  });
}

DLDataType type_of(DLDataTypeCode code, py::ssize_t bytes) {
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * bytes), 1};
}

// Returns NumPy's kind of a type, or 0 if NumPy has no such type.
char kind_of(const DLDataType& type) {
  const int bits = type.bits;
  const bool integer = bits == 8 || bits == 16 || bits == 32 || bits == 64;
  switch (type.code) {
    case kDLInt:
      return integer ? 'i' : 0;
    case kDLUInt:
      return integer ? 'u' : 0;
    case kDLFloat:
      return bits == 16 || bits == 32 || bits == 64 ? 'f' : 0;
    case kDLComplex:
      return bits == 64 || bits == 128 ? 'c' : 0;
    case kDLBool:
      return bits == 8 ? 'b' : 0;
    default:
      return 0;
  }
}

// Returns the dtype with this name of the package ml_dtypes, or None if there is none.
py::object extension_dtype(const std::string& name) {
  try {
    const py::object type = py::module_::import("ml_dtypes").attr(name.c_str());
    return py::dtype::from_args(type);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError) && !error.matches(PyExc_AttributeError)) throw;
    return py::none();
  }
}

Element make_element(const DLDataType& type) {
  const int bytes = type.bits / 8;
  if (const char kind = kind_of(type)) return {numpy_dtype({kind, bytes})};
  const py::object extension = extension_dtype(name_of(type));
  if (!extension.is_none()) return {extension.cast<py::dtype>()};
  return {numpy_dtype({'V', bytes}), static_cast<DLDataTypeCode>(type.code)};
}

}  // namespace

Element element_of(const Who& who, const DLDataType& type) {
  if (type.lanes != 1 || type.bits == 0 || type.bits % 8 != 0 || type.code == kDLOpaqueHandle ||
      has_wrong_bits(type))
    throw TypeError(who + " must have scalar numbers of whole bytes as elements, got " +
                    name_of(type));
  // Elements are cached, because NumPy would parse the name of the dtype each time. They are never
  // freed.
  constexpr std::size_t kCodesCached = 32, kSizesCached = 32;
  static std::array<std::array<const Element*, kSizesCached>, kCodesCached> cache{};
  const std::size_t code = type.code, bytes = type.bits / 8;
  if (code >= kCodesCached || bytes >= kSizesCached) return make_element(type);
  if (cache[code][bytes] == nullptr) cache[code][bytes] = new Element(make_element(type));
  return *cache[code][bytes];
}

std::optional<DLDataType> dlpack_type(const Element& element) {
  const py::dtype& dtype = element.dtype;
  const py::ssize_t bytes = dtype.itemsize();
  if (element.opaque) return type_of(*element.opaque, bytes);
  if (element_type(dtype).swapped || bytes > 31) return std::nullopt;
  // A kind does not identify a type: float8_e5m2 of ml_dtypes also has the kind 'f'.
  for (const DLDataTypeCode code : {kDLBool, kDLInt, kDLUInt, kDLFloat, kDLComplex})
    if (const DLDataType type = type_of(code, bytes); kind_of(type) == dtype.kind()) return type;
  // NumPy's longdouble is not the type of 128 bits of IEEE 754.
  if (dtype.kind() == 'f' && bytes > 8) return std::nullopt;
  const std::string name = element.name();
  for (const CodeName& known : kCodes)
    if (const DLDataType type = type_of(known.code, bytes);
        name_of(type) == name && !has_wrong_bits(type))
      return type;
  return std::nullopt;
}

std::string Element::name() const {
  if (opaque) return name_of(type_of(*opaque, dtype.itemsize()));
  return py::str(static_cast<const py::object&>(dtype));
}

ElementType element_type(const py::dtype& dtype) {
  // NumPy marks the native byte order with '=', and types without a byte order with '|'.
  const bool swapped = dtype.byteorder() == '<' || dtype.byteorder() == '>';
  return {dtype.kind(), static_cast<int>(dtype.itemsize()), swapped};
}

py::dtype numpy_dtype(const ElementType& type) {
  // dtypes are cached, because NumPy parses their names. They are never freed.
  static auto* const known = new std::vector<std::pair<ElementType, py::dtype>>;
  for (const auto& [kept, dtype] : *known)
    if (kept == type) return dtype;
  py::dtype made(std::string(1, type.kind) + std::to_string(type.size));
  known->emplace_back(type, made);
  return made;
}

bool has_references(const py::dtype& dtype) {
  constexpr std::uint64_t kItemRefcount = 0x01;  // NPY_ITEM_REFCOUNT
  return (static_cast<std::uint64_t>(dtype.flags()) & kItemRefcount) != 0;
}

}  // namespace ado::bindings

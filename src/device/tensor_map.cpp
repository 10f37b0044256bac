// Tensor maps, which describe a matrix to the tensor memory accelerator.
#include "common/tensor_copy.cuh"

#ifdef ADO_WITH_CUDA

#include <cstring>

#include "device/emulated.hpp"
#include "device/internal.cuh"

namespace ado::cuda {
namespace {

// The emulator's encoding of the same map.
CUtensorMap emulated_map(const void* data, std::int64_t rows, std::int64_t cols,
                         std::int64_t stride, int lines) {
  emulator::TensorMap encoded;
  encoded.address = reinterpret_cast<std::uint64_t>(data);
  encoded.dimensions = 2;
  encoded.lengths = {static_cast<std::uint32_t>(cols), static_cast<std::uint32_t>(rows)};
  encoded.strides = {static_cast<std::uint64_t>(stride)};
  encoded.box = {kBoxLine, static_cast<std::uint16_t>(lines)};
  encoded.swizzle_bytes = kBoxLine;
  CUtensorMap map;
  static_assert(sizeof map == sizeof encoded);
  std::memcpy(&map, &encoded, sizeof map);
  return map;
}

}  // namespace

CUtensorMap tensor_map(const Launch& go, const void* data, std::int64_t rows, std::int64_t cols,
                       std::int64_t stride, int lines) {
  CUtensorMap map{};
  if (go.recorder != nullptr || go.grid.volume() == 0) return map;
  if (emulated::current()) return emulated_map(data, rows, cols, stride, lines);
  static const auto encode =
      driver_function<std::remove_pointer_t<decltype(&cuTensorMapEncodeTiled)>>(
          "cuTensorMapEncodeTiled", 12000);
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride)};
  const cuuint32_t box[] = {kBoxLine, static_cast<cuuint32_t>(lines)}, steps[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(data), sizes, strides, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check_driver(status, "cuTensorMapEncodeTiled", __FILE__, __LINE__);
  return map;
}

}  // namespace ado::cuda

#endif

// Transpose, engine: as_copy, which transposes a single row or column by copying it.
#pragma once

#include "transpose/engine/matrix.cuh"

namespace ado::cuda {
namespace {

// ---- as_copy ------------------------------------------------------------------------------------
// The bytes of out: `before` bytes, whole aligned vectors, and the remaining bytes.
struct CopyParts {
  std::int64_t vectors;
  int before, others;  // others: all bytes before and after the vectors
};

// Position of an address within its vector.
int vector_offset(const void* address, std::int64_t bytes = 0) {
  return static_cast<int>((reinterpret_cast<std::uintptr_t>(address) + bytes) % kVectorBytes);
}

// If a and out are aligned differently, two aligned vectors of a are loaded for each vector of out.
// Both must be inside a.
CopyParts parts_of_copy(const Transpose& p) {
  int before = (kVectorBytes - vector_offset(p.out.data)) % kVectorBytes;
  const int offset = vector_offset(p.a.data, before);
  if (offset > before) before += kVectorBytes;
  const std::int64_t bytes = p.a.bytes(),
                     inside = bytes - before - (kVectorBytes - offset) % kVectorBytes;
  if (inside < kVectorBytes) return {0, static_cast<int>(bytes), static_cast<int>(bytes)};
  const std::int64_t vectors = inside / kVectorBytes;
  return {vectors, before, static_cast<int>(bytes - vectors * kVectorBytes)};
}

// Returns the index of the first thread that copies a single byte. There is one thread per vector
// and one per other byte. Separate warps copy the bytes: if a warp copied vectors and bytes, it
// would load the bytes only after the vectors have arrived.
ADO_HOST_DEVICE std::int64_t first_byte_thread(const CopyParts& parts) {
  return (parts.vectors + kWarpSize - 1) / kWarpSize * kWarpSize;
}

Extent grid_of_copy(const Transpose& p, Extent block) {
  const CopyParts parts = parts_of_copy(p);
  const std::int64_t threads =
      parts.others == 0 ? parts.vectors : first_byte_thread(parts) + parts.others;
  return grid_of(ceil_div(threads, block.x), 1);
}

#ifdef __CUDACC__

// Returns true if a and out start at the same offset within a vector.
bool same_alignment(const Transpose& p) {
  return vector_offset(p.a.data) == vector_offset(p.out.data);
}

// Transposes a matrix with one row or one column, whose elements stay in order. Each of the bytes
// before the first vector and after the last one has a separate thread. A loop over these bytes
// would need 48 registers instead of 14 or 19. Fewer threads would be resident, and the copy of 512
// MiB would take 10 % longer (H200).
template <bool kRealigns>
__global__ void transpose_as_copy(const std::byte* a, std::byte* out, CopyParts parts) {
  const std::int64_t index = thread_x(), other = index - first_byte_thread(parts);
  if (other >= 0) {
    const std::int64_t at = other + (other < parts.before ? 0 : parts.vectors * kVectorBytes);
    if (other < parts.others) out[at] = a[at];
    return;
  }
  if (index >= parts.vectors) return;
  using Words = Vector<unsigned, 4>;
  Words* const to = reinterpret_cast<Words*>(out + parts.before) + index;
  const std::byte* const from = a + parts.before;
  const int offset = kRealigns ? offset_within(from, kVectorBytes) : 0;
  const Words* const vector = reinterpret_cast<const Words*>(from - offset) + index;
  *to = kRealigns ? realign(vector[0], vector[1], offset) : vector[0];
}
#endif

constexpr Variant<Transpose> kAsCopy = {
    .name = "as_copy",
    .changes = {"Copies a single row or column, because its elements stay in order.", Step::kWider},
    .why_not = [](const Transpose& p) -> const char* {
      if (const char* reason = Transpose::why_not_out_of_place(p)) return reason;
      if (p.rows() != 1 && p.cols() != 1) return "a has more than one row and more than one column";
      return p.a.packed() && p.out.packed() ? nullptr : "elements are not contiguous";
    },
    .blocks = {{{256}, {128}, {512}, {1024}}},
    .grid = [](const Transpose& p, Extent block) { return grid_of_copy(p, block); },
    .run = ADO_RUN([](const Transpose& p, const Launch& go) {
      launch(go, same_alignment(p) ? transpose_as_copy<false> : transpose_as_copy<true>, p.a.data,
             p.out.data, parts_of_copy(p));
    })};

}  // namespace
}  // namespace ado::cuda

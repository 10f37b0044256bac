// Copies between device arrays with any strides.
//
// This copy packs operands that a kernel cannot read in place, and writes strided results. It makes
// one pass over the elements. If neither array is contiguous along the last dimension, its accesses
// are uncoalesced.
#include "common/vector.cuh"
#include "device/internal.cuh"

#ifdef __CUDACC__

#include <algorithm>
#include <cstdlib>

namespace ado::cuda {
namespace {

// The lengths of the dimensions and the strides in bytes, fastest dimension first. There is one
// more dimension than in the arrays, for elements that are copied in parts.
struct StridedCopy {
  std::byte* to;
  const std::byte* from;
  int rank = 0;
  std::int64_t length[kMaxRank + 1] = {};
  std::int64_t to_step[kMaxRank + 1] = {}, from_step[kMaxRank + 1] = {};
};

constexpr unsigned kThreads = 256;

// Index: an unsigned type that can represent `units`.
template <int kSize, class Index>
__global__ void strided_copy(StridedCopy copy, Index units) {
  using Unit = Element<kSize>;
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < units; i += step) {
    Index left = i;
    std::int64_t to = 0, from = 0;
    for (int d = 0; d < copy.rank; ++d) {
      const auto length = static_cast<Index>(copy.length[d]);
      const auto at = static_cast<std::int64_t>(left % length);
      left /= length;
      to += at * copy.to_step[d];
      from += at * copy.from_step[d];
    }
    *reinterpret_cast<Unit*>(copy.to + to) = *reinterpret_cast<const Unit*>(copy.from + from);
  }
}

// Appends a dimension, or merges it with the last one if it continues that one in both arrays.
void append(StridedCopy& copy, std::int64_t length, std::int64_t to_step, std::int64_t from_step) {
  if (length == 1) return;
  if (copy.rank > 0) {
    const int last = copy.rank - 1;
    if (to_step == copy.length[last] * copy.to_step[last] &&
        from_step == copy.length[last] * copy.from_step[last]) {
      copy.length[last] *= length;
      return;
    }
  }
  copy.length[copy.rank] = length;
  copy.to_step[copy.rank] = to_step;
  copy.from_step[copy.rank] = from_step;
  ++copy.rank;
}

// Returns the largest power of two, at most the size of a vector, that divides the element size,
// the addresses and the strides.
int unit_bytes(const Array& to, const Array& from) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(to.data) |
                        reinterpret_cast<std::uintptr_t>(from.data) |
                        static_cast<std::uintptr_t>(to.type.size) | kVectorBytes;
  for (int d = 0; d < to.rank; ++d)
    if (to.shape[d] != 1)
      bits |= static_cast<std::uintptr_t>(std::abs(to.stride[d])) |
              static_cast<std::uintptr_t>(std::abs(from.stride[d]));
  return static_cast<int>(bits & (~bits + 1));
}

template <int kSize>
void run(const StridedCopy& copy, std::int64_t units, const Stream& stream) {
  constexpr std::int64_t kBlocks = 1 << 16;  // each thread of a larger copy copies several units
  Launch go;
  go.block = {kThreads};
  go.grid = {static_cast<unsigned>(std::min((units + kThreads - 1) / kThreads, kBlocks))};
  go.stream = raw(stream);
  // The index may exceed `units` by the number of threads before the loop ends.
  constexpr std::int64_t kShort = (std::int64_t{1} << 32) - kBlocks * kThreads;
  if (units < kShort)
    launch(go, strided_copy<kSize, std::uint32_t>, copy, static_cast<std::uint32_t>(units));
  else
    launch(go, strided_copy<kSize, std::uint64_t>, copy, static_cast<std::uint64_t>(units));
}

}  // namespace

void copy_strided(const Array& to, const Array& from, const Stream& stream) {
  if (to.elements() == 0) return;
  const DeviceScope scope(stream.device);
  const int unit = unit_bytes(to, from);
  StridedCopy copy{.to = to.data, .from = from.data};
  append(copy, to.type.size / unit, unit, unit);
  for (int d = to.rank - 1; d >= 0; --d) append(copy, to.shape[d], to.stride[d], from.stride[d]);
  const std::int64_t units = to.bytes() / unit;
  with_size(unit, [&](auto size) { run<size>(copy, units, stream); });
}

}  // namespace ado::cuda

#endif

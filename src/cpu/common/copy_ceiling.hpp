// The copy ceiling: a kernel that copies, for routines that read and write the same number of
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/isa.hpp"
#include "core/streaming.hpp"
#include "core/threads.hpp"
#include "cpu/common/checkpoints.hpp"
#include "cpu/common/parallel.hpp"

namespace ado::ADO_ISA {
namespace {

// The ceiling of routines that read `bytes` bytes and write the same number: all threads copy with
// non-temporal stores.
ADO_INLINE void stream_copy(std::byte* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kPiece = 64 << 10;
  const int64_t pieces = (bytes + kPiece - 1) / kPiece;
  in_parallel(threads_for(2 * bytes), [&](int thread, int threads) {
    const int64_t begin = pieces * thread / threads * kPiece;
    Checkpoints checkpoints;
    checkpoints.in_pieces<1, kPiece>(
        begin, min(pieces * (thread + 1) / threads * kPiece, bytes),
        [&](int64_t at, int64_t end) { stream(to + at, from + at, end - at); });
    finish_streaming();
  });
}

}  // namespace
}  // namespace ado::ADO_ISA

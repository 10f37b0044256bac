// Products of matrices in fragments: mma.sync and wmma.mma. The elements of a fragment are
// distributed over the lanes as the PTX manual defines, or, for wmma, as decode.cpp defines.
//
// Sums are computed in float64 and rounded once. Tensor cores add in another order, with fewer
// bits.
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/state.hpp"
#define ADO_ISA baseline
#include "emulator/lanes/half.hpp"

namespace ado::emulator {
namespace {

using namespace baseline;

using Fragment = MatrixProduct::Fragment;

int elements_per_register(Number type) {
  return type == Number::kF16 || type == Number::kBf16 ? 2
         : type == Number::kS8 || type == Number::kU8  ? 4
                                                       : 1;
}

double load(const Warp& warp, u32 r, Number type, int lane, int e) {
  const u8* at = warp.at(r);
  const auto read = [&](auto zero, int index) {
    auto x = zero;
    std::memcpy(&x, at + static_cast<std::size_t>(index) * sizeof x, sizeof x);
    return x;
  };
  switch (type) {
    case Number::kF16:
      return Half::widen(read(u16{}, 2 * lane + e));
    case Number::kBf16:
      return Brain::widen(read(u16{}, 2 * lane + e));
    case Number::kTf32:  // the last 13 bits are ignored
      return std::bit_cast<float>(read(u32{}, lane) & ~0x1fffu);
    case Number::kF32:
      return read(0.f, lane);
    case Number::kF64:
      return read(0.0, lane);
    case Number::kS8:
      return read(s8{}, 4 * lane + e);
    case Number::kU8:
      return read(u8{}, 4 * lane + e);
    case Number::kS32:
      return read(s32{}, lane);
  }
  return 0;
}

void store(Warp& warp, u32 r, Number type, int lane, int e, double value, bool saturates) {
  u8* at = warp.at(r);
  const auto write = [&](auto x, int index) {
    std::memcpy(at + static_cast<std::size_t>(index) * sizeof x, &x, sizeof x);
  };
  switch (type) {
    case Number::kF16:
      return write(Half::narrow<Round::kNearest>(odd_of(value)), 2 * lane + e);
    case Number::kF64:
      return write(value, lane);
    case Number::kS32: {
      const double limited = saturates ? std::fmin(std::fmax(value, -0x1p31), 0x1p31 - 1) : value;
      return write(static_cast<s32>(static_cast<s64>(limited)), lane);
    }
    default:
      return write(static_cast<float>(value), lane);
  }
}

enum class Role : u8 { kLeft, kRight, kSum };

// Calls visit(row, column, register, lane, element of the register).
template <class Visit>
void for_elements(const MatrixProduct& p, const Fragment& f, Role role, const Visit& visit) {
  const int per_register = elements_per_register(f.type);
  const int rows = role == Role::kRight ? p.k : p.m, columns = role == Role::kLeft ? p.k : p.n;
  for (int i = 0; i < f.count; ++i)
    for (int lane = 0; lane < kLanes; ++lane)
      for (int e = 0; e < per_register; ++e) {
        int row, column;
        const int group = lane / 4, within = lane % 4;
        if (p.opaque) {
          const int index = ((i * per_register + e) * kLanes + lane) % (rows * columns);
          row = index / columns, column = index % columns;
        } else if (role == Role::kRight) {
          row = within * per_register + e + i * 4 * per_register, column = group;
        } else if (role == Role::kLeft) {
          const int down = p.m / 8;
          row = group + 8 * (i % down);
          column = within * per_register + e + i / down * 4 * per_register;
        } else {
          const int slot = i * per_register + e;  // two neighbours per row
          row = group + 8 * (slot / 2), column = 2 * within + slot % 2;
        }
        visit(row, column, i, lane, e);
      }
}

}  // namespace

bool multiply_matrices(Worker& worker, Warp& warp, const MatrixProduct& p, int line, u32 mask) {
  if (mask != kAllLanes)
    return report(worker, warp, line, std::countr_zero(~mask), "missing thread",
                  "a product of matrices needs all threads of the warp");
  const Extra& e = worker.program.extras[p.extra];
  const auto loaded = [&](const Fragment& f, Role role) {
    const int columns = role == Role::kLeft ? p.k : p.n;
    std::vector<double> matrix(static_cast<std::size_t>(role == Role::kRight ? p.k : p.m) *
                               static_cast<std::size_t>(columns));
    for_elements(p, f, role, [&](int row, int column, int i, int lane, int element) {
      matrix[row * columns + column] = load(warp, e[f.first + i], f.type, lane, element);
    });
    return matrix;
  };
  const std::vector<double> a = loaded(p.a, Role::kLeft), b = loaded(p.b, Role::kRight);
  std::vector<double> sum = loaded(p.c, Role::kSum);
  for (int row = 0; row < p.m; ++row)
    for (int k = 0; k < p.k; ++k)
      for (int column = 0; column < p.n; ++column) {
        double& s = sum[row * p.n + column];
        s = std::fma(a[row * p.k + k], b[k * p.n + column], s);
      }
  for_elements(p, p.d, Role::kSum, [&](int row, int column, int i, int lane, int element) {
    store(warp, e[p.d.first + i], p.d.type, lane, element, sum[row * p.n + column], p.saturates);
  });
  return true;
}

}  // namespace ado::emulator

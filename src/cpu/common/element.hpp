// Element types of loops that only move elements: they are compiled per element size, not per type.
#pragma once

#include "core/isa.hpp"
#include "core/unsigned.hpp"
#include "cpu/common/vectors.hpp"

namespace ado::ADO_ISA {
namespace {

// An element of 16 bytes is a vector.
template <int kSize>
struct ElementOf : UnsignedOf<kSize> {};
template <>
struct ElementOf<16> {
  using Type = Vector<16, 16>;
};

}  // namespace
}  // namespace ado::ADO_ISA

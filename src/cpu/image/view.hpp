// Temporary: the old names that src/cpu/edge_detect.cpp still includes and uses.
#pragma once

#include "cpu/image/stages.hpp"

namespace ado::ADO_ISA {
namespace {

template <class Fill>
using RowsOf = ImageRows<Fill>;

}  // namespace
}  // namespace ado::ADO_ISA

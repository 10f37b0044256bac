// Temporary: the old name that src/cpu/edge_detect.cpp still includes.
#pragma once

#include "cpu/image/row_kernels.hpp"

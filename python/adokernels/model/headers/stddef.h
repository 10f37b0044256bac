// <stddef.h> for device code, from CCCL.
#pragma once
#include <cuda/std/cstddef>

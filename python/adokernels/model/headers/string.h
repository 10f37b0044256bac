// <string.h> for device code: NVRTC declares memcpy and memset itself.
#pragma once
#include <stddef.h>

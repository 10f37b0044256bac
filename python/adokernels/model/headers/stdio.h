// <stdio.h> for device code: NVRTC declares assert, printf, malloc and abs itself.
#pragma once

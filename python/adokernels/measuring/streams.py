"""CUDA stream handles of other libraries."""

from __future__ import annotations

import sys
from typing import Any

from adokernels import _core


def stream_handle(stream: Any, device: str = "cuda") -> int:
    """The cudaStream_t of a handle or of another library's stream object on a device."""
    if stream is not None:
        return _core.stream_handle(stream)
    return _current_stream(int(_core.resolve_device(device).partition(":")[2]))


def _current_stream(ordinal: int) -> int:
    """The current stream of torch or CuPy if one is in use, else the legacy default stream."""
    handles = set()
    if "torch" in sys.modules and (cuda := sys.modules["torch"].cuda).is_initialized():
        handles.add(int(cuda.current_stream(ordinal).cuda_stream))
    if "cupy" in sys.modules:
        handles.add(int(sys.modules["cupy"].cuda.get_current_stream(ordinal).ptr))
    if len(handles) > 1:
        raise ValueError("torch and CuPy have different current streams; choose one with stream=")
    return handles.pop() if handles else 0

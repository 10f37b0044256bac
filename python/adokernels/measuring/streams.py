"""CUDA stream handles of other libraries."""

from __future__ import annotations

import sys
from typing import Any


def stream_handle(stream: Any) -> int:
    """The cudaStream_t of a handle or of another library's stream object."""
    if stream is None:
        return _current_stream()
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):
        if isinstance(handle := getattr(stream, attribute, None), int):
            return handle
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(f"stream must be a handle or a stream object, got {type(stream).__name__}")


def _current_stream() -> int:
    """The current stream of torch or CuPy if one is in use, else the legacy default stream."""
    handles = set()
    if "torch" in sys.modules and (cuda := sys.modules["torch"].cuda).is_initialized():
        handles.add(int(cuda.current_stream().cuda_stream))
    if "cupy" in sys.modules:
        handles.add(int(sys.modules["cupy"].cuda.get_current_stream().ptr))
    if len(handles) > 1:
        raise ValueError("torch and CuPy have different current streams; choose one with stream=")
    return handles.pop() if handles else 0

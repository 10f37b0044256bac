"""PTX and registers of kernels in a fat binary.

nvcc embeds one fat binary per source file in the core; ``_core.fatbins()`` returns them. It has
code for several architectures. NVIDIA does not document the format.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

from adokernels import _core
from adokernels.machine_code import kernels_in

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A magic number, a version, the bytes of this header, the bytes of the entries.
_HEADER = struct.Struct("<IHHQ")
_MAGIC, _VERSION = 0xBA55ED50, 1
#: Header of an entry: kind, bytes of this header and of the content, bytes of compressed content,
#: architecture, flags.
_ENTRY = struct.Struct("<H2xIQI8xI8xQ")
_PTX, _CUBIN = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000


def ptx_in(fatbin: memoryview, compute: int = 90) -> bytes:
    """The newest PTX that a GPU can use. Zero bytes follow the text.

    Parameters
    ----------
    fatbin
        A fat binary with its header.
    compute
        The compute capability of the GPU, times ten.

    Raises
    ------
    Unavailable
        If there is no such PTX, or it is compressed with LZ4.
    """
    found = {arch: code for kind, arch, code in _entries(fatbin) if kind == _PTX}
    if usable := [arch for arch in found if arch <= compute]:
        return _decompressed(*found[max(usable)])
    raise _core.Unavailable(f"this build has no PTX for compute capability {compute / 10}")


def cubin_in(fatbin: memoryview, compute: int) -> bytes:
    """The machine code for an architecture; Unavailable if there is none."""
    for kind, arch, code in _entries(fatbin):
        if (kind, arch) == (_CUBIN, compute):
            return _decompressed(*code)
    raise _core.Unavailable(f"the fat binary has no machine code for sm_{compute}")


def registers_in(fatbin: memoryview, compute: int = 90) -> dict[str, int]:
    """Registers per thread of each kernel, by mangled name, in machine code for an architecture.

    Without machine code for exactly this architecture, the result is empty. :func:`ptx_in`
    describes the parameters and the errors.
    """
    for kind, arch, code in _entries(fatbin):
        if (kind, arch) == (_CUBIN, compute):
            return {k.symbol: k.registers for k in kernels_in(_decompressed(*code))}
    return {}


def _entries(fatbin: memoryview) -> Iterator[tuple[int, int, tuple[memoryview, int]]]:
    """Kind, architecture, and the content with its flags."""
    magic, version, at, size = _HEADER.unpack_from(fatbin)
    if (magic, version) != (_MAGIC, _VERSION):
        raise _core.Unavailable("the fat binary has an unknown format")
    end = at + size
    while at < end:
        kind, header, length, compressed, arch, flags = _ENTRY.unpack_from(fatbin, at)
        content = fatbin[at + header :][: compressed if flags & _ZSTD else length]
        yield kind, arch, (content, flags)
        at += header + length


def _decompressed(content: memoryview, flags: int) -> bytes:
    if flags & _LZ4:
        raise _core.Unavailable(
            "the fat binary is compressed with LZ4; build it with nvcc -compress-mode=size or none"
        )
    return zstd.decompress(content) if flags & _ZSTD else bytes(content)

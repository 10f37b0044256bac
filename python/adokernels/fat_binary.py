"""PTX and machine code in fat binaries.

nvcc embeds one fat binary per source file in the core; ``_core.fatbins()`` returns them. It has
code for several architectures. NVIDIA does not document the format.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

from adokernels import _core

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


#: A magic number, a version, the bytes of this header, the bytes of the entries.
_HEADER = struct.Struct("<IHHQ")
_MAGIC, _VERSION = 0xBA55ED50, 1
#: Header of an entry: kind, bytes of this header and of the content, bytes of compressed content,
#: architecture, position and bytes of the name of the source file, flags.
_ENTRY = struct.Struct("<H2xIQI8xIIIQ")
_PTX, _CUBIN = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000


def ptx_in(fatbin: memoryview, compute: int = 90) -> bytes:
    """The newest PTX in a fat binary that a GPU of this compute capability, times ten, can use.

    Zero bytes follow the text. Unavailable is raised if there is none, or if LZ4 compresses it.
    """
    found = {arch: code for kind, arch, _, code in _entries(fatbin) if kind == _PTX}
    if usable := [arch for arch in found if arch <= compute]:
        return _decompressed(*found[max(usable)])
    raise _core.Unavailable(f"this build has no PTX for compute capability {compute / 10}")


def cubins_in(fatbins: memoryview, compute: int = 90) -> dict[str, bytes]:
    """The machine code for exactly this architecture, by the path of the source file."""
    found = ((arch, name, code) for kind, arch, name, code in _all(fatbins) if kind == _CUBIN)
    return {name: _decompressed(*code) for arch, name, code in found if arch == compute}


def architectures_in(fatbins: memoryview) -> list[str]:
    """The architectures with machine code, for example ``["sm_90"]``, in order."""
    cubins = (arch for kind, arch, *_ in _all(fatbins) if kind == _CUBIN)
    return [f"sm_{arch}" for arch in dict.fromkeys(cubins)]


#: Kind, architecture, source file, and the content with its flags.
_Entry = tuple[int, int, str, tuple[memoryview, int]]


def _all(fatbins: memoryview) -> Iterator[_Entry]:
    """The entries of consecutive fat binaries, as in the section ``.nv_fatbin``."""
    at = 0
    while at < len(fatbins):
        magic, _, header, size = _HEADER.unpack_from(fatbins, at)
        if magic != _MAGIC:  # zeros between two of them
            at += 8
            continue
        yield from _entries(fatbins[at:])
        at += header + size


def _entries(fatbin: memoryview) -> Iterator[_Entry]:
    magic, version, at, size = _HEADER.unpack_from(fatbin)
    if (magic, version) != (_MAGIC, _VERSION):
        raise _core.Unavailable("the fat binary has an unknown format")
    end = at + size
    while at < end:
        kind, header, length, compressed, arch, name, letters, flags = _ENTRY.unpack_from(
            fatbin, at
        )
        content = fatbin[at + header :][: compressed if flags & _ZSTD else length]
        path = bytes(fatbin[at + name :][:letters]).decode()
        yield kind, arch, path, (content, flags)
        at += header + length


def _decompressed(content: memoryview, flags: int) -> bytes:
    if flags & _LZ4:
        raise _core.Unavailable(
            "the fat binary is compressed with LZ4; build it with nvcc -compress-mode=size or none"
        )
    return zstd.decompress(content) if flags & _ZSTD else bytes(content)

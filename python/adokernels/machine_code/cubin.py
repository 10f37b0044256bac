"""Kernels in a cubin (machine code of one architecture, an ELF file): names and registers."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"\x7fELF"
_SYMBOL_TABLE, _FUNCTION, _ENTRY = 2, 2, 0x10
#: Attributes of the sections ``.nv.info`` and ``.nv.info.KERNEL``.
_REGISTER_COUNT, _REGISTER_LIMIT = 0x2F, 0x1B
#: Format of an attribute that is followed by data; the other formats have at most two bytes.
_WITH_DATA = 4


@dataclass(frozen=True)
class CubinKernel:
    """A kernel in a cubin.

    Attributes
    ----------
    symbol
        The mangled name.
    index
        Its index in the symbol table, by which nvdisasm selects it.
    registers
        Registers per thread.
    register_limit
        The compiler's limit: from launch bounds, from options, or of the architecture.
    """

    symbol: str
    index: int
    registers: int
    register_limit: int


class _Section(NamedTuple):
    """A section of an ELF file: the header's fields, and the content."""

    name: str
    kind: int
    link: int
    content: bytes


def kernels_in(cubin: bytes) -> list[CubinKernel]:
    """The kernels in a cubin, in the order of the symbol table.

    Raises
    ------
    ValueError
        If the code is not a cubin.
    """
    try:
        return list(_kernels(_sections(cubin)))
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise ValueError(f"code must be a cubin, got {len(cubin)} bytes: {error}") from error


def _sections(cubin: bytes) -> list[_Section]:
    if not cubin.startswith(_MAGIC):
        raise ValueError("it has no ELF header")
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<3H", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", cubin, start + i * size) for i in range(count)]
    texts = heads[names][4] if count else 0
    return [
        _Section(_text_at(cubin, texts + name), kind, link, cubin[at : at + length])
        for name, kind, _, _, at, length, link, _ in heads
    ]


def _text_at(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode()


def _kernels(sections: list[_Section]) -> Iterator[CubinKernel]:
    by_name = {section.name: section.content for section in sections}
    registers = dict[int, int]()
    for kind, _, data in _attributes(by_name.get(".nv.info", b"")):
        if kind == _REGISTER_COUNT:
            symbol, count = struct.unpack_from("<II", data)
            registers[symbol] = count
    for table in (section for section in sections if section.kind == _SYMBOL_TABLE):
        texts = sections[table.link].content
        for index, entry in enumerate(struct.iter_unpack("<IBBHQQ", table.content)):
            name, info, other = entry[:3]
            if info & 0xF != _FUNCTION or not other & _ENTRY:
                continue
            symbol = _text_at(texts, name)
            of_kernel = _attributes(by_name.get(f".nv.info.{symbol}", b""))
            limits = [value for kind, value, _ in of_kernel if kind == _REGISTER_LIMIT]
            yield CubinKernel(symbol, index, registers.get(index, 0), limits[0] if limits else 255)


def _attributes(section: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, value and data of the attributes. The value is valid only without data."""
    at = 0
    while at < len(section):
        form, kind, value = struct.unpack_from("<BBH", section, at)
        at += 4
        length = value if form == _WITH_DATA else 0
        yield kind, value, section[at : at + length]
        at += length

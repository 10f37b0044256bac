"""Rewritten kernels: one module per experiment, in which a switch changes exactly one thing.

A constant of the module is the switch, so both forms are the same machine code, and the parameters
of the kernel do not change. The module also reads the limits of the arrays from constants, because
a changed address must stay in the array of the original address.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from adokernels.ptx import KernelText, Statement
from adokernels.whatif.flow import LOADED, MEMORY, Flow, Slot

#: The constant with the switches and the limits, and the array that takes spread atomics.
CONSTANTS, _SPREAD = "ado_what_if", "ado_what_if_spread"
#: The variable to which sums of added instructions are stored.
_SINK = f"{CONSTANTS}_sink"
#: The source files of rewritten modules: for sites, and for arithmetic instructions. The line of an
#: arithmetic instruction is the position of its kind in ``KINDS``.
FILE, ARITHMETIC = "what_if", "what_if_arithmetic"
#: The kinds of arithmetic instructions.
KINDS = {
    "FP32": re.compile(r"(?:add|sub|mul|fma|mad)\.(?:\w+\.)*f32"),
    "FP64": re.compile(r"(?:add|sub|mul|fma|mad)\.(?:\w+\.)*f64"),
    "integer": re.compile(
        r"(?:add|sub|mul|mad|sad|shl|shr|shf|and|or|xor|lop3|min|max|abs|neg|bfe|bfi|prmt|dp[24]a)"
        r"\.(?:\w+\.)*[bsu](?:16|32)"
    ),
}
#: Words per slot: the switch, the first address, the last offset of a warp, the share of a warp.
_WORDS = 4
_SPREAD_BYTES = 1 << 20
#: Lines of the window that fits in L1. A power of two would map a column of a matrix to one line.
LINES, LINE = 127, 128
#: Line numbers below this power of two are divided exactly by a multiplication.
_FEWER = 1 << 25
#: The only value that is stored in the experiment without stores.
_MAGIC = 0x9E3779B9
#: A value that the sums of added instructions never reach.
_KEPT = 0x5BD1E995
#: Accesses that communicate with other threads.
ORDERED = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
_KINDS = {"ld": "loads", "st": "stores", "atom": "atomics", "red": "atomics"}


@dataclass(frozen=True)
class Site:
    """A statement that accesses memory or synchronises, by its position in the kernel."""

    index: int
    statement: Statement
    #: Where the address comes from: parameters that may be pointers, variables, loads.
    origins: frozenset[Slot] = frozenset()

    @property
    def kind(self) -> str:
        """The name of its counts, for example ``"global_stores"``; empty if it has no address."""
        base, space = self.statement.base, self.statement.space
        if "shared::cluster" in self.statement.words:  # of another block
            return ""
        if base == "cp":  # cp.async; its last address is the source
            return "global_loads"
        return f"{space}_{_KINDS[base]}" if base in _KINDS and space else ""


class Dose(NamedTuple):
    """Arithmetic instructions of a kind that are added to each instruction of the kind `place`."""

    kind: str
    place: str
    number: int

    @property
    def type(self) -> str:
        """The type of the two registers in which the added instructions accumulate."""
        return {"FP32": "f32", "FP64": "f64"}.get(self.kind, "b32")

    @property
    def kept(self) -> Sequence[str]:
        """A store that is never executed, so that ptxas keeps the sums."""
        bits = f"b{self.type[1:]}"
        return (
            f"setp.eq.{bits} %ado_kept, %ado_sum0, {_KEPT};",
            f"setp.eq.and.{bits} %ado_kept, %ado_sum1, {_KEPT}, %ado_kept;",
            f"@%ado_kept st.global.{self.type} [{_SINK}], %ado_sum0;",
        )


@dataclass(frozen=True)
class Code:
    """A kernel with its sites."""

    kernel: KernelText

    @cached_property
    def flow(self) -> Flow:
        """The data flow."""
        return Flow(self.kernel)

    @cached_property
    def sites(self) -> dict[int, Site]:
        """The accesses and barriers, by their position."""
        found = {}
        for index, statement in enumerate(self.kernel.body):
            accesses = statement.base in MEMORY and not {"param", "const"} & {*statement.words}
            if accesses and (statement.base != "cp" or statement.address):
                known = statement.space in ("global", "shared") and "bulk" not in statement.words
                origins = self.flow.origins(statement.address) if known else frozenset()
                found[index] = Site(index, statement, origins)
            elif statement.opcode.startswith(("bar.sync", "barrier.sync", "bar.cta.sync")):
                found[index] = Site(index, statement)
        return found

    @cached_property
    def arithmetic(self) -> dict[int, str]:
        """The kinds of the arithmetic instructions, by their position."""
        return {
            index: kind
            for index, statement in enumerate(self.kernel.body)
            for kind, opcode in KINDS.items()
            if opcode.fullmatch(statement.opcode)
        }

    def shared_array(self, site: Site) -> tuple[str, int] | None:
        """Name and bytes of the array of an access to shared memory; None if it is unknown.

        The launch determines the size of dynamic shared memory, which is 0 here.
        """
        variables = self.kernel.variables
        found = [s.parameter for s in site.origins if s.parameter in variables]
        return (found[0], variables[found[0]].bytes) if len(found) == 1 else None

    @cached_property
    def deciding(self) -> frozenset[int]:
        """The positions of loads and atomics that decide control flow or addresses."""
        decisive = {id(s) for s in self.flow.deciding}
        return frozenset(i for i, s in enumerate(self.kernel.body) if id(s) in decisive)

    def uses(self, *beginnings: str) -> bool:
        """Whether the kernel has an instruction that begins like this."""
        return any(s.opcode.startswith(beginnings) for s in self.kernel.body)

    @property
    def header(self) -> str:
        """The part of rewritten modules before the constants and the kernel."""
        return f'{self.kernel.header}\n.file 1 "{FILE}"\n.file 2 "{ARITHMETIC}"\n'

    @property
    def probe(self) -> str:
        """The original kernel, with its own source line for each site."""
        return Writer(self, {}).text()


def line_of(index: int) -> int:
    """The source line of a site in rewritten modules; line 1 has all other statements."""
    return index + 2


def _line_of_kind(kind: str) -> str:
    return f".loc 2 {1 + list(KINDS).index(kind)} 0"


@dataclass
class Writer:
    """Writes a module in which some statements are changed.

    `changes` returns the statements that replace a site's statement.
    """

    code: Code
    changes: Mapping[int, Callable[[Writer, Site], Sequence[str]]]
    #: The slot of each changed access to global memory; its position is the group of constants.
    slots: Mapping[int, Slot] = field(default_factory=dict)
    #: Whether warps walk through the arrays.
    streams: bool = False
    spreads: bool = False
    dose: Dose | None = None

    def __post_init__(self) -> None:
        self.groups = list(dict.fromkeys(self.slots.values())) or [LOADED]

    @cached_property
    def sizes(self) -> list[int]:
        """The largest access of each group, in bytes per lane."""
        sites = self.code.sites
        return [
            max((sites[i].statement.bytes for i, s in self.slots.items() if s == g), default=16)
            for g in self.groups
        ]

    @cached_property
    def order(self) -> dict[int, int]:
        """The position of each changed statement among the changed ones."""
        return {index: number for number, index in enumerate(self.changes)}

    def group(self, site: Site) -> int:
        """The group of constants of a site."""
        return self.groups.index(self.slots[site.index]) if site.index in self.slots else 0

    @staticmethod
    def constant(group: int, word: int) -> str:
        """The operand of a load of a constant."""
        return f"[{CONSTANTS}+{8 * (_WORDS * group + word)}]"

    def text(self) -> str:
        """The constants and the kernel, which follow the header."""
        kernel = self.code.kernel
        body: list[str] = []
        started = False
        for index, statement in enumerate(kernel.body):
            if not started and statement.opcode:
                body += [".loc 1 1 0", *self._start()]
                started = True
            site, kind = self.code.sites.get(index), self.code.arithmetic.get(index)
            if site is None and kind is None:
                if self.dose and statement.ends:
                    body += self.dose.kept
                body.append(statement.text)
                continue
            change = self.changes.get(index)
            lines = change(self, site or Site(index, statement)) if change else [statement.text]
            line = _line_of_kind(kind) if kind else f".loc 1 {line_of(index)} 0"
            body += [line, *lines, ".loc 1 1 0"]
        arrays = f".global .align 256 .b8 {_SPREAD}[{_SPREAD_BYTES}];\n" if self.spreads else ""
        arrays += f".global .align 8 .b64 {_SINK};\n" if self.dose else ""
        constants = _WORDS * len(self.groups)
        return (
            f"{arrays}.const .align 8 .b64 {CONSTANTS}[{constants}];\n"
            f"{kernel.signature}{{\n" + "\n".join(body) + "\n}\n"
        )

    def _start(self) -> Iterator[str]:
        """The statements before the first one: switches, and the place of the warp."""
        if not self.changes:
            return
        if self.dose:
            kind = self.dose.type
            yield f".reg .pred %ado_kept; .reg .{kind} %ado_sum<2>, %ado_factor;"
            for i, name in ((0, "sum0"), (1, "sum1"), (3, "factor")):
                yield f"ld.const.{kind} %ado_{name}, {self.constant(0, i)};"
            return
        yield ".reg .pred %ado_on<64>, %ado_off<64>;"
        yield ".reg .b32 %ado_lane, %ado_t<8>;"
        yield ".reg .b64 %ado_w<8>, %ado_place<64>, %ado_warp;"
        for group in range(len(self.groups)):
            yield f"ld.const.b64 %ado_w0, {self.constant(group, 0)};"
            yield f"setp.ne.b64 %ado_on{group}, %ado_w0, 0;"
            yield f"not.pred %ado_off{group}, %ado_on{group};"
        yield "mov.u32 %ado_lane, %laneid;"
        if not (self.streams or self.spreads):
            return
        for text in (
            "mov.u32 %t0, %tid.z; mov.u32 %t1, %ntid.y; mov.u32 %t2, %tid.y;",
            "mad.lo.u32 %t0, %t0, %t1, %t2; mov.u32 %t2, %ntid.x; mov.u32 %t3, %tid.x;",
            "mad.lo.u32 %t0, %t0, %t2, %t3; shr.u32 %t0, %t0, 5;",  # the warp in the block
            "mul.lo.u32 %t1, %t1, %t2; mov.u32 %t2, %ntid.z; mul.lo.u32 %t1, %t1, %t2;",
            "add.u32 %t1, %t1, 31; shr.u32 %t1, %t1, 5;",  # warps per block
            "mov.u32 %t2, %ctaid.z; mov.u32 %t3, %nctaid.y; mul.wide.u32 %w0, %t2, %t3;",
            "mov.u32 %t2, %ctaid.y; cvt.u64.u32 %w1, %t2; add.u64 %w0, %w0, %w1;",
            "mov.u32 %t2, %nctaid.x; cvt.u64.u32 %w1, %t2; mov.u32 %t3, %ctaid.x;",
            "cvt.u64.u32 %w2, %t3; mad.lo.u64 %w0, %w0, %w1, %w2; cvt.u64.u32 %w1, %t1;",
            "cvt.u64.u32 %w2, %t0; mad.lo.u64 %ado_warp, %w0, %w1, %w2;",
        ):
            yield re.sub(r"%([tw]\d)", r"%ado_\1", text)
        for group in range(len(self.groups)) if self.streams else ():
            yield f"ld.const.b64 %ado_w0, {self.constant(group, 3)};"
            yield f"mul.lo.u64 %ado_place{group}, %ado_warp, %ado_w0;"
            yield f"and.b64 %ado_place{group}, %ado_place{group}, -32;"
            yield f"ld.const.b64 %ado_w1, {self.constant(group, 2)};"
            yield f"min.u64 %ado_place{group}, %ado_place{group}, %ado_w1;"

    # --- Changed statements -----------------------------------------------------------------------

    def moved(
        self, site: Site, address: Sequence[str], after: Sequence[str] = (), width: int = 64
    ) -> list[str]:
        """An access at another address if the switch is on.

        The statements of `address` compute #n, the new address, from #a, the original one.
        """
        statement = site.statement
        base, _, offset = statement.address.partition("+")
        place = statement.text.rindex("[") if statement.base == "cp" else statement.text.index("[")
        end = statement.text.index("]", place)
        lines = [
            f"mov.b{width} #a, {base};",
            f"add.s{width} #a, #a, {offset.strip() or 0};",
            *address,
            f"selp.b{width} #a, #n, #a, %ado_on{self.group(site)};",
            f"{statement.text[:place]}[#a{statement.text[end:]}",
            *after,
        ]
        return _named(site, lines, width)

    def guarded(self, site: Site, condition: Sequence[str]) -> list[str]:
        """A statement that is executed only if #q is true. `condition` computes #q."""
        statement = site.statement
        lines, text = list(condition), statement.text
        if statement.guard:
            text = re.sub(r"^@!?[\w$%]+\s+", "", text)
            lines += [f"{'not' if statement.negated else 'mov'}.pred #p, {statement.guard};"]
            lines += ["and.pred #q, #q, #p;"]
        return _named(site, [*lines, f"@#q {text}"])


def _named(site: Site, lines: Sequence[str], width: int = 64) -> list[str]:
    """Declare the temporary registers of a site, such as #a, and give them names of their own."""
    text = "\n".join(lines)
    types = ((f".b{width}", "an"), (".b64", "lm"), (".b32", "forst"), (".pred", "pq"))
    for kind, letters in types:
        for letter in letters:
            if f"#{letter}" in text:
                name = f"%ado_{letter}_{site.index}"
                text = f".reg {kind} {name};\n" + text.replace(f"#{letter}", name)
    return text.split("\n")


def near(writer: Writer, site: Site) -> list[str]:
    """All lanes access the line of the first active lane, side by side."""
    begin, last = (writer.constant(writer.group(site), word) for word in (1, 2))
    return writer.moved(
        site,
        [
            f"ld.const.b64 #n, {begin};",
            "sub.u64 #m, #a, #n; shr.u64 #m, #m, 7; cvt.u32.u64 #r, #m;",
            "activemask.b32 #s; brev.b32 #f, #s; clz.b32 #f, #f;",
            "shfl.sync.idx.b32 #r, #r, #f, 31, #s;",
            f"mul.wide.u32 #m, #r, {LINE};",
            f"ld.const.b64 #l, {last}; min.u64 #m, #m, #l; add.u64 #n, #n, #m;",
            f"mul.wide.u32 #m, %ado_lane, {site.statement.bytes}; add.u64 #n, #n, #m;",
        ],
    )


def stream(writer: Writer, site: Site) -> list[str]:
    """Each warp walks through its part of the array, and begins again at the end."""
    group, size = writer.group(site), site.statement.bytes
    place = f"%ado_place{group}"
    return writer.moved(
        site,
        [
            f"ld.const.b64 #n, {writer.constant(group, 1)}; add.u64 #n, #n, {place};",
            f"mul.wide.u32 #m, %ado_lane, {size}; add.u64 #n, #n, #m;",
        ],
        [
            f"add.u64 {place}, {place}, {32 * size};",
            f"ld.const.b64 #l, {writer.constant(group, 2)}; setp.gt.u64 #q, {place}, #l;",
            f"selp.b64 {place}, 0, {place}, #q;",
        ],
    )


def in_l1(writer: Writer, site: Site) -> list[str]:
    """The line of the address, modulo the lines of a window at the beginning of the array."""
    return writer.moved(
        site,
        [
            f"ld.const.b64 #n, {writer.constant(writer.group(site), 1)};",
            "sub.u64 #m, #a, #n; cvt.u32.u64 #s, #m; shr.u64 #m, #m, 7; cvt.u32.u64 #r, #m;",
            f"and.b32 #r, #r, {_FEWER - 1}; mul.hi.u32 #t, #r, {-(-(1 << 32) // LINES)};",
            f"mul.lo.u32 #t, #t, {LINES}; sub.u32 #r, #r, #t; and.b32 #s, #s, {LINE - 1};",
            f"mad.lo.u32 #r, #r, {LINE}, #s; cvt.u64.u32 #m, #r; add.u64 #n, #n, #m;",
        ],
    )


def own_bank(writer: Writer, site: Site) -> list[str]:
    """The row of the address in its array of shared memory, in the bank of the lane."""
    register = site.statement.address.partition("+")[0].strip()
    width = 64 if writer.code.kernel.type_of(register).endswith("64") else 32
    narrow, widen = ("cvt.u32.u64", "cvt.u64.u32") if width == 64 else ("mov.b32", "mov.b32")
    size = max(4, site.statement.bytes)
    array = writer.code.shared_array(site)
    begin, length = array or ("0", 0)
    last = f"ld.const.u32 #t, {writer.constant(0, 1 if array else 2)};"
    if length:
        last = f"mov.u32 #t, {length // LINE * LINE - LINE};"
    return writer.moved(
        site,
        [
            f"{narrow} #r, #a; mov.u32 #s, {begin}; sub.u32 #r, #r, #s; and.b32 #r, #r, {-LINE};",
            f"{last} min.u32 #r, #r, #t; add.u32 #r, #r, #s;",
            f"mul.lo.u32 #s, %ado_lane, {size}; and.b32 #s, #s, {LINE - 1};",
            f"add.u32 #r, #r, #s; {widen} #n, #r;",
        ],
        width=width,
    )


def not_stored(writer: Writer, site: Site) -> list[str]:
    """A store with a predicate that is true for one 32-bit value.

    If the predicate did not depend on the value, ptxas would also remove the computation of the
    value. ptxas does not know the constant. Values of 8 and 16 bits never equal it.
    """
    kernel, lines = writer.code.kernel, ["mov.b32 #r, 0;"]
    for value in dict.fromkeys(kernel.registers(site.statement.operands[1])):
        kind = kernel.type_of(value)
        if kind.endswith("64"):
            lines.append(f"mov.b64 {{#s, #o}}, {value}; xor.b32 #r, #r, #o;")
        elif kind.endswith("16"):
            lines.append(f"mov.b32 #s, {{{value}, {value}}};")
        else:
            lines.append(f"mov.b32 #s, {value};")
        lines.append("xor.b32 #r, #r, #s;")
    lines.append(f"ld.const.u32 #s, {writer.constant(0, 3)}; setp.eq.u32 #q, #r, #s;")
    lines.append("or.pred #q, #q, %ado_off0;")
    return writer.guarded(site, lines)


def no_barrier(writer: Writer, site: Site) -> list[str]:
    """A barrier with a predicate."""
    return writer.guarded(site, ["mov.pred #q, %ado_off0;"])


def dosed(writer: Writer, site: Site) -> list[str]:
    """The added instructions, which update the sums in turn, and then the original instruction.

    Added integer instructions alternate between a product and a logical operation, because ptxas
    would combine equal operations.
    """
    statement, dose = site.statement, writer.dose or Dose("", "", 0)
    guard = re.match(r"@!?[\w$%]+\s+|", statement.text)
    first = writer.order[site.index] * dose.number
    lines = [_line_of_kind(dose.kind)]
    for number in range(first, first + dose.number):
        place = f"%ado_sum{number % 2}"
        if dose.kind != "integer":
            text = f"fma.rn.{dose.type} {place}, {place}, %ado_factor, {place};"
        elif number // 2 % 2:
            text = f"xor.b32 {place}, {place}, %ado_factor;"
        else:
            text = f"mad.lo.s32 {place}, {place}, %ado_factor, {place};"
        lines.append((guard[0] if guard else "") + text)
    return [*lines, _line_of_kind(dose.place), statement.text]


def spread(writer: Writer, site: Site) -> list[str]:
    """Each thread updates a place of its own: in shared memory its bank, else another array."""
    if site.statement.space == "shared":
        return own_bank(writer, site)
    return writer.moved(
        site,
        [
            "mul.lo.u64 #m, %ado_warp, 32; cvt.u64.u32 #n, %ado_lane; add.u64 #m, #m, #n;",
            f"mul.lo.u64 #m, #m, {site.statement.bytes}; and.b64 #m, #m, {_SPREAD_BYTES - 1};",
            f"mov.u64 #n, {_SPREAD}; add.u64 #n, #n, #m;",
        ],
    )


def limits(
    writer: Writer, memory: Callable[[Slot], tuple[int, int]], warps: int, on: bool, dynamic: int
) -> bytes:
    """The values of the constants of a launch.

    `memory` returns the first address and the bytes of the array of a slot, and `dynamic` is the
    dynamic shared memory of a block. The switch of an array that is too small is off.
    """
    words: list[int] = []
    for group, size in zip(writer.groups, writer.sizes, strict=True):
        if group == LOADED:
            shared = (dynamic, writer.code.kernel.shared_bytes + dynamic)
            words += [int(on), *(max(0, bytes_ // LINE - 1) * LINE for bytes_ in shared), _MAGIC]
            continue
        begin, length = memory(group)
        first = math.ceil(begin / LINE) * LINE
        length -= first - begin
        fits = length >= (LINES * LINE if in_l1 in writer.changes.values() else 32 * size)
        last = max(0, length - 32 * size) & -32
        words += [int(on and fits), first, last, length // max(warps, 1)]
    return struct.pack(f"<{len(words)}Q", *words)

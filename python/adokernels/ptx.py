"""PTX as text: the parts of a module, and the statements of one kernel."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

_NAME = r"[\w$%]+"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
#: Directives that end with their line, at the top level and in a kernel.
_LINE = re.compile(r"\.(?:version|target|address_size|loc|file)\b[^\n]*")
_LABEL = re.compile(rf"{_NAME}\s*:(?!:)")
_FUNCTION = re.compile(rf"\.(entry|func)\b(?:\s*\([^)]*\))?\s*({_NAME})")
#: Space, bits and name of a variable, and its lengths.
_DECLARED = re.compile(
    rf"\.(global|const|shared|local)\b[^=;{{(]*\.[busf](\d+)\s+({_NAME})\s*((?:\[\d*\])*)\s*(?:[=;]|$)"
)
#: The position, and the position at which the function was inlined.
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+))?")
#: Alignment, type, bits, name and length of a parameter.
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([bsuf](\d+))\b[^,()]*?([\w$]+)(?:\[(\d+)\])?\s*(?=[,)])"
)
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_INSTRUCTION = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*?)\s*;?\s*", re.DOTALL)
_REG = re.compile(r"\.reg\s+(?:\.v\d\s+)?\.(\w+)\s+(.*?)\s*;", re.DOTALL)
_TYPE = re.compile(r"[busf](8|16|32|64|128)|b?f16x2|bf16")
#: Instructions whose first operand is not a result.
_NO_RESULT = frozenset(
    (
        *("st", "red", "bar", "barrier", "bra", "brx", "ret", "exit", "trap", "cp", "prefetch"),
        *("prefetchu", "nanosleep", "call", "wgmma", "stmatrix", "tensormap", "discard"),
        *("setmaxnreg", "griddepcontrol", "applypriority"),
    )
)
_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")


class Line(NamedTuple):
    """A position in a source file."""

    file: int  # the number of a .file directive
    line: int


class Variable(NamedTuple):
    """A variable of a module or of a kernel."""

    space: str
    bytes: int  # 0 if the launch determines it


class Parameter(NamedTuple):
    """A parameter of a kernel: its place in the values of all parameters, and its type."""

    offset: int
    bytes: int
    type: str  # for example "f32"; "b8" for a structure


_NOWHERE = Line(0, 0)


@dataclass(frozen=True)
class Statement:
    """A statement of a kernel: an instruction if it has an opcode."""

    text: str
    at: Line = _NOWHERE
    negated: bool = False
    guard: str = ""  # a predicate
    opcode: str = ""
    operands: tuple[str, ...] = ()

    @cached_property
    def words(self) -> list[str]:
        """The parts of the opcode."""
        return self.opcode.split(".")

    @property
    def base(self) -> str:
        """For example ``"ld"``."""
        return self.words[0]

    @cached_property
    def space(self) -> str:
        """The memory space; empty for generic addresses and other instructions."""
        if self.base == "cp" and "global" in self.words:
            return "global"
        return next((w.split("::")[0] for w in self.words if w in _SPACES), "")

    @cached_property
    def bytes(self) -> int:
        """Bytes per lane of an access."""
        if self.base == "cp":
            return int(self.operands[2], 0) if self.operands[2:] else 0
        bits = [int(found[1]) for w in self.words[1:] if (found := _TYPE.fullmatch(w)) and found[1]]
        vector = next((int(w[1:]) for w in self.words if w in ("v2", "v4", "v8")), 1)
        return bits[-1] // 8 * vector if bits else 0

    @property
    def results(self) -> str:
        """The text with the registers that it writes."""
        if self.base in _NO_RESULT and not self.opcode.startswith(("bar.red", "barrier.red")):
            return ""
        return self.operands[0] if self.operands else ""

    @property
    def inputs(self) -> str:
        """The text with the registers that it reads, without its predicate."""
        return " , ".join(self.operands[1:] if self.results else self.operands)

    @property
    def ends(self) -> bool:
        """Whether all threads that execute it end."""
        return self.base in ("ret", "exit") and not self.guard

    @cached_property
    def address(self) -> str:
        """The address of an access, without brackets: the source of a copy to shared memory."""
        found = [o for o in self.operands if o.startswith("[")]
        return found[-1][1:-1].strip() if found else ""


@dataclass(frozen=True)
class KernelText:
    """A kernel that is cut out of its module, with everything that it uses."""

    name: str
    header: str  # the module before the kernel
    signature: str  # up to the opening brace
    body: tuple[Statement, ...]
    files: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def types(self) -> dict[str, str]:
        """Types of registers by name; a name that ends with < has numbered registers."""
        found = {}
        for statement in self.body:
            if declared := _REG.fullmatch(statement.text):
                for name in declared[2].split(","):
                    plain, many, _ = name.strip().partition("<")
                    found[plain + many] = declared[1]
        return found

    def type_of(self, register: str) -> str:
        """The type of a register; empty if the word is not a register."""
        numbered = register.rstrip("0123456789") + "<"
        return self.types.get(register) or self.types.get(numbered, "")

    @cached_property
    def _registers(self) -> dict[str, list[str]]:
        return {}

    def registers(self, text: str) -> list[str]:
        """The registers in a text."""
        if text not in self._registers:
            words = re.findall(r"%?[A-Za-z_$][\w$]*", text)
            self._registers[text] = [word for word in words if self.type_of(word)]
        return self._registers[text]

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, in order."""
        return parameters_in(self.signature)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The variables of the module and of the kernel."""
        found = {}
        for text in [*self.header.split(";"), *(s.text for s in self.body if not s.opcode)]:
            if declared := _DECLARED.search(text):
                space, bits, name, many = declared.groups()
                size = int(bits) // 8 * math.prod(map(int, re.findall(r"\d+", many or "")))
                found[name] = Variable(space, 0 if many == "[]" else size)
        return found

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory, without padding."""
        return sum(v.bytes for v in self.variables.values() if v.space == "shared")


def signatures(module: str) -> dict[str, str]:
    """The text of each kernel of a module up to its opening brace, by mangled name."""
    plain = _COMMENT.sub("", module)
    entries = (found for found in _FUNCTION.finditer(plain) if found[1] == "entry")
    return {found[2]: plain[found.start() :].partition("{")[0] for found in entries}


def parameters_in(signature: str) -> dict[str, Parameter]:
    """The parameters of a kernel by name, in order."""
    found, end = dict[str, Parameter](), 0
    for least, kind, bits, name, many in _PARAMETER.findall(signature):
        size = int(bits) // 8
        align = int(least or size)
        begin = (end + align - 1) // align * align
        found[name] = Parameter(begin, size * int(many or 1), kind)
        end = begin + found[name].bytes
    return found


def cut(module: str, name: str) -> KernelText:
    """Cut a kernel out of a module, with the functions and variables that it uses.

    Debug information is omitted; statements know their source lines.
    """
    module = _COMMENT.sub(lambda c: " " * (not c[0].startswith("//")), module)
    parts, files = _parts(module), {}
    named, first = dict[str, str](), []
    for part in parts:
        if file := _FILE.match(part):
            files[int(file[1])] = file[2]
        elif part.startswith((".version", ".target", ".address_size")):
            first.append(part)
        elif found := _FUNCTION.search(part.partition("{")[0]) or _DECLARED.search(part):
            symbol = found[2] if found.re is _FUNCTION else found[3]
            # A prototype precedes its function.
            named[symbol] = "\n".join(filter(None, [named.get(symbol, ""), part]))
    text = named[name]
    needed, new = {name}, [name]
    while new:
        words = set(re.findall(r"[\w$]+", named[new.pop()])) & named.keys()
        new += sorted(words - needed)
        needed |= words
    kept = [without_lines(p) for symbol, p in named.items() if symbol in needed and symbol != name]
    signature, _, body = text.partition("{")
    statements = tuple(_statements(body[: body.rindex("}")]))
    return KernelText(name, "\n".join([*first, *kept]), signature, statements, files)


def without_lines(text: str) -> str:
    """Remove the source lines."""
    return re.sub(r"^\s*\.loc\b[^\n]*\n", "", text, flags=re.MULTILINE)


def _parts(module: str) -> Iterator[str]:
    """The directives, declarations and functions of a module."""
    at, end = 0, len(module)
    brace = re.compile(r"[{}]")
    while at < end:
        if module[at].isspace():
            at += 1
            continue
        if line := _LINE.match(module, at):
            yield line[0]
            at = line.end()
            continue
        stop = re.compile(r"[;{]").search(module, at)
        if stop is None:
            return
        last = stop.end()
        if stop[0] == "{":
            depth = 1
            while depth and (found := brace.search(module, last)):
                depth += 1 if found[0] == "{" else -1
                last = found.end()
            if not re.match(r"(\.\w+\s+)*\.(entry|func)\b|\.section", module[at : stop.end()]):
                last = module.index(";", last) + 1  # an initialised variable
        yield module[at:last]
        at = last


def _statements(body: str) -> Iterator[Statement]:
    at, line = 0, _NOWHERE
    while at < len(body):
        if body[at].isspace():
            at += 1
        elif found := _LINE.match(body, at):
            if loc := _LOC.match(found[0]):
                line = Line(int(loc[3] or loc[1]), int(loc[4] or loc[2]))
            at = found.end()
        elif body[at] in "{}":
            yield Statement(body[at])
            at += 1
        elif found := _LABEL.match(body, at):
            yield Statement(found[0])
            at = found.end()
        else:
            end = body.index(";", at) + 1
            yield _statement(body[at:end], line)
            at = end


def _statement(text: str, at: Line) -> Statement:
    found = _INSTRUCTION.fullmatch(text)
    if not found:
        return Statement(text, at)
    negated, guard, opcode, operands = found.groups()
    return Statement(text, at, bool(negated), guard or "", opcode, tuple(_split(operands)))


def _split(operands: str) -> Sequence[str]:
    """Split operands at commas outside of brackets and braces."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(operands):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            found.append(operands[start:at].strip())
            start = at + 1
    return [*found, last] if (last := operands[start:].strip()) else found

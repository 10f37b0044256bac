"""The definitions in a C++ file of this project: a scanner for code laid out by clang-format.

It supports only what the files contain: namespaces, functions, types, constants and lists of
variants. clang-format writes no space inside template brackets, and spaces around comparisons. This
distinguishes them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Comments, literals and preprocessor lines. An apostrophe after a digit separates digits.
_NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*#(?:[^\n\\]|\\.)*",
    re.DOTALL | re.MULTILINE,
)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_NAMESPACE = re.compile(r"(?:(?:inline )?namespace\b[\w\s:]*|extern\s*)\{")
_TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)\s+(\w+)")
_WITH_ARGUMENTS = re.compile(
    r"\b(?:__launch_bounds__|__align__|__attribute__|alignas|requires)\s*\("
)
# A name in code, not a member of an object and not a name of another scope.
_REFERENCE = re.compile(
    r"(?<![\w.])(?<!->)(?:(\w+)(?:<[^<>;(){}]*>)?::(?:template )?)?([A-Za-z_]\w*)"
)
_NAMESPACES = {"ado", "cuda", "gpp", "cublas"}
# `Type name` followed by what can follow a declared name.
_DECLARED = re.compile(
    r"([\w>])[*&]* (?:const )?[*&]*\(?[*&]?([A-Za-z_]\w*)\)?(?=\s*(?:[=;,){(\[:]))"
)
_NOT_A_TYPE = {
    *("return", "else", "case", "new", "delete", "throw", "goto", "co_return", "operator", "using"),
    *("typename", "template", "namespace", "public", "private", "struct", "class"),
}
_ALSO_DECLARED = re.compile(r", [*&]?([A-Za-z_]\w*) = ")
_BINDING = re.compile(r"\bauto&* \[([\w, ]+)\]")
_CONSTANT = re.compile(r"k[A-Z]")


def blank(text: str) -> str:
    """Replace comments, literals and preprocessor lines by spaces; positions stay the same."""
    return _NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def matching(code: str, at: int) -> int:
    """The position after the bracket that closes the bracket at `at`."""
    stack: list[str] = []
    for i in range(at, len(code)):
        letter = code[i]
        if letter in _CLOSES:
            stack.append(_CLOSES[letter])
        elif stack and letter == stack[-1]:
            stack.pop()
            if not stack:
                return i + 1
    raise ValueError("unbalanced brackets")


def matching_angle(code: str, at: int) -> int:
    """The position after the template bracket that closes the one at `at`."""
    depth, i = 0, at
    while i < len(code):
        letter = code[i]
        if letter in _CLOSES:
            i = matching(code, i)
            continue
        depth += (letter == "<") - (letter == ">")
        i += 1
        if depth == 0:
            return i
    raise ValueError("unbalanced template brackets")


def opens_template(code: str, at: int) -> bool:
    """Whether the ``<`` at `at` starts template arguments, not a comparison."""
    return (
        0 < at < len(code) and code[at] == "<" and (code[at - 1].isalnum() or code[at - 1] == "_")
    )


def split_top(code: str, begin: int, end: int, separator: str = ",") -> Iterator[tuple[int, int]]:
    """The ranges between separators that are outside all brackets."""
    i = first = begin
    while i < end:
        if code[i] in _CLOSES:
            i = matching(code, i)
        elif opens_template(code, i):
            i = matching_angle(code, i)
        else:
            if code[i] == separator:
                yield first, i
                first = i + 1
            i += 1
    yield first, end


@dataclass(frozen=True)
class Definition:
    """A function, type, constant or alias in a file.

    Attributes
    ----------
    path
        The file, relative to the folder of the sources.
    line, last_line
        The first line, with the comment above, and the last line; the first line of a file is 1.
    names
        What it defines: one name, or several constants. An operator is ``"operator+"``.
    kind
        ``"kernel"``, ``"device"``, ``"function"``, ``"type"``, ``"alias"`` or ``"constant"``.
    text
        The lines, as they are in the file.
    code
        The definition without comments and literals.
    parameters
        The code of a function's parameters.
    """

    path: str
    line: int
    last_line: int
    names: tuple[str, ...]
    kind: str
    text: str
    code: str
    parameters: str = ""

    @property
    def name(self) -> str:
        """What it defines; of several constants, the first."""
        return self.names[0]

    @functools.cached_property
    def references(self) -> tuple[str, ...]:
        """The names that its code refers to, in order, except members, parameters and locals."""
        return references(self.code, _local_names(self.code))


def accepts_call(definition: Definition, code: str) -> bool:
    """Whether code can refer to this overload of a function, by the number of arguments."""
    if not definition.parameters or "..." in definition.parameters:
        return True
    ranges = list(split_top(definition.parameters, 1, len(definition.parameters) - 1))
    parts = [definition.parameters[a:b].strip() for a, b in ranges]
    parts = [part for part in parts if part]
    fewest = sum("=" not in part for part in parts)
    for match in re.finditer(rf"\b{re.escape(definition.name)}\b", code):
        at = match.end()
        if opens_template(code, at):
            at = matching_angle(code, at)
        if not code.startswith("(", at):
            return True  # its address
        end = matching(code, at)
        given = [a for a in split_top(code, at + 1, end - 1) if code[a[0] : a[1]].strip()]
        if fewest <= len(given) <= len(parts):
            return True
    return definition.name.startswith("operator")


def references(code: str, known: set[str]) -> tuple[str, ...]:
    """The names that code refers to, in order, except those in `known`."""
    found: dict[str, None] = {}
    for match in _REFERENCE.finditer(code):
        scope, name = match.groups()
        if scope is not None and scope not in known:
            found.setdefault(scope)
        if (scope is None or scope in _NAMESPACES) and name not in known:
            found.setdefault(name)
    return tuple(found)


def _local_names(code: str) -> set[str]:
    head, i = set[str](), code.find("{")
    for match in re.finditer(r"\btemplate\s*(?=<)", code):
        begin, end = match.end() + 1, matching_angle(code, match.end()) - 1
        for first, last in split_top(code, begin, end):
            part = code[first:last].split("=")[0]
            pointer = re.search(r"\(\*(\w+)\)", part)
            words = re.findall(r"\w+", part)
            head |= {pointer[1]} if pointer else set(words[-1:])
    for match in re.finditer(r"\]<class (\w+)>", code):  # of a lambda
        head.add(match[1])
    for match in _DECLARED.finditer(code):
        before = re.search(r"(\w*)[>*&]*$", code[: match.start() + 1])
        if before and (before[1] in _NOT_A_TYPE or before[1].isdigit()):
            continue
        declared = code.startswith(" = ", match.end())
        if _CONSTANT.match(match[2]) and not declared:
            continue  # a size, as in `int tile[kRows]` or `__launch_bounds__(kRows* kCols)`
        # A declaration of the file's own scope ends before its body.
        if i < 0 or match.start() > i or "(" in code[: match.start()]:
            head.add(match[2])
    head |= {m[1] for m in _ALSO_DECLARED.finditer(code)}
    head |= {name for m in _BINDING.finditer(code) for name in m[1].split(", ")}
    head |= {m[1] for m in re.finditer(r"\busing (\w+) =", code[max(i, 0) :])}
    return head


def _without(code: str, pattern: re.Pattern[str]) -> str:
    while match := pattern.search(code):
        end = matching(code, match.end() - 1)
        code = code[: match.start()] + " " * (end - match.start()) + code[end:]
    return code


def _heading(code: str) -> tuple[str, tuple[str, ...], str]:
    """Kind, names and parameters of a definition; no names if it only declares."""
    while match := re.match(r"\s*template\s*(?=<)", code):
        end = matching_angle(code, match.end())
        code = " " * end + code[end:]
    code = _without(code, _WITH_ARGUMENTS)
    if re.match(
        r"\s*(?:static_assert|using namespace|friend|extern(?!\s+__global__)|public|private)\b",
        code,
    ):
        return "", (), ""
    if match := re.match(r"\s*using\s+(\w+)\s*=", code):
        return "alias", (match[1],), ""
    if match := _TYPE.match(code.lstrip()):
        return ("type", (match[1],), "") if "{" in code else ("", (), "")
    if match := re.match(r"\s*concept\s+(\w+)", code):
        return "type", (match[1],), ""
    at = 0
    operator = re.search(r"\boperator\s*([^\s\w(]+)\s*\(", code.split("{")[0])
    while at < len(code):
        if opens_template(code, at) and not (operator and at >= operator.start()):
            at = matching_angle(code, at)
            continue
        if (operator and at == operator.end() - 1) or (not operator and code[at] in "(={;["):
            break
        at += 1
    if at >= len(code):
        return "", (), ""
    if code[at] == "(":
        end = matching(code, at)
        if "{" not in code[end:]:
            return "", (), ""  # a prototype
        name = f"operator{operator[1]}" if operator else code[:at].split()[-1].lstrip("*&")
        kind = "function"
        if re.search(r"\b__global__\b", code[:at]):
            kind = "kernel"
        elif re.search(r"\b(?:__device__|ADO_ANYWHERE|ADO_HOST_DEVICE)\b", code[:at]):
            kind = "device"
        elif re.search(r"\bconstexpr\b", code[:at]):
            kind = "constant"  # usable in device code and for constants
        return kind, (name,), code[at:end]
    names = []
    for first, last in split_top(code, 0, len(code.rstrip().rstrip(";"))):
        declared = re.split(r"[={\[]", code[first:last], maxsplit=1)[0]
        words = re.findall(r"\w+", re.sub(r"<[^=]*>", "", declared))
        names += words[-1:]
    return "constant", tuple(names), ""


def _end(code: str, begin: int) -> int:
    """The position after the declaration that starts at `begin`."""
    i = begin
    while i < len(code):
        letter = code[i]
        if letter in _CLOSES:
            i = matching(code, i)
            rest = code[i:].lstrip()
            # A closing brace ends a function. Types and constants go on to a semicolon.
            if letter == "{" and not rest.startswith(tuple(";,{*+-/%&|<>?:.)")):
                return i
            continue
        i += 1
        if letter == ";":
            return i
    return i


def _with_comment(lines: list[str], line: int) -> int:
    """The first line of the comment that is directly above a line; lines count from 0."""
    while line > 0 and lines[line - 1].lstrip().startswith("//"):
        line -= 1
    return line


@functools.lru_cache(maxsize=256)
def definitions_of(root: Path, path: str) -> tuple[Definition, ...]:
    """The definitions in the namespaces of a file, in order."""
    return definitions_in((root / path).read_text(encoding="utf-8"), path)


@functools.lru_cache(maxsize=256)
def definitions_in(text: str, path: str) -> tuple[Definition, ...]:
    """The definitions in the namespaces of a text, in order.

    Raises
    ------
    ValueError
        If brackets do not match.
    """
    lines, code, i = text.splitlines(), blank(text), 0
    found = []
    while i < len(code):
        if code[i].isspace() or code[i] in "};":
            i += 1
        elif match := _NAMESPACE.match(code, i):
            i = match.end()
        else:
            end = _end(code, i)
            kind, names, parameters = _heading(code[i:end])
            if names:
                first, last = code.count("\n", 0, i), code.count("\n", 0, end)
                first = _with_comment(lines, first)
                found.append(
                    Definition(
                        path=path,
                        line=first + 1,
                        last_line=last + 1,
                        names=names,
                        kind=kind,
                        text="\n".join(lines[first : last + 1]),
                        code=code[i:end],
                        parameters=parameters,
                    )
                )
            i = end
    return tuple(found)


@functools.lru_cache(maxsize=256)
def includes_of(root: Path, path: str) -> tuple[str, ...]:
    """The files of this project that a file includes, relative to `root`."""
    text = (root / path).read_text(encoding="utf-8")
    names = re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
    found = [f"{folder}/{name}" for name in names for folder in ("cuda", "src")]
    return tuple(name for name in found if (root / name).is_file())

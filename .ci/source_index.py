"""The definitions that ``variant.source`` shows in ladders without rulers.

The index has the names of the definitions that a variant uses from the folders of its ladder, the
kernels first. ``python .ci/source_index.py`` writes it, without a build.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "python" / "adokernels" / "model" / "source_index.json"
_FOLDERS = ("cuda", "src/core", "src/cpu")
#: Folders with code of several ladders. It is shown like the code in a ladder's own folder.
_SHARED = ("image", "strided")
#: Code that the grammar does not accept: attributes and directives are blanked, macros replaced.
_UNKNOWN = re.compile(
    rb"(?<!#define )\bADO_(?:INLINE|ANYWHERE|HOST_DEVICE)\b|^ *#pragma[^\n]*"
    rb"|__align__\([^()]*\)|__attribute__\(\((?:[^()]|\([^()]*\))*\)\)",
    re.MULTILINE,
)
_MACROS = {
    b"ADO_INLINE": b"inline",
    b"ADO_ANYWHERE": b"__device__",
    b"ADO_HOST_DEVICE": b"__device__",
}
#: Kinds of functions, by words above the body. constexpr functions are usable in device code.
_KINDS = {"__global__": "kernel", "__device__": "device", "constexpr": "constant", "": "function"}
_NAMES = ("identifier", "type_identifier", "namespace_identifier", "operator_name")
_PARTS_OF_NAMES = ("qualified_identifier", "template_function", "template_type", "dependent_name")
_OPERATIONS = ("binary_expression", "unary_expression", "assignment_expression")

#: Names in order, each with the numbers of arguments of its calls, or None if it is not called.
_References = dict[str, set[int | None]]


def _walk(node: Node) -> Iterator[Node]:
    left = [node]
    while left:
        node = left.pop()
        yield node
        left += reversed(node.named_children)


def _text(node: Node | None) -> str:
    return node.text.decode() if node and node.text else ""


def _items(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _inner(node: Node) -> Node:
    """The definition in a template."""
    return _inner(node.named_children[-1]) if node.type == "template_declaration" else node


def _declared(declarator: Node) -> Iterator[Node]:
    """The names that a declarator declares: several in a structured binding."""
    inner = declarator.children_by_field_name("declarator")
    if not inner and declarator.type.endswith("_declarator"):  # &name, (name), [name, name]
        inner = declarator.named_children
    for name in inner:
        yield from _declared(name)
    if not inner:
        yield declarator


def _local_names(node: Node) -> Iterator[str]:
    """The parameters, variables, types and members that a definition declares."""
    for n in _walk(node):
        yield from (_text(d) for d in _declared(n) if d != n)
        if n.type not in _PARTS_OF_NAMES:
            yield _text(n.child_by_field_name("name"))
        if n.type.endswith(("type_parameter_declaration", "capture_initializer")):
            yield from map(_text, n.named_children[:1])


def _references(node: Node, names: Iterable[str] = ()) -> _References:
    """The names that code refers to, and does not declare itself."""
    local = set(_local_names(node)) - {*names}
    found: _References = {}
    for n in _walk(node):
        name = _text(n).replace(" ", "") if n.type in _NAMES else ""
        if name and name not in local and (whole := _whole_name(n)):
            call = whole.parent
            called = call and call.type == "call_expression" and call.children[0] == whole
            count = len(_items(call.children[-1])) if call and called else None
            found.setdefault(name, set()).add(count)
    for name in names:  # where the definition declares it
        found.get(name, set()).discard(None)
    return found


def _whole_name(node: Node) -> Node | None:
    """The name with its namespaces and template arguments, or None for a member of a class."""
    while (parent := node.parent) and parent.type in _PARTS_OF_NAMES:
        scope = parent.child_by_field_name("scope")
        if scope == node:
            break
        if scope and _text(scope) not in _namespaces():
            return None
        node = parent
    return node


@functools.cache
def _files() -> dict[str, Node]:
    """The syntax trees of the files of the ladders, and of the files that kernels can include."""
    parser, files = Parser(Language(tree_sitter_cuda.language())), {}
    for path in sorted(p for f in _FOLDERS for p in (ROOT / f).rglob("*.[ch]*")):
        code = path.read_bytes()
        known = _UNKNOWN.sub(lambda m: _MACROS.get(m[0], b"").ljust(len(m[0])), code)
        files[path.relative_to(ROOT).as_posix()] = parser.parse(known).root_node
    return files


@functools.cache
def _namespaces() -> set[str]:
    nodes = (n for root in _files().values() for n in _walk(root))
    names = (n.child_by_field_name("name") for n in nodes if n.type == "namespace_definition")
    return {part for name in names for part in _text(name).split("::")}


@dataclass(frozen=True, eq=False)
class _Definition:
    """A definition, and its first line."""

    path: str
    first: int
    kind: str
    names: tuple[str, ...]
    node: Node

    @functools.cached_property
    def references(self) -> _References:
        return _references(self.node, self.names)

    @functools.cached_property
    def operators(self) -> set[str]:
        """The functions of the operators that its code applies; ``+=`` uses ``operator+``."""
        found = (n for n in _walk(self.node) if n.type in _OPERATIONS)
        return {f"operator{_text(n.child_by_field_name('operator')).rstrip('=')}" for n in found}

    @functools.cached_property
    def parameters(self) -> list[Node]:
        """The definitions that a function uses."""
        inner = _inner(self.node)
        lists = (n for n in _walk(inner) if n.type == "parameter_list")
        return _items(next(lists)) if inner.type == "function_definition" else []

    @property
    def chooses(self) -> bool:
        """Whether it only forwards its call to a function with one of several types."""
        return " visit)" in _text(self.node).split("{")[0]

    def accepts(self, calls: set[int | None]) -> bool:
        """Whether one of the calls can mean this overload, by the number of arguments."""
        if not self.parameters or None in calls or "..." in "".join(map(_text, self.parameters)):
            return True
        fewest = sum(p.type != "optional_parameter_declaration" for p in self.parameters)
        return not calls.isdisjoint(range(fewest, len(self.parameters) + 1))


def _top_level(scope: Node) -> Iterator[Node]:
    """The content of a file, including namespaces and conditional blocks."""
    for node in scope.named_children:
        nested = node.type.startswith(("namespace_definition", "declaration_list", "preproc"))
        yield from _top_level(node) if nested else [node]


def _definition(path: str, node: Node, kind: str, names: Iterable[str]) -> _Definition:
    return _Definition(path, node.start_point.row, kind, tuple(names), node)


@functools.cache
def _definitions(path: str) -> list[_Definition]:
    found = []
    for node in _top_level(_files()[path]):
        inner = _inner(node)
        name, body = (_text(inner.child_by_field_name(field)) for field in ("name", "body"))
        names = [n for d in inner.children_by_field_name("declarator") for n in _declared(d)]
        if inner.type == "alias_declaration":
            found.append(_definition(path, node, "alias", [name]))
        elif inner.type == "concept_definition" or (inner.type.endswith("_specifier") and body):
            found.append(_definition(path, node, "type", [name.split("<")[0]]))
        elif names and (body or names[0].parent.type != "function_declarator"):
            head = _text(node).removesuffix(body)
            kind = next(kind for word, kind in _KINDS.items() if word in head)
            kind = kind if inner.type == "function_definition" else "constant"
            found.append(_definition(path, node, kind, [_text(n).replace(" ", "") for n in names]))
    return found


class _Ladder:
    """The definitions that the variants of a ladder can show, by name."""

    def __init__(self, routine: str, path: str) -> None:
        own = (routine, *_SHARED)
        self._folders = tuple(f"{f}/{name}/" for f in ("cuda", "src/cpu") for name in own)
        self._is_cuda = path.startswith("cuda/")
        self.definitions: dict[str, list[_Definition]] = {}
        self._add(path, set())

    def _add(self, path: str, seen: set[str]) -> None:
        """Add the definitions of the files that a file includes, and then its own."""
        seen.add(path)
        for include in (n for n in _walk(_files()[path]) if n.type == "preproc_include"):
            name = _text(include.child_by_field_name("path")).strip('"')
            for other in (f"cuda/{name}", f"src/{name}"):
                if other in _files() and other not in seen and self._is_shown(other):
                    self._add(other, seen)
        for definition in _definitions(path):
            for name in definition.names:
                self.definitions.setdefault(name, []).append(definition)

    def _is_shown(self, path: str) -> bool:
        """Whether it is a file of the ladder, or a general helper that declares variants."""
        types = (_inner(d.node).child_by_field_name("type") for d in _definitions(path))
        return path.startswith(self._folders) or any(_text(t).startswith("Variant<") for t in types)

    def sources(self, variants: _Definition) -> Iterator[tuple[str, list[_Definition]]]:
        """The variants of a list, and the definitions that their sources show."""
        lists = (n for n in _walk(variants.node) if n.type == "initializer_list")
        for entry in _items(next(lists)):
            helper, members = None, _members(entry)
            if ".name" not in members:  # the helper is a function that returns the entry
                function = next(n for n in _walk(entry) if n.type == "identifier")
                helper = self.definitions[_text(function)][0]
                members = _members(helper.node)
            strings = (n for n in (members[".name"], *_walk(entry)) if n.type == "string_literal")
            name, run = _text(next(strings)).strip('"'), members.get(".run")
            shown = [_definition(variants.path, entry, "variant", [name])]
            if helper and _text(run) in _local_names(helper.node):
                run = entry.children[-1]  # the arguments
            elif helper:
                shown.append(helper)
            yield name, shown + [d for d in self._used_by(run) if d not in shown]

    def _uses(self, references: _References) -> Iterator[tuple[_Definition, set[int | None]]]:
        """The definitions that code can refer to, each with the calls."""
        for name, calls in references.items():
            yield from ((definition, calls) for definition in self.definitions.get(name, ()))

    def _used_by(self, run: Node | None) -> list[_Definition]:
        """The definitions that code uses: kernels as they are launched, then the rest by file."""
        found: dict[_Definition, bool] = {}  # whether it is shown
        operators: set[str] = set()
        queue = [(_references(run) if run else {}, self._is_cuda)]
        while queue:
            references, from_host = queue.pop(0)
            for definition, calls in self._uses(references):
                # Host code of a CUDA variant is included if it launches kernels. The source
                # contains the tile shapes, but not the choice of a shape or element type.
                chooses = from_host and definition.chooses
                host = self._is_cuda and (chooses or definition.kind == "function")
                launches = not host or chooses or self._launches(definition, set())
                if launches and definition not in found and definition.accepts(calls):
                    found[definition] = not chooses
                    queue.append((definition.references, host))
            if not queue and (new := self._operators(found) - operators):
                operators |= new
                queue.append(({name: {None} for name in sorted(new)}, False))
        shown = [definition for definition, is_shown in found.items() if is_shown]
        kernels = [d for d in shown if d.kind == "kernel"]
        others = [d for d in shown if d.kind != "kernel"]
        files = list(dict.fromkeys(d.path for d in kernels + others))
        return kernels + sorted(others, key=lambda d: (files.index(d.path), d.first))

    def _operators(self, found: Iterable[_Definition]) -> set[str]:
        """The overloaded operators that definitions apply to types among them."""
        types = {d.names[0] for d in found if d.kind in ("type", "alias")}
        overloads = self._uses({name: {None} for d in found for name in d.operators})
        return {
            overload.names[0]
            for overload, _ in overloads
            if not types.isdisjoint(_text(n) for p in overload.parameters for n in _walk(p))
        }

    def _launches(self, definition: _Definition, seen: set[_Definition]) -> bool:
        """Whether host code launches a kernel, itself or through functions that it calls."""
        seen.add(definition)
        return "launch" in definition.references or any(
            d.kind == "kernel"
            or (d.kind == "function" and d not in seen and self._launches(d, seen))
            for d, _ in self._uses(definition.references)
        )


def _members(node: Node) -> dict[str, Node]:
    """The designated initializers of an entry."""
    pairs = [n.children for n in _walk(node) if n.type == "initializer_pair"]
    return {_text(designator): value for designator, _, value in reversed(pairs)}


def text() -> str:
    """The index: for each variant, the files and the names of the definitions that it shows.

    The list of a variant begins with the array that contains its entry.
    """
    index = {}
    for path in _files():
        lists = {d.names[0]: d for d in _definitions(path) if d.names[0].endswith("Variants")}
        for function in _definitions(path):
            if function.names[0].endswith("_ladder") and lists:
                routine = function.names[0].removesuffix("_ladder")
                for array in (name for name in lists if name in function.references):
                    for variant, shown in _Ladder(routine, path).sources(lists[array]):
                        groups = groupby(shown[1:], key=lambda d: d.path)
                        names = [[p, list(dict.fromkeys(d.names[0] for d in g))] for p, g in groups]
                        index[f"{routine}[{variant}]"] = [[path, [array]], *names]
    lines = (f"{json.dumps(key)}: {json.dumps(index[key])}" for key in sorted(index))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    INDEX.write_text(text(), encoding="utf-8")

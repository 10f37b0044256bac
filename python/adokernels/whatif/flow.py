"""Data flow in the PTX of a kernel: where addresses come from, and what decides control flow.

The analysis does not follow the order of the statements: a register has the origins of all its
assignments. Therefore, it can find too many origins, but not too few.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from adokernels.ptx import KernelText, Statement

#: Instructions that access memory or synchronise: all their registers except the stored values
#: decide what is accessed.
MEMORY = frozenset(
    ("ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "prefetch", "prefetchu")
)
_LOADS = frozenset(("ld", "ldu", "atom", "ldmatrix"))
_STORES = frozenset(("st", "atom", "red", "stmatrix"))
#: The memory of a block or a thread, through which values can pass.
_OWN = {"shared", "local"}
_EFFECTS = frozenset(
    (
        *("bra", "brx", "ret", "exit", "trap", "call", "bar", "barrier", "mbarrier", "wgmma"),
        *("tensormap", "nanosleep", "setmaxnreg", "griddepcontrol", "discard", "applypriority"),
    )
)
#: Instructions whose last operand names the lanes that take part.
_WITH_LANES = ("shfl.sync", "vote.sync", "match", "redux", "bar.warp")


class Slot(NamedTuple):
    """Eight bytes of a parameter, which may hold a pointer; or a variable of the module."""

    parameter: str
    offset: int = 0


#: The offset of a variable.
VARIABLE = -1
#: The origin of an address that the kernel has loaded.
LOADED = Slot("")


class Flow:
    """The data flow of a kernel."""

    def __init__(self, kernel: KernelText) -> None:
        self.kernel = kernel
        self._written: dict[str, list[Statement]] = defaultdict(list)
        self._read: dict[str, set[str]] = defaultdict(set)
        self._loads: dict[str, dict[int, Statement]] = defaultdict(dict)
        for statement in kernel.body:
            for register in kernel.registers(statement.results):
                self._written[register].append(statement)
                if statement.base not in _LOADS:
                    read = {*kernel.registers(statement.inputs), statement.guard}
                    self._read[register] |= read - {""}
                elif statement.space not in ("param", "const"):
                    self._loads[register][id(statement)] = statement

    def sources(self, registers: Iterable[str]) -> list[Statement]:
        """The loads and atomics whose results reach these registers, through registers only.

        Loads of parameters and constants are omitted.
        """
        found, known = dict[int, "Statement"](), set(registers)
        new = list(known)
        while new:
            register = new.pop()
            found |= self._loads[register]
            new += (fresh := self._read[register] - known)
            known |= fresh
        return list(found.values())

    def stored(self, statement: Statement) -> list[str]:
        """The registers with the values that a store or an atomic writes."""
        values = statement.operands[1 if statement.base in ("st", "red", "stmatrix") else 2 :]
        return self.kernel.registers(" ".join(values))

    @cached_property
    def deciding(self) -> list[Statement]:
        """The loads and atomics whose results decide a branch, a predicate or an address.

        A result can pass through shared or local memory.
        """
        registers = {r for statement in self.kernel.body for r in self._decisions(statement)}
        passed: set[str] = set()
        while True:
            found = self.sources(registers)
            places = set[str]().union(*(self.places(s, s.address) for s in found))
            if places <= passed:
                break
            passed |= places
            for statement in self.kernel.body:
                if statement.base in _STORES and passed & self.places(statement, statement.address):
                    registers |= set(self.stored(statement))
        copies = [s for s in self.kernel.body if s.base == "cp" and s.address]
        return [*found, *(s for s in copies if passed & self.places(s, s.operands[0]))]

    def places(self, statement: Statement, address: str) -> set[str]:
        """The variables in shared or local memory that an access may reach, by an address.

        An unknown address may reach all of them.
        """
        space = "shared" if statement.base == "cp" else statement.space
        every = {
            n for n, v in self.kernel.variables.items() if v.space in ((space,) if space else _OWN)
        }
        named = {slot.parameter for slot in self.origins(address)} & every
        return named or ({*every, f"all {space}"} if space in (*_OWN, "") else set())

    def _decisions(self, statement: Statement) -> Sequence[str]:
        """The registers of a statement that decide what it does."""
        registers, base = self.kernel.registers, statement.base
        guard = [statement.guard] if statement.guard else []
        if base in MEMORY and "param" not in statement.words:
            brackets = [o for o in statement.operands if o.startswith("[")]
            if base == "cp":
                brackets = list(statement.operands)
            return guard + registers(" ".join(brackets))
        if base == "st" or base in _EFFECTS:  # st.param: an argument of a function
            return guard + registers(" ".join(statement.operands))
        if statement.opcode.startswith(_WITH_LANES) and statement.operands:
            return registers(statement.operands[-1])
        return ()

    def origins(self, address: str) -> frozenset[Slot]:
        """The parameters, variables and loads from which an address is computed."""
        found, known = set[Slot](), set[str]()
        texts = [address]
        while texts:
            text = texts.pop()
            own = self.kernel.registers(text)
            words = re.findall(r"[A-Za-z_$][\w$]*", text)
            found |= {Slot(word, VARIABLE) for word in words if word in self.kernel.variables}
            for register in own:
                if register in known:
                    continue
                known.add(register)
                for statement in self._written[register]:
                    if statement.base == "ld" and statement.space == "param":
                        found |= self._slots(statement, register)
                    elif statement.base in _LOADS:
                        found.add(LOADED)
                    else:
                        texts.append(f"{statement.inputs} {statement.guard}")
        return frozenset(found)

    def _slots(self, load: Statement, register: str) -> set[Slot]:
        """The eight bytes that a load of a parameter writes to a register."""
        if not re.search(r"\.[bus]64$", load.opcode):
            return set()
        base, _, offset = load.address.partition("+")
        names = [base.strip()]
        if self.kernel.type_of(names[0]):  # the address of a parameter
            names = [s.operands[1] for s in self._written[names[0]]]
        place = self.kernel.registers(load.results).index(register)
        known = {n for n in names if n in self.kernel.parameters}
        return {Slot(n, int(offset or 0) + 8 * place) for n in known} or {LOADED}

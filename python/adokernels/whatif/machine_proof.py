"""The proof in machine code: the rewritten kernel computes with the same instructions."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adokernels import _core, toolkit
from adokernels.machine_code import disassembled, kernels_in
from adokernels.records.instructions import parsed
from adokernels.records.what_if import Trial
from adokernels.whatif.rewriting import CONSTANTS

#: The architecture of the machine code, unless the PTX names one of its own ("sm_90a").
_ARCH = "sm_90"
#: Instructions that no experiment adds or removes: arithmetic, accesses, matrices. ptxas computes
#: addresses with the others.
_KEPT = re.compile(
    r"F(?:ADD|MUL|FMA|MNMX|SETP|SEL|CHK)|H(?:ADD2|MUL2|FMA2|MNMX2|MMA)|D(?:ADD|MUL|FMA|SETP|MMA)|"
    r"MUFU|IMMA|.*GMMA|LDG|STG|LDS|STS|LDSM|STSM|LDL|STL|ATOM[GS]?|RED(?:G)?|LDGSTS|UBLKCP|UTMA.*"
)
#: The message of a ptxas that is older than the compiler. Most PTX is also valid in its version.
_VERSION = re.compile(r"Unsupported \.version.*current version is '([\d.]+)'", re.DOTALL)
#: ptxas also writes constants to registers as a sum.
_MOVE = ", -RZ, RZ, "
#: Registers by which the forms may differ.
_MOST_REGISTERS = 8
#: The maximum number of differences, as a share of the instructions that a dose adds.
_MOST_OF_DOSE = 0.1
#: Limits of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, table 29).
_MOST_PER_THREAD = 255
_REGISTERS, _REGISTER_UNIT, _WARPS, _SLOTS, _SHARED, _RESERVED = 65536, 256, 64, 32, 228 << 10, 1024


@dataclass(frozen=True)
class MachineCode:
    """The machine code of a kernel: instructions by name, and registers per thread."""

    opcodes: Counter[str]
    registers: int

    @property
    def kept(self) -> Counter[str]:
        """The instructions that an experiment must not change."""
        return Counter({n: c for n, c in self.opcodes.items() if _KEPT.fullmatch(n)})

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        """Blocks that a multiprocessor holds."""
        warps = -(-threads // 32)
        per_warp = -(-self.registers * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
        by_registers = _REGISTERS // 4 // per_warp * 4 // warps
        return min(by_registers, _WARPS // warps, _SLOTS, _SHARED // (shared_bytes + _RESERVED))

    def most_registers(self, threads: int, shared_bytes: int) -> int:
        """The largest number of registers that does not reduce the number of resident blocks."""
        blocks = self.resident_blocks(threads, shared_bytes)
        forms = (replace(self, registers=n) for n in range(_MOST_PER_THREAD, self.registers, -1))
        same = (f.registers for f in forms if f.resident_blocks(threads, shared_bytes) == blocks)
        return next(same, self.registers)


@dataclass
class Assembled:
    """Several forms of a kernel in one cubin. :func:`form_of` names them; "" is the original."""

    code: bytes
    symbol: str
    forms: Sequence[str]
    _module: _core.CudaModule | None = None

    def kernel(self, form: str, device: str) -> _core.CudaKernel:
        """A form, loaded on a GPU."""
        if self._module is None:
            self._module = _core.CudaModule(self.code, device)
        return self._module.kernel(self.symbol + _suffix(self.forms.index(form)))

    def constants(self, form: str) -> str:
        """The name of the constants of a form."""
        return CONSTANTS + _suffix(self.forms.index(form))

    @property
    def registers(self) -> dict[str, int]:
        """Registers per thread of each form."""
        found = {kernel.symbol: kernel.registers for kernel in kernels_in(self.code)}
        return {form: found[self.symbol + _suffix(i)] for i, form in enumerate(self.forms)}

    @property
    def machine_code(self) -> dict[str, MachineCode]:
        """The machine code of each form. Raises Unavailable if a tool is missing."""
        parts = iter(re.split(r"^\.text\.(\S+):$", disassembled(self.code), flags=re.MULTILINE)[1:])
        listings, found = dict(zip(parts, parts, strict=True)), {}
        for i, form in enumerate(self.forms):
            kept = (
                each.name
                for each in parsed(listings[self.symbol + _suffix(i)])
                if _MOVE not in f"{each.opcode} {each.operands}"
            )
            found[form] = MachineCode(Counter(kept), self.registers[form])
        return found


def form_of(trial: Trial) -> str:
    """The name of the form of a trial."""
    return f"{trial.experiment} {trial.place}"


def _suffix(index: int) -> str:
    return f"_{index}" if index else ""


def assembled(
    header: str, texts: Mapping[str, str], symbol: str, compute: int | None = None
) -> Assembled:
    """Assemble the forms of a kernel as one module, because nvdisasm is slow to start.

    `compute` is the compute capability of the GPU, times ten. Unavailable is raised if ptxas is
    missing or cannot assemble the module.
    """
    if not (program := toolkit.program("ptxas")):
        raise _core.Unavailable("ptxas is missing")
    parts = [header]
    for i, text in enumerate(texts.values()):
        entry = re.compile(rf"(\.entry\s+{re.escape(symbol)})(?![\w$])")
        own = text.replace(CONSTANTS, CONSTANTS + _suffix(i))
        parts.append(entry.sub(rf"\g<1>{_suffix(i)}", own))
    arch = f"sm_{compute}" if compute else _ARCH
    if target := re.search(r"\.target\s+(sm_\d+[af])", header):  # code for one architecture
        arch = target[1]
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        text = "\n".join(parts)
        for _ in range(2):
            source.write_text(text)
            done = subprocess.run(
                [program, f"-arch={arch}", source, "-o", cubin],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if not (older := _VERSION.search(done.stderr)):
                break
            text = re.sub(r"\.version\s+[\d.]+", f".version {older[1]}", text, count=1)
        if done.returncode:
            raise _core.Unavailable(f"ptxas: {' '.join(done.stderr.split())[:300]}")
        return Assembled(cubin.read_bytes(), symbol, list(texts))


def differences(
    original: MachineCode,
    other: MachineCode,
    threads: int,
    shared_bytes: int,
    added: Counter[str] | None = None,
) -> list[str]:
    """Differences from the original machine code that the switch does not cause.

    `added` are the instructions that a dose adds. With a dose, a few differences are accepted.
    """
    found, more = [], added or Counter[str]()
    missing = more.total() + original.opcodes.total() - other.opcodes.total()
    if more and missing > _MOST_OF_DOSE * more.total():
        found.append(f"{missing} of {more.total()} added instructions are missing")
    before = original.kept + Counter({n: c for n, c in more.items() if _KEPT.fullmatch(n)})
    after = other.kept
    differing = [name for name in sorted(before | after) if before[name] != after[name]]
    changes = sum(abs(before[name] - after[name]) for name in differing)
    if changes > _MOST_OF_DOSE * more.total():
        found += [f"{before[name]} {name} became {after[name]}" for name in differing]
    if not added and abs(other.registers - original.registers) > _MOST_REGISTERS:
        found.append(f"{original.registers} registers became {other.registers}")
    blocks = [code.resident_blocks(threads, shared_bytes) for code in (original, other)]
    if blocks[0] != blocks[1]:
        found.append(f"{blocks[0]} resident blocks became {blocks[1]}")
    return found

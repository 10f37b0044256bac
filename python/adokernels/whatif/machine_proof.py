"""The proof in machine code: the rewritten kernel computes with the same instructions."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adokernels import _core, toolkit
from adokernels.machine_code import disassembled, kernels_in
from adokernels.records.instructions import parsed
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
#: Limits of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, table 29).
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


def assembled(header: str, forms: Sequence[str], name: str) -> list[MachineCode]:
    """Assemble several forms of a kernel as one module, because nvdisasm is slow to start.

    Raises
    ------
    Unavailable
        If a tool is missing or cannot assemble the module.
    """
    if not (program := toolkit.program("ptxas")):
        raise _core.Unavailable("ptxas is missing")
    names = [f"{name}_{i}" for i in range(len(forms))]
    own = {name: names, CONSTANTS: [f"{CONSTANTS}_{i}" for i in range(len(forms))]}
    for old, new in own.items():
        forms = [form.replace(old, n) for form, n in zip(forms, new, strict=True)]
    target = re.search(r"\.target\s+(sm_\d+[af])", header)
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        arch = f"-arch={target[1] if target else _ARCH}"
        text = "\n".join([header, *forms])
        for _ in range(2):
            source.write_text(text)
            done = subprocess.run(
                [program, arch, source, "-o", cubin], capture_output=True, text=True, check=False
            )
            if not (older := _VERSION.search(done.stderr)):
                break
            text = re.sub(r"\.version\s+[\d.]+", f".version {older[1]}", text, count=1)
        if done.returncode:
            raise _core.Unavailable(f"ptxas: {' '.join(done.stderr.split())[:300]}")
        code = cubin.read_bytes()
    registers = {k.symbol: k.registers for k in kernels_in(code)}
    parts = iter(re.split(r"^\.text\.(\S+):$", disassembled(code), flags=re.MULTILINE)[1:])
    listings = dict(zip(parts, parts, strict=True))
    found = []
    for form in names:
        instructions = parsed(listings[form])
        kept = (i.name for i in instructions if _MOVE not in f"{i.opcode} {i.operands}")
        found.append(MachineCode(Counter(kept), registers[form]))
    return found


def differences(
    original: MachineCode, other: MachineCode, threads: int, shared_bytes: int
) -> list[str]:
    """The differences of the machine code from the original, apart from the switch."""
    found = []
    before, after = original.kept, other.kept
    for name in sorted(before | after):
        if before[name] != after[name]:
            found.append(f"{before[name]} {name} became {after[name]}")
    if abs(other.registers - original.registers) > _MOST_REGISTERS:
        found.append(f"{original.registers} registers became {other.registers}")
    blocks = [code.resident_blocks(threads, shared_bytes) for code in (original, other)]
    if blocks[0] != blocks[1]:
        found.append(f"{blocks[0]} resident blocks became {blocks[1]}")
    return found

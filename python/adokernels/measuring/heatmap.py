"""Counts of a variant per source line: from the source counters of ncu, or from the emulator."""

from __future__ import annotations

import csv
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adokernels import _core
from adokernels.measuring.context import context
from adokernels.measuring.hotspots import Sources
from adokernels.measuring.nsight_report import recorded, run_ncu, why_no_ncu
from adokernels.measuring.profiling import emulator_hint
from adokernels.measuring.stored_call import StoredCall
from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.ladder import Variant, check_options
from adokernels.model.source import sources_folder
from adokernels.records.heatmap import ACCESSES, Accesses, Heatmap, LineCounts
from adokernels.text import kind_of

if TYPE_CHECKING:
    from adokernels.model.problem import Block
    from adokernels.records.sass import KernelSass

_KERNEL, _ADDRESS, _CODE = "Kernel Name", "Address", "Source"
#: Columns of ncu's source page: transfers and ideal transfers per memory space.
_COLUMNS = {
    "global": ("L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal"),
    "local": ("L2 Theoretical Sectors Local", "L2 Theoretical Sectors Local"),
    "shared": ("L1 Wavefronts Shared", "L1 Wavefronts Shared Ideal"),
}
_EXECUTED, _LANES = "Instructions Executed", "Predicated-On Thread Instructions Executed"
#: Instructions at the end of a kernel, which records of machine code omit.
_PADDING = "NOP"
_FP64 = re.compile(r"\bD(?:ADD|MUL|FMA|SETP|MNMX|MMA)\b|\.F64\b|\bMUFU\.\w+64H\b")
_OPCODE = re.compile(r"(?:@!?U?P[T\d]+\s+)?([A-Z][\w.]*)")


def heatmap(
    variant: Variant,
    *args: Any,
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    **options: Any,
) -> Heatmap:
    """Count executed instructions, sectors and bank conflicts of a variant per source line.

    On a GPU, ncu profiles one call of the variant in a fresh process, which receives copies of the
    operands, packed in memory. Its counters are exact, not samples. The emulator counts the
    instructions of PTX instead; it needs no GPU.

    Parameters
    ----------
    variant
        For example ``ado.transpose["naive"]``, or a kernel in CUDA C++ source in a ladder of your
        own.
    *args, **options
        Operands and options of a call. Default: random operands of the task's default problem.
    block : tuple of int, optional
        One of the variant's ``blocks``; default the first.
    device : str, optional
        ``"cuda"`` or ``"emulator"``. Default: the GPU; the emulator, if the hardware cannot count
        here and the variant is a kernel in CUDA C++ source. The emulator is slow: use small
        operands.

    Returns
    -------
    Heatmap
        Per line: the share of executed instructions, active lanes, sectors and wavefronts per
        request with their ideal number; shown beside the source. Also per machine instruction.

    Raises
    ------
    TypeError
        If `variant` is not a variant, or an operand has the wrong type.
    ValueError
        For a CPU variant, if the variant cannot solve the problem, or if `device` is unknown.
    KernelError
        If the emulator finds that the kernel accesses memory that it must not access.
    Unavailable
        If there is no GPU or no ncu, or if the counters cannot be read; the message contains the
        remedy. Also if the emulator cannot execute the variant.
    """
    if not isinstance(variant, Variant):
        kind = kind_of(variant)
        raise TypeError(f"variant must be a Variant such as ado.transpose['naive'], got {kind}")
    if variant.device != "cuda":
        raise ValueError(
            f"variant must be a CUDA variant, got {variant.label} on {variant.device}; for the "
            "CPU, use perf record"
        )
    if device not in (None, "cuda", "emulator"):
        raise ValueError(f"device must be 'cuda' or 'emulator', got {device!r}")
    check_options(variant.ladder, args, options, heatmap)
    reason = variant.why_unavailable or why_no_ncu()
    if device == "emulator" or (device is None and reason and isinstance(variant, CudaVariant)):
        return _emulated(variant, args, options, block)
    if reason:
        raise _core.Unavailable(f"lines cannot be counted: {reason}{emulator_hint()}")
    if launch := variant.source_launch(args, options, block):
        problem = str(variant.ladder.problem(*args, variant=variant.name, **options))
        save: Callable[[Path], None] = launch.save
        sources = Sources(texts={part.path: part.text for part in variant.source.parts})
    else:
        call = StoredCall.of(variant, args, options, block)
        problem, save, sources = str(call.problem), call.save, Sources(root=sources_folder())
    with tempfile.TemporaryDirectory() as folder:
        report = recorded(save, Path(folder), ["--section", "SourceCounters"])
        shown = ["--page", "source", "--csv", "--print-source", "sass", "--print-units", "base"]
        page = run_ncu(["--import", str(report), *shown], report)
    sass = variant.sass(*args, block=block, **options)
    return heatmap_of(
        (
            line
            for counted in source_page(page)
            for line in counted_by_hardware(counted, sass, sources)
        ),
        sources,
        routine=variant.ladder.name,
        variant=variant.name,
        problem=problem,
        block=block,
        source=_core.cuda_properties()["name"],
        code="SASS",
        context=context("cuda"),
    )


def _emulated(
    variant: Variant, args: Sequence[Any], options: Mapping[str, Any], block: Block | None
) -> Heatmap:
    """Count a variant on the emulator."""
    if isinstance(variant, CudaVariant):
        sources = Sources(texts={part.path: part.text for part in variant.source.parts})
    else:
        sources = Sources(root=sources_folder())
    ladder = variant.ladder
    problem = ladder.problem(*args, device="emulator", variant=variant.name, **options)
    call = problem.prepare(variant.name, block)
    return heatmap_of(
        (
            line
            for kernel, counts in _core.emulated_counts(call.timed)
            for line in emulated_counts(counts, kernel.name, sources)
        ),
        sources,
        routine=ladder.name,
        variant=variant.name,
        problem=str(problem),
        block=block,
        source="emulator",
        code="PTX",
        context=context(problem.device_id),
    )


class CountedInstruction(NamedTuple):
    """A row of ncu's source page: a machine instruction with its counts, by column."""

    opcode: str
    text: str
    counts: Mapping[str, int]


def emulated_counts(
    counts: Mapping[str, Any], kernel: str, sources: Sources
) -> Iterator[LineCounts]:
    """The counts per line of one emulated launch of a kernel, as the core reports them."""
    for line in counts["lines"]:
        path = sources.path_of(line["file"])
        text = sources.line_of(path, line["line"]) if path else ""
        accesses = {
            name: Accesses(
                requests=found["requests"],
                transfers=found[
                    "wavefronts" if name.startswith(("shared", "const")) else "sectors"
                ],
                ideal=found["requests" if name == "constant_loads" else "ideal"],
            )
            for name in ACCESSES
            for found in [line[name if "_" in name else f"global_{name}"]]
        }
        place: dict[str, Any] = {"kernel": kernel, "path": path, "line": line["line"]}
        executed = {"instructions": line["instructions"], "lanes": line["lanes"]}
        executed["fp64"] = line["operations"]["instruction64"]
        of_line: dict[str, Any] = {**place, **executed, **accesses}
        yield LineCounts(text=text, **of_line)


def source_page(text: str) -> list[list[CountedInstruction]]:
    """Read the source page that ``ncu --page source --csv --print-source sass`` prints.

    Returns the instructions of each profiled launch, in order. ncu can print a launch twice. The
    second copy has the same samples, which two launches never have.
    """
    launches: list[list[CountedInstruction]] = []
    header: list[str] = []
    for row in csv.reader(text.splitlines()):
        if row[:1] == [_KERNEL]:
            launches.append([])
            header = []
        elif launches and {_ADDRESS, _CODE} <= set(row):
            header = row
        elif launches and header and len(row) == len(header):
            cells = dict(reversed(list(zip(header, row, strict=True))))  # the first of two columns
            code = " ".join(cells[_CODE].split())
            if found := _OPCODE.match(code):
                counts = {name: _whole(cell) for name, cell in cells.items()}
                launches[-1].append(CountedInstruction(found[1], code, counts))
    return [each for i, each in enumerate(launches) if i == 0 or each != launches[i - 1]]


def _whole(cell: str) -> int:
    try:
        return int(float(cell.replace(",", "")))
    except ValueError:
        return 0


def counted_by_hardware(
    launch: Sequence[CountedInstruction], kernels: Iterable[KernelSass], sources: Sources
) -> Iterator[LineCounts]:
    """The counts per machine instruction of one profiled launch.

    The machine code of one of the `kernels` must have the same instructions. It knows their source
    lines.

    Raises
    ------
    ValueError
        If no kernel has these instructions.
    """
    opcodes = [counted.opcode for counted in launch]
    while opcodes and opcodes[-1] == _PADDING:
        opcodes.pop()
    found = next((k for k in kernels if [i.opcode for i in k.instructions] == opcodes), None)
    if found is None:
        raise ValueError(f"the profile must be of these kernels, got {len(opcodes)} instructions")
    for counted, instruction in zip(launch, found.instructions, strict=False):
        if not counted.counts.get(_EXECUTED):
            continue
        path = sources.path_of(instruction.path)
        yield LineCounts(
            kernel=found.name,
            path=path,
            line=instruction.line,
            text=sources.line_of(path, instruction.line) if path else "",
            address=instruction.address,
            instruction=counted.text,
            instructions=counted.counts[_EXECUTED],
            lanes=counted.counts.get(_LANES, 0),
            fp64=counted.counts.get(_LANES, 0) if _FP64.search(counted.text) else 0,
            **_accesses(instruction.access, counted.counts),
        )


def _accesses(access: Any, counts: Mapping[str, int]) -> dict[str, Accesses]:
    """The accesses of a machine instruction; copies to shared memory load from global memory."""
    if access is None or access.space not in _COLUMNS:
        return {}
    kind = {"store": "stores", "atomic": "atomics"}.get(access.kind, "loads")
    name = kind if access.space == "global" else f"{access.space}_{kind}"
    transfers, ideal = (counts.get(column, 0) for column in _COLUMNS[access.space])
    return {name: Accesses(requests=counts[_EXECUTED], transfers=transfers, ideal=ideal)}


def heatmap_of(entries: Iterable[LineCounts], sources: Sources, **labels: Any) -> Heatmap:
    """Make the record with these labels, with the code around the counted lines."""
    found = tuple(entries)
    return Heatmap(entries=found, excerpts=tuple(sources.excerpts_of(found)), **labels)

"""Counts of a variant per source line: from the source counters of ncu, or from the emulator."""

from __future__ import annotations

import csv
import linecache
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adokernels import _core
from adokernels.measuring.context import context
from adokernels.measuring.emulating import Counted, emulated_launches
from adokernels.measuring.functions import Function, name_of, require_function
from adokernels.measuring.hotspots import Sources, captured, require_cuda_variant, sources_of
from adokernels.measuring.nsight_report import recorded, run_ncu, why_no_ncu
from adokernels.measuring.profiling import emulator_hint, of_kernel
from adokernels.measuring.sass import sass_of_launches
from adokernels.measuring.stored_call import StoredCall, save_launches
from adokernels.model.cuda_variant import CudaVariant
from adokernels.model.ladder import Ladder, Variant
from adokernels.model.own_variant import OwnVariant
from adokernels.model.source import sources_folder
from adokernels.records.heatmap import ACCESSES, Accesses, Heatmap, LineCounts

if TYPE_CHECKING:
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
    variant: Variant | Callable[..., Any],
    *args: Any,
    block: tuple[int, ...] | None = None,
    device: str | None = None,
    kernel: str | None = None,
    **options: Any,
) -> Heatmap:
    """Count executed instructions, sectors and bank conflicts of kernels per source line.

    On a GPU, ncu profiles one call of the variant in a fresh process, which receives copies of the
    operands, packed in memory. Its counters are exact, not samples. The emulator counts the
    instructions of PTX instead; it needs no GPU.

    Parameters
    ----------
    variant
        For example ``ado.transpose["naive"]``, or a kernel in CUDA C++ source in a ladder of your
        own; a captured launch, or a function that launches kernels: any on a GPU, of Triton or
        Numba on the emulator.
    *args, **options
        Operands and options of a call. Default: random operands of the task's default problem.
    block : tuple of int, optional
        One of the variant's ``blocks``; default the first.
    device : str, optional
        ``"cuda"`` or ``"emulator"``. Default: the GPU; the emulator, if the hardware cannot count
        here and `variant` is a kernel in CUDA C++ source or a function. The emulator is slow: use
        small operands.
    kernel : str, optional
        The name of the kernel to count. Default: all kernels of the call.

    Returns
    -------
    Heatmap
        Per line: the share of executed instructions, active lanes, sectors and wavefronts per
        request with their ideal number; shown beside the source. Also per machine instruction.

    Raises
    ------
    TypeError
        If `variant` is neither a variant nor a function, or an operand has the wrong type.
    ValueError
        For a CPU variant, if the variant cannot solve the problem, if `device` is unknown, or if
        the call launches no kernel with the name `kernel`.
    KernelError
        If the emulator finds that the kernel accesses memory that it must not access.
    Unavailable
        If there is no GPU or no ncu, or if the counters cannot be read; the message contains the
        remedy. Also if the emulator cannot execute the variant.
    """
    if device not in (None, "cuda", "emulator"):
        raise ValueError(f"device must be 'cuda' or 'emulator', got {device!r}")
    if callable(variant) and not isinstance(variant, Ladder | Variant):
        require_function(variant, block, "variant")
        function = Function(name_of(variant), variant, args, options, caller=heatmap)
        if device == "cuda" or (device is None and not why_no_ncu()):
            if reason := why_no_ncu():
                raise _core.Unavailable(f"lines cannot be counted: {reason}{emulator_hint()}")
            found, about = captured(variant, args, options, kernel)
            facts, saved = context("cuda"), partial(save_launches, found)
            of_found = sass_of_launches(found), kernel, sources_of(found)
            return _by_hardware(saved, *of_found, **about, block=None, context=facts)
        launches = emulated_launches(function)
        sources, facts = Sources(texts=_texts_of(launches)), context("emulator")
        labels = {"routine": "", "variant": function.name, "problem": str(function.inputs)}
        return _emulated(launches, kernel, sources, **labels, block=None, context=facts)
    require_cuda_variant(variant, args, options, heatmap)
    reason = variant.why_unavailable or why_no_ncu()
    where = device or ("emulator" if reason and isinstance(variant, CudaVariant) else "cuda")
    if where == "cuda" and reason:
        raise _core.Unavailable(f"lines cannot be counted: {reason}{emulator_hint()}")
    problem = variant.ladder.problem(*args, device=where, variant=variant.name, **options)
    labels = {"routine": variant.ladder.name, "variant": variant.name, "problem": str(problem)}
    facts = context(problem.device_id)
    if isinstance(variant, CudaVariant):
        sources = Sources(texts={part.path: part.text for part in variant.source.parts})
    else:
        sources = Sources(root=sources_folder())
    if where == "emulator":
        call = problem.prepare(variant.name, block)
        launches = _core.emulated_counts(call.timed)
        if isinstance(variant, OwnVariant):  # PTX can have the lines of another file
            sources = Sources(texts=_texts_of(launches) | dict(sources.texts))
        return _emulated(launches, kernel, sources, **labels, block=block, context=facts)
    launch = variant.source_launch(args, options, block)
    save: Callable[[Path], None] = (
        partial(save_launches, [launch])
        if launch
        else StoredCall.of(variant, args, options, block).save
    )
    sass = variant.sass(*args, block=block, **options)
    return _by_hardware(save, sass, kernel, sources, **labels, block=block, context=facts)


def _by_hardware(
    save: Callable[[Path], None],
    sass: Iterable[KernelSass],
    kernel: str | None,
    sources: Sources,
    **labels: Any,
) -> Heatmap:
    """The counts of the call or the launches that `save` writes to a folder."""
    with tempfile.TemporaryDirectory() as folder:
        report = recorded(save, Path(folder), ["--section", "SourceCounters"])
        shown = ["--page", "source", "--csv", "--print-source", "sass", "--print-units", "base"]
        page = run_ncu(["--import", str(report), *shown], report)
    counted = [[*counted_by_hardware(each, sass, sources)] for each in source_page(page)]
    names = [lines[0].kernel if lines else "" for lines in counted]
    return heatmap_of(
        (line for i in of_kernel(kernel, names, labels["variant"]) for line in counted[i]),
        sources,
        **labels,
        source=_core.cuda_properties()["name"],
        code="SASS",
    )


def _emulated(
    launches: Sequence[Counted], kernel: str | None, sources: Sources, **labels: Any
) -> Heatmap:
    """The counts of launches on the emulator."""
    names = [info.name for info, _ in launches]
    entries = (
        line
        for i in of_kernel(kernel, names, labels["variant"])
        for line in emulated_counts(launches[i][1], names[i], sources)
    )
    return heatmap_of(entries, sources, **labels, source="emulator", code="PTX")


def _texts_of(launches: Iterable[Counted]) -> dict[str, str]:
    """The source files of a function's kernels: files on the disk, and cells of notebooks."""
    files = {_place_of(line)[0] for _, counts in launches for line in counts["lines"]}
    texts = {file: "".join(linecache.getlines(file)) for file in files}
    return {file: text for file, text in texts.items() if text}


def _place_of(line: Mapping[str, Any]) -> tuple[str, int]:
    """The file and the line; for a line of an installed package, the line that called it."""
    installed = bool({"site-packages", "dist-packages"} & {*Path(line["file"]).parts})
    outer = "outer_" if installed and line["outer_file"] else ""
    return line[f"{outer}file"], line[f"{outer}line"]


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
        file, number = _place_of(line)
        path = sources.path_of(file)
        text = sources.line_of(path, number) if path else ""
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
        place: dict[str, Any] = {"kernel": kernel, "path": path, "line": number}
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

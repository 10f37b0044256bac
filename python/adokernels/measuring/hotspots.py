"""Hot spots of a variant: samples of its kernels in a fresh process, mapped to source lines."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adokernels import _core
from adokernels.measuring.capturing import captured
from adokernels.measuring.context import context
from adokernels.measuring.functions import require_function
from adokernels.measuring.profiling import emulator_hint, of_kernel
from adokernels.measuring.sass import sass_of_launches
from adokernels.measuring.stored_call import (
    CHILD,
    SAMPLES,
    Stored,
    StoredCall,
    environment,
    store,
)
from adokernels.model.ladder import Ladder, Variant, check_options
from adokernels.model.problem import Block
from adokernels.model.source import given_path, shipped_path, sources_folder
from adokernels.records.hotspots import Excerpt, Hotspots, LineSamples, OfLine, split_reasons
from adokernels.text import kind_of

if TYPE_CHECKING:
    from adokernels.records.sass import KernelSass

#: Number of lines that are shown above and below a line outside of any definition.
_CONTEXT = 3


def hotspots(
    variant: Variant | Callable[..., Any],
    *args: Any,
    block: tuple[int, ...] | None = None,
    kernel: str | None = None,
    seconds: float = 0.5,
    **options: Any,
) -> Hotspots:
    """Find the source lines at which the warps of a variant spend their time, and why they stall.

    A fresh process repeats the variant with warm caches while the hardware samples the program
    counters of its warps. CUPTI attributes samples only to kernels that are loaded after sampling
    has started. The process receives copies of the operands, packed in memory. For a function, it
    receives the launches that :func:`adokernels.capture` records.

    Parameters
    ----------
    variant
        For example ``ado.transpose["naive"]``, a kernel in CUDA C++ source in a ladder of your own,
        a captured launch, or any function that launches kernels.
    *args, **options
        Operands and options of a call. Default: random operands of the task's default problem.
    block : tuple of int, optional
        One of the variant's ``blocks``; default the first.
    kernel : str, optional
        The name of the kernel to sample. Default: all kernels of the call.
    seconds : float
        Sampling time.

    Returns
    -------
    Hotspots
        The lines, hottest first, with samples, share and stall reasons; shown beside the source.

    Raises
    ------
    TypeError
        If `variant` is neither a variant nor a function, or an operand has the wrong type.
    ValueError
        For a CPU variant, if the variant cannot solve the problem, or if the call launches no
        kernel with the name `kernel`.
    Unavailable
        If the device cannot be sampled; the message contains the reason and the remedy. Also if a
        launch of the function cannot be repeated.
    """
    reason = require_kernels(variant, args, options, block, hotspots)
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")
    if reason:
        hint = "; remedy: ado.heatmap counts the lines without a GPU" if emulator_hint() else ""
        raise _core.Unavailable(f"hot spots cannot be sampled: {reason}{hint}")
    return sampled(kernel_work(variant, args, options, block, kernel), kernel, seconds)


class KernelWork(NamedTuple):
    """Kernels that another process can launch, with the labels of their records."""

    stored: Stored
    sources: Sources
    labels: Mapping[str, Any]  # routine, variant, problem, block
    sass: Callable[[], Iterable[KernelSass]]


def require_kernels(
    work: Any,
    args: Sequence[Any],
    options: Mapping[str, Any],
    block: Block | None,
    caller: Callable[..., Any],
) -> str:
    """The reason why a work cannot run here, or an empty string.

    TypeError or ValueError is raised if it cannot launch kernels.
    """
    if callable(work) and not isinstance(work, Ladder | Variant):
        require_function(work, block, "variant")
        return _core.why_no_cuda()
    if not isinstance(work, Variant):
        kind = kind_of(work)
        raise TypeError(f"variant must be a Variant such as ado.transpose['naive'], got {kind}")
    if work.device != "cuda":
        raise ValueError(
            f"variant must be a CUDA variant, got {work.label} on {work.device}; for the CPU, use "
            "perf record"
        )
    check_options(work.ladder, args, options, caller)
    return work.why_unavailable


def kernel_work(
    work: Variant | Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
    block: Block | None,
    kernel: str | None,
) -> KernelWork:
    """The kernels of a variant, of a captured launch or of a function that launches kernels."""
    if not isinstance(work, Variant):
        found, labels = captured(work, args, options, kernel)
        texts = {path: text for each in found for path, text in each.sources.items()}
        launches = [replace(each) for each in found]  # without loaded kernels
        machine_code = partial(sass_of_launches, found)
        return KernelWork(launches, Sources(texts=texts), labels | {"block": None}, machine_code)
    labels = {"routine": work.ladder.name, "variant": work.name, "block": block}
    sass = partial(work.sass, *args, block=block, **options)
    if launch := work.source_launch(args, options, block):
        problem = work.ladder.problem(*args, device="cpu", **options)
        texts = {part.path: part.text for part in work.source.parts}
        labels |= {"problem": str(problem), "block": launch.block}
        return KernelWork([launch], Sources(texts=texts), labels, sass)
    call = StoredCall.of(work, args, options, block)
    shipped = Sources(root=sources_folder())
    return KernelWork(call, shipped, labels | {"problem": str(call.inputs)}, sass)


def sampled(work: KernelWork, kernel: str | None, seconds: float) -> Hotspots:
    """The hot spots of a work, or of its kernel with this name."""
    samples = samples_of(work.stored, seconds)
    names = [name for name, *_ in samples["lines"]]
    chosen = of_kernel(kernel, names, work.labels["variant"])
    samples |= {"lines": [samples["lines"][i] for i in chosen]}
    facts = {**context("cuda"), "seconds": seconds}
    return hotspots_of(samples, work.sources, **work.labels, context=facts)


def samples_of(work: Stored, seconds: float) -> dict[str, Any]:
    """Sample a work in a fresh process."""
    # Modules are loaded at the first launch, when the sampler exists.
    variables = environment(CUDA_MODULE_LOADING="LAZY")
    with tempfile.TemporaryDirectory() as folder:
        store(work, Path(folder))
        command = [sys.executable, "-m", CHILD, "sample", folder, str(float(seconds))]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        output = Path(folder) / SAMPLES
        if not output.exists():
            end = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise RuntimeError(f"the sampled process ended with status {done.returncode}: {end}")
        result: dict[str, Any] | Exception = pickle.loads(output.read_bytes())
    if isinstance(result, Exception):
        raise result
    return result


def hotspots_of(samples: Mapping[str, Any], sources: Sources, **labels: Any) -> Hotspots:
    """Make the record with these labels from the samples that the process wrote."""
    entries = []
    for kernel, recorded, line, counts in samples["lines"]:
        path = sources.path_of(recorded)
        reasons, not_issued = split_reasons(samples["reasons"], counts)
        if reasons:
            text = sources.line_of(path, line) if path else ""
            place: dict[str, Any] = {"kernel": kernel, "path": path, "line": line, "text": text}
            entries.append(LineSamples(**place, reasons=reasons, not_issued=not_issued))
    return Hotspots(
        entries=tuple(entries),
        excerpts=tuple(sources.excerpts_of(entries)),
        dropped=samples["dropped"],
        unattributed=samples["unattributed"],
        **labels,
    )


@dataclass(frozen=True)
class Sources:
    """The source files of kernels: shipped files, or a user's sources."""

    root: Path | None = None  # the folder of the shipped sources, if they are used
    texts: Mapping[str, str] = field(default_factory=dict)  # texts by name in the compilation

    def path_of(self, recorded: str) -> str:
        """The name of a source file from its path on the machine that compiled it."""
        found = given_path(recorded, self.texts)
        return shipped_path(found) if self.root else found

    def line_of(self, path: str, line: int) -> str:
        """The code of a line; empty if the file cannot be read or has fewer lines."""
        lines = self._text_of(path).splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def excerpts_of(self, entries: Iterable[OfLine]) -> list[Excerpt]:
        """The definitions that contain these lines, or else the lines around them."""
        found: dict[Excerpt, None] = {}
        for entry in entries:
            inside = self.root and entry.path and not Path(entry.path).is_absolute()
            if not (inside or entry.path in self.texts) or any(entry in e for e in found):
                continue
            lines = self._text_of(entry.path).splitlines()
            is_python = entry.path.endswith(".py") or entry.path.startswith("<")
            definition_at = _function_at if is_python else _block_at
            first, last = definition_at(lines, entry.line)
            if not first <= entry.line <= last:
                first, last = max(entry.line - _CONTEXT, 1), entry.line + _CONTEXT
            text = "\n".join(lines[first - 1 : last])
            found[Excerpt(path=entry.path, line=first, text=text)] = None
        return list(found)

    def _text_of(self, path: str) -> str:
        if path in self.texts:
            return self.texts[path]
        try:
            return ((self.root or Path()) / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


def _function_at(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The first and last line of the outermost Python function around a line; (0, 0) if none."""
    try:
        nodes = list(ast.walk(ast.parse("\n".join(lines))))
    except SyntaxError:
        return 0, 0
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            last = node.end_lineno or first
            if first <= line <= last:
                return first, last
    return 0, 0


def _block_at(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The first and last line of the definition around a line, by its layout; (0, 0) if unknown.

    A definition starts below an empty line and ends with a brace, both without indentation.
    """
    code = ["", *textwrap.dedent("\n".join(lines)).split("\n")]
    inside = " \t#}$"  # the first characters of other lines; labels of PTX begin with $
    starts = [i for i, t in enumerate(code) if t and t[0] not in inside and not code[i - 1]]
    ends = [i for i, text in enumerate(code) if text.startswith("}")]
    first = max((i for i in starts if i <= line), default=0)
    last = min((i for i in ends if i >= line), default=0)
    other = any(first < i < line for i in ends) or any(line < i <= last for i in starts)
    return (0, 0) if other or not first else (first, last)

"""Reports of Nsight Compute as records: limiters, charts and comparisons of profiled kernels."""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adokernels import _core, toolkit
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.records.profile import KernelProfile, Profile
from adokernels.records.sweep import Sweep
from adokernels.text import require, visible

_COMMAND = "ncu --import {} --csv --page raw > report.csv"
#: Columns of a CSV file that describe the launch. All other columns of a raw page are metrics.
_LAUNCH = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "thread Domain", "Id:Domain"),
)
_ONE_PER_ROW = "Metric Name"
_TIME = "gpu__time_duration.sum"
#: Metrics of the default sections, by their names on a details page.
_DETAILS = {
    "Duration": _TIME,
    "SM Frequency": "sm__cycles_elapsed.avg.per_second",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Executed Instructions": "smsp__inst_executed.sum",
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "# SMs": "launch__sm_count",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
}
_LIMITS = {
    "warps": "launch__occupancy_limit_warps",
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "blocks": "launch__occupancy_limit_blocks",
}
#: The limits of a kernel whose report lacks them.
_UNKNOWN = {"unknown": 0}
#: Factors of units: to nanoseconds and bytes, as the metrics of this package have them.
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIMES |= {f"{prefix}second": _TIMES[f"{prefix}s"] for prefix in ("n", "u", "m", "")}
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2.0**10, "mi": 2.0**20}
_SCALED = re.compile(r"(k|m|g|t|ki|mi)?(bytes?|b|hz|inst|cycles?|sectors?|warps?|threads?)")
#: Warps per multiprocessor by compute capability; all others have 64.
_MOST_WARPS = {"7.5": 32, "8.6": 48, "8.7": 48, "8.9": 48, "12.0": 48, "12.1": 48}


@dataclass(frozen=True)
class _Launch:
    """One profiled launch: metrics by name, in the units of this package, and texts by name."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    capability: str
    values: Mapping[str, float]
    texts: Mapping[str, str]


def import_ncu(path: str | os.PathLike[str]) -> Sweep:
    """Read a report of Nsight Compute: each profiled kernel becomes a measurement with counters.

    The result is a sweep, so limiters, cards, charts, tables and comparisons work as for measured
    ladders: ``ado.diagnose(sweep)``, ``ado.speed_of_light(sweep)``, ``ado.compare(before, after)``.
    Launches of one kernel with the same grid and block become one measurement; their times are its
    samples, and the counters come from the launch with the median time.

    Parameters
    ----------
    path
        A file of ``ncu --csv --page raw`` (``ncu --import x.ncu-rep --csv --page raw > x.csv``), of
        ``ncu --csv`` with its default page, or of ``ncu --csv --metrics ...``, also if pandas or a
        spreadsheet has saved it again; or an ``.ncu-rep`` report, which needs the program ``ncu``.

    Returns
    -------
    Sweep
        The kernels in the order of their first launch. Times come from the profiler, in
        seconds. Useful FLOPs and compulsory bytes are 0, because a report does not contain them.
        Kernels without a time are in ``skipped``, and a warning names them.

    Raises
    ------
    ValueError
        If the file is not a CSV file of ncu, if no kernel has a time, or if the unit of a time is
        unknown.
    Unavailable
        If a ``.ncu-rep`` is given, and Nsight Compute is not installed.
    OSError
        If the file cannot be read.

    Notes
    -----
    A metric that the report lacks is unknown, as on a GPU that does not have it. ``--set full``
    contains nearly all. ncu writes numbers in the notation of the user's locale. If all numbers of
    a file are ambiguous, such as 117.344, the decimal mark is the point.
    """
    require((str, os.PathLike), "a path", path=path)
    file = Path(path)
    file.open("rb").close()  # a clear error for a missing file, before another program is run
    launches = _of_report(file) if file.suffix == ".ncu-rep" else _of_csv(_text_of(file), file.name)
    groups: dict[tuple[Any, ...], list[_Launch]] = {}
    timeless: dict[str, str] = {}
    for launch in launches:
        if _nanoseconds(launch):
            groups.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch)
        else:
            timeless[launch.kernel] = f"the report has no {_TIME} of a launch"
    if timeless and not groups:
        raise ValueError(
            f"{file.name} must contain {_TIME} of {next(iter(timeless))}, got no "
            "such metric; add --section SpeedOfLight"
        )
    if not groups:
        raise ValueError(f"{file.name} must contain profiled kernels, got none")
    if timeless:
        names_of = ", ".join(timeless)
        warnings.warn(f"{file.name} has no time of launches of {names_of}", stacklevel=2)
    names: dict[str, int] = {}
    measurements = []
    for group in groups.values():
        count = names[group[0].kernel] = names.get(group[0].kernel, 0) + 1
        name = group[0].kernel if count == 1 else f"{group[0].kernel} #{count}"
        measurements.append(_measurement(file.stem, name, group))
    skipped = {name: why for name, why in timeless.items() if name not in names}
    return Sweep(routine=file.stem, measurements=tuple(measurements), skipped=skipped)


def _measurement(report: str, name: str, launches: list[_Launch]) -> Measurement:
    ordered = sorted(launches, key=_nanoseconds)
    middle = ordered[len(ordered) // 2]
    counted = _kernel_profile(middle)
    context = {"source": "Nsight Compute", "compute_capability": middle.capability}
    if device := middle.texts.get("device__attribute_display_name"):
        context["device_name"] = device
    profile = Profile(
        label=name, kernels=(counted,), cache="cold", collector="Nsight Compute", context=context
    )
    return Measurement(
        routine=report,
        variant=name,
        device="cuda",
        problem=Inputs(),
        cache="cold",
        samples=np.array([_nanoseconds(launch) * 1e-9 for launch in launches]),
        flops=0.0,
        bytes=0.0,
        executed_flops=counted.get("flops") or 0.0,
        requested_bytes=counted.get("l1_bytes") or 0.0,
        profile=profile,
        grid=middle.grid,
        block=middle.block,
        kernels=(counted.kernel,) if counted.kernel.limits != _UNKNOWN else (),
        flags=("times of the profiler",),
        context=context,
    )


def _nanoseconds(launch: _Launch) -> float:
    """The time of a launch; 0 if the report does not have it."""
    duration = launch.values.get(_TIME, 0.0)
    return duration if duration > 1e-3 else 0.0


def _kernel_profile(launch: _Launch) -> KernelProfile:
    values = dict(launch.values)
    limits = {name: int(values[key]) for name, key in _LIMITS.items() if key in values}
    resident = min(limits.values(), default=0)
    waves = values.get("launch__waves_per_multiprocessor")
    processors = values.get("device__attribute_multiprocessor_count") or values.get(
        "launch__sm_count"
    )
    if not processors and waves and resident:
        processors = math.prod(launch.grid) / (waves * resident)
    warps = math.ceil(math.prod(launch.block) / 32)
    threads = values.get("device__attribute_max_threads_per_multiprocessor")
    most = int((threads or 0.0) / 32) or _MOST_WARPS.get(launch.capability, 64)
    if not processors or not limits:  # a report without the sections LaunchStats and Occupancy
        limits, resident, processors = _UNKNOWN, most, 0
    kernel = Kernel(
        name=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        registers=int(values.get("launch__registers_per_thread", 0)),
        local_bytes=0,
        static_shared_bytes=int(values.get("launch__shared_mem_per_block_static", 0)),
        dynamic_shared_bytes=int(values.get("launch__shared_mem_per_block_dynamic", 0)),
        resident_warps=min(resident * warps, most),
        max_warps=most,
        limits=limits,
        multiprocessors=round(processors),
    )
    _derive(values)
    counted = {n: v for n, v in values.items() if not n.startswith(("launch__", "device__"))}
    return KernelProfile(kernel=kernel, values=counted, multiprocessors=kernel.multiprocessors or 1)


#: The sectors of all accesses through L1, without hits and misses.
_IN_L1 = re.compile(
    r"l1tex__t_sectors_pipe_(lsu_mem_(global|local)_op|tex_mem_(texture|surface_op))"
    r"(_(ld|st|atom|red))?\.sum"
)


def _derive(values: dict[str, float]) -> None:
    """Add the metrics that the sections of Nsight Compute contain in another form."""
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
    per_sector = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
    for op in ("ld", "st"):
        with suppress(KeyError):
            requested = values[per_sector.format(op)] * values[sectors.format(op)]
            values.setdefault(f"sm__sass_data_bytes_mem_global_op_{op}.sum", requested)
    if any(name.endswith("mem_global_op_ld.sum") and "sass" in name for name in values):
        values.setdefault("sm__sass_data_bytes_mem_global_op_ldgsts.sum", 0.0)
    with suppress(KeyError):
        both = values["dram__bytes_read.sum"] + values["dram__bytes_write.sum"]
        values.setdefault("dram__bytes.sum", both)
    in_l1 = [value for name, value in values.items() if _IN_L1.fullmatch(name)]
    if in_l1:
        values.setdefault("l1tex__t_bytes.sum", SECTOR * sum(in_l1))
    cycles = values.get("smsp__cycles_elapsed.max") or values.get("sm__cycles_elapsed.max")
    ending = ".sum.per_cycle_elapsed"
    for name in [n for n in values if n.endswith(ending)] if cycles else []:
        values.setdefault(f"{name[: -len(ending)]}.sum", values[name] * (cycles or 0.0))


# --- CSV files -----------------------------------------------------------------------------------


def _text_of(file: Path) -> str:
    data = file.read_bytes()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"  # PowerShell: 16
    return data.decode(encoding, errors="replace")


def _of_csv(text: str, name: str) -> Iterator[_Launch]:
    """The launches of a file of ``ncu --csv``, with one metric per row or per column.

    A file can contain several outputs of ncu, and further lines of ncu and of the application.
    """
    tables: list[list[dict[str, str]]] = []
    header: list[str] = []
    separator = next(
        (s for s in ",;\t" if re.search(f'^.*"?ID"?{s}.*Kernel Name', text, re.M)), ","
    )
    try:
        for cells in csv.reader(text.splitlines(), delimiter=separator):
            if {"ID", "Kernel Name"} <= set(cells):
                header = cells
                tables.append([])
                continue
            # Cells beyond the header are ignored, and missing ones are empty.
            padded = [*cells, *[""] * (len(header) - len(cells))]
            row = {name: cell for name, cell in zip(header, padded, strict=False) if name}
            units = not tables[-1] and len(cells) > 1 and not row["ID"] if header else False
            if header and (units or re.fullmatch(r"\d+(\.0)?", row["ID"])):
                tables[-1].append(row)
    except csv.Error as error:
        raise ValueError(f"{name} must be a CSV file of ncu, got an error: {error}") from error
    if not header:
        raise ValueError(
            f'{name} must be a CSV file of ncu, with a header that contains "ID" and "Kernel '
            f'Name"; write it with {_COMMAND.format("REPORT.ncu-rep")}'
        )
    for rows in filter(None, tables):
        one_per_row = _ONE_PER_ROW in rows[0]
        yield from _of_metric_rows(rows) if one_per_row else _of_launch_rows(rows)


def _of_metric_rows(rows: list[dict[str, str]]) -> Iterator[_Launch]:
    """The launches of ``--metrics`` or of a details page: one metric per row."""
    rows = [row for row in rows if row["ID"] and row.get("Metric Value")]
    mark = _decimal_mark(row["Metric Value"] for row in rows)
    launches: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        key = tuple(row.get(name) or "" for name in ("Process ID", "Host Name", "ID"))
        launches.setdefault(key, []).append(row)
    for some in launches.values():
        cells = {
            _DETAILS.get(row[_ONE_PER_ROW], row[_ONE_PER_ROW]): (
                row["Metric Value"],
                row.get("Metric Unit") or "",
            )
            for row in some
        }
        yield _launch(some[0], cells, mark)


def _of_launch_rows(rows: list[dict[str, str]]) -> Iterator[_Launch]:
    """The launches of a raw page: one launch per row, after a row with the units."""
    units = rows[0] if not rows[0]["ID"] else {}
    launches = rows[1:] if units else rows
    metrics = [name for name in rows[0] if name not in _LAUNCH]
    mark = _decimal_mark(row[name] for row in launches for name in metrics if row.get(name))
    for row in launches:
        cells = {name: (row[name], units.get(name) or "") for name in metrics if row.get(name)}
        yield _launch(row, cells, mark)


def _launch(row: Mapping[str, str], cells: Mapping[str, tuple[str, str]], mark: str) -> _Launch:
    values, texts = {}, {}
    for name, (text, unit) in cells.items():
        if name == _TIME and unit.strip().lower() not in ("", *_TIMES):  # empty: the base unit, ns
            raise ValueError(f"the unit of {name} must be ns, us, ms or s, got {unit}")
        number = _number(text, mark)
        if number is None:
            texts[name] = visible(text)
        elif 0 <= (value := number * _factor(unit)) <= _LARGEST:  # false if it is NaN
            values[name] = value
    return _Launch(
        kernel=visible(_core.kernel_name(_UNNAMED.sub("", row["Kernel Name"])) or "unknown"),
        grid=_extent(row.get("Grid Size"), values.get("launch__grid_size")),
        block=_extent(row.get("Block Size"), values.get("launch__block_size")),
        capability=row.get("CC") or "",
        values=values,
        texts=texts,
    )


def _extent(text: str | None, count: float | None) -> tuple[int, ...]:
    """A grid or a block, from ``"(256, 1, 1)"`` or from the number of blocks or threads."""
    numbers = tuple(max(int(n), 1) for n in re.findall(r"\d{1,10}", text or ""))
    while len(numbers) > 1 and numbers[-1] == 1:
        numbers = numbers[:-1]
    return numbers[:3] or (max(int(count or 1), 1),)


#: The anonymous namespace, as ncu writes it.
_UNNAMED = re.compile(r"^(void )?<?unnamed>::")
#: Larger values are errors of the report.
_LARGEST = 2.0**62
#: Numbers that only one of the two notations permits: 1,234.5 or 1.234,5.
_WITH_POINT = re.compile(r"-?(\d{1,3}(,\d{3})+\.\d+|\d{1,3}(,\d{3}){2,}|\d+\.(\d{1,2}|\d{4,}))")
_WITH_COMMA = re.compile(r"-?(\d{1,3}(\.\d{3})+,\d+|\d{1,3}(\.\d{3}){2,}|\d+,(\d{1,2}|\d{4,}))")


#: Spaces and apostrophes separate thousands in some locales, in addition to one of the two marks.
_SEPARATOR = re.compile(r"(?<=\d)[ \xa0\u202f'\u2019](?=\d{3}(?!\d))")


def _decimal_mark(texts: Iterable[str]) -> str:
    """The decimal mark of a file: ncu writes numbers in the notation of the user's locale.

    Numbers such as 1,234 and 1.234 are ambiguous.
    """
    numbers = [_SEPARATOR.sub("", text) for text in texts]
    marks = {".": _WITH_POINT, ",": _WITH_COMMA}
    found = [mark for mark, form in marks.items() if any(map(form.fullmatch, numbers))]
    if len(found) > 1:
        raise ValueError(
            "the numbers of a CSV file must have one decimal mark, got both '.' and ','; write "
            "the file again with LC_ALL=C"
        )
    return found[0] if found else "."


def _number(text: str, mark: str) -> float | None:
    """A number, or None for a text; "n/a" and "no data" are not a number."""
    if text.strip().lower() in ("n/a", "nan", "no data"):
        return math.nan
    plain = _SEPARATOR.sub("", text)
    plain = plain.replace("." if mark == "," else ",", "").replace(mark, ".")
    # A metric with one value per instance has them in parentheses after the total.
    plain = plain.partition(" (")[0].partition("; ")[0]
    try:
        return float(plain)
    except ValueError:
        return None


def _factor(unit: str) -> float:
    """The factor from a unit of ncu, such as ``Kbyte/block`` or ``cycle/nsecond``."""
    above, _, below = unit.strip().lower().partition("/")
    factor = _TIMES.get(above)
    if factor is None:
        scaled = _SCALED.fullmatch(above)
        factor = _PREFIXES[scaled[1] or ""] if scaled else 1.0
    return factor / (_TIMES[below] / _TIMES["s"]) if below in _TIMES else factor


# --- reports -------------------------------------------------------------------------------------


def _of_report(file: Path) -> Iterable[_Launch]:
    """The launches of a report, as ``ncu`` prints them."""
    ncu = toolkit.program("ncu")
    if not ncu:
        raise _core.Unavailable(
            f"{file.name} cannot be read: the program ncu is not installed; remedy: "
            f"{_COMMAND.format(file.name)} on the machine that wrote it"
        )
    # In base units, ncu rounds ratios to two decimals.
    command = [ncu, "--import", str(file), "--csv", "--page", "raw"]
    variables = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ValueError(f"{file.name} must be a report of ncu, got {''.join(reason)}")
    return _of_csv(done.stdout, file.name)

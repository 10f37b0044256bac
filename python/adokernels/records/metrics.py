"""The metrics of the default set, and the quantities that are computed from them.

Metrics have the names and units of Nsight Compute: percentages from 0 to 100, nanoseconds.
Quantities have names of this package and SI units; shares are fractions from 0 to 1.

Sources: the section files of Nsight Compute 2025.3 and the CUPTI documentation. Metrics that the
chip does not support are omitted. Quantities that need such a metric are omitted too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adokernels.records.definitions import STALLS

Values = Mapping[str, float]

#: Bytes of a sector, the unit of transfer between L1, L2 and DRAM.
SECTOR = 32
#: Sectors of the largest request: 16 bytes per lane of a warp.
LARGEST_REQUEST = 16
WARP = 32

#: Metric of the utilisation of each pipe, relative to the cycles in which an SM is active.
PIPES = {
    "ALU": "sm__pipe_alu_cycles_active",
    "FMA": "sm__pipe_fma_cycles_active",
    "FP64": "sm__pipe_fp64_cycles_active",
    "FP16": "sm__inst_executed_pipe_fma_type_fp16",
    "tensor": "sm__pipe_tensor_cycles_active",
    "XU": "sm__inst_executed_pipe_xu",
    "LSU": "sm__inst_executed_pipe_lsu",
    "TEX": "sm__inst_executed_pipe_tex",
    "uniform": "sm__inst_executed_pipe_uniform",
    "ADU": "sm__inst_executed_pipe_adu",
    "CBU": "sm__inst_executed_pipe_cbu",
    "TMA": "sm__inst_executed_pipe_tma",
}

#: Units of compute. The speed of light of compute is the maximum of their utilisations.
COMPUTE_BREAKDOWN = {
    "issue slots": "sm__inst_issued",
    "executed instructions": "sm__inst_executed",
    **{f"{name} pipe": PIPES[name] for name in ("ALU", "FMA", "FP64", "tensor", "XU", "LSU")},
    **{f"{name} pipe": PIPES[name] for name in ("ADU", "uniform")},
    "heavy FMA pipe": "sm__pipe_fmaheavy_cycles_active",
    "branch unit": "sm__inst_executed_pipe_cbu_pred_on_any",
    "memory instructions (MIO)": "sm__mio_inst_issued",
    "MIO queue reads": "sm__mio_pq_read_cycles_active",
    "MIO queue writes": "sm__mio_pq_write_cycles_active",
    "MIO write-back": "sm__mio2rf_writeback_active",
    "constant cache requests": "idc__request_cycles_active",
}

#: Units of each memory level. The speed of light of memory is the maximum of their utilisations.
MEMORY_BREAKDOWN = {
    "L1": {
        "L1 data banks, reads": "l1tex__data_bank_reads",
        "L1 data banks, writes": "l1tex__data_bank_writes",
        "L1 wavefronts": "l1tex__data_pipe_lsu_wavefronts",
        "L1 requests": "l1tex__lsuin_requests",
        "L1 tag wavefronts": "l1tex__f_wavefronts",
        "L1 write-back to registers": "l1tex__lsu_writeback_active",
        "L1 to L2 requests": "l1tex__m_l1tex2xbar_req_cycles_active",
        "L2 to L1 sectors": "l1tex__m_xbar2l1tex_read_sectors",
    },
    "L2": {
        "L2 sectors": "lts__t_sectors",
        "L2 tag requests": "lts__t_tag_requests",
        "L2 data sectors": "lts__d_sectors",
        "L2 fills from DRAM": "lts__d_sectors_fill_device",
        "L2 to crossbar": "lts__lts2xbar_cycles_active",
        "crossbar to L2": "lts__xbar2lts_cycles_active",
        "L2 atomics": "lts__d_atomic_input_cycles_active",
    },
    "DRAM": {"DRAM cycles": "dram__cycles_active", "DRAM bytes": "dram__bytes"},
}
LEVELS = {"compute": COMPUTE_BREAKDOWN, **MEMORY_BREAKDOWN}

_OF_PEAK = ".avg.pct_of_peak_sustained_elapsed"
_ACTIVE = ".avg.pct_of_peak_sustained_active"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
THREADS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"


#: Throughputs of Nsight Compute that are the share of a level. Those of L1 and L2 are not: they are
#: shares of the active cycles, or contain further units.
_THROUGHPUTS = {
    "compute": ("sm__throughput" + _OF_PEAK,),
    "DRAM": ("dram__throughput" + _OF_PEAK, "gpu__dram_throughput" + _OF_PEAK),
}


def of_peak(metric: str) -> str:
    """Metric of the utilisation of a unit over the kernel's time, in percent."""
    if metric == "dram__bytes":
        return "dram__bytes.sum.pct_of_peak_sustained_elapsed"
    return metric + _OF_PEAK


@dataclass(frozen=True)
class Unit:
    """A hardware unit and its utilisation over the kernel's time, as a share of its peak."""

    name: str
    level: str  # "compute" or a memory level
    share: float


def units_of(values: Values, levels: Mapping[str, Mapping[str, str]] = LEVELS) -> tuple[Unit, ...]:
    """The collected units of compute and of the memory levels, the busiest first.

    This is the only definition of the share of a level: the share of its busiest unit. The largest
    shares of compute and of memory are the two figures of Nsight Compute's speed of light. A report
    may have only the throughput of a level, which is the same share without the name of the unit.
    """
    found = []
    for level, parts in levels.items():
        shares = {name: values.get(of_peak(metric)) for name, metric in parts.items()}
        if set(shares.values()) == {None}:
            wholes = (values.get(name) for name in _THROUGHPUTS.get(level, ()))
            shares = {level: next((whole for whole in wholes if whole is not None), None)}
        known = {name: share for name, share in shares.items() if share is not None}
        found += [Unit(n, level, s / 100) for n, s in known.items() if math.isfinite(s)]
    return tuple(sorted(found, key=lambda unit: -unit.share))


def mix_limit(fma_share: float) -> float:
    """The largest share of the FMA peak if this fraction of the instructions are FMAs, on a GPU.

    One pipe executes all floating-point instructions. An FMA counts two FLOPs, the others one.
    """
    return (1 + fma_share) / 2


@dataclass(frozen=True)
class Quantity:
    """One quantity that is computed from metrics."""

    key: str  # its name in code: ``profile["dram_bytes"]``
    title: str  # its name in tables
    unit: str  # "s", "B", "Hz", "%" (a fraction, shown as a percentage), or empty
    section: str  # in tables
    formula: Callable[[Values], float]  # of the metrics' values; KeyError if one is missing

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of Nsight Compute from which it is computed."""
        asked = _Asked()
        self.formula(asked)
        return tuple(asked)

    def of(self, values: Values) -> float | None:
        """Compute the quantity; return None if a metric is missing or nothing was counted."""
        try:
            return self.formula(values)
        except (KeyError, ZeroDivisionError):
            return None


_Formula = Callable[[Values], float]


def _metric(name: str, factor: float = 1.0) -> _Formula:
    return lambda v: v[name] * factor


def _percent(name: str) -> _Formula:
    return _metric(name, 0.01)


def _sum(*names: str) -> _Formula:
    return lambda v: sum(v[name] for name in names)


def _ratio(above: _Formula, below: _Formula) -> _Formula:
    return lambda v: above(v) / below(v)


def _flops(add: str, mul: str, fma: str, lanes: int) -> _Formula:
    names = [THREADS.format(op) for op in (add, mul, fma)]
    return lambda v: lanes * (v[names[0]] + v[names[1]] + 2 * v[names[2]])


_FP = {"fp64": ("dadd", "dmul", "dfma", 1), "fp32": ("fadd", "fmul", "ffma", 1)}
_FP["fp16"] = ("hadd", "hmul", "hfma", 2)
#: Precisions that are included in all FLOPs. FP16 is not: compilers move constants with it.
_COUNTED_AS_FLOPS = ("fp64", "fp32")


def _all_flops(v: Values) -> float:
    return sum(_flops(*ops)(v) for ops in _counted_precisions(v))


def _counted_precisions(v: Values) -> list[tuple[str, str, str, int]]:
    """The instructions of the counted precisions; reports may have only FP32; KeyError if none."""
    ours = [_FP[precision] for precision in _COUNTED_AS_FLOPS]
    if isinstance(v, _Asked):
        return ours
    found = [ops for ops in ours if all(THREADS.format(op) in v for op in ops[:3])]
    if not found:
        raise KeyError("FLOPs")
    return found


def _fma_share(v: Values) -> float:
    ours = _counted_precisions(v)
    fused = sum(v[THREADS.format(ops[2])] for ops in ours)
    others = sum(v[THREADS.format(op)] for ops in ours for op in ops[:2])
    return fused / (fused + others)


def _ideal(op: str) -> _Formula:
    """Minimum number of sectors for the requested bytes, at least one per request; exact counts.

    A word that several lanes access counts once. Asynchronous copies to shared memory (LDGSTS) are
    loads. The counters of sectors may be up to 3 % too low, so they do not limit the ideal.
    """
    names = [f"sm__sass_data_bytes_mem_global_op_{op}.sum"]
    names += ["sm__sass_data_bytes_mem_global_op_ldgsts.sum"] if op == "ld" else []
    requests = GLOBAL.format("requests", op)
    return lambda v: min(max(_sum(*names)(v) / SECTOR, v[requests]), LARGEST_REQUEST * v[requests])


def _busiest(level: str) -> _Formula:
    """The share of the busiest unit of a level; KeyError if none was collected."""

    def share(v: Values) -> float:
        units = units_of(v, {level: LEVELS[level]})
        if not units:
            raise KeyError(level)
        return units[0].share

    return share


CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_{}.sum"
#: Counts of the emulator that hardware counters do not contain: barriers and PTX instructions.
EMULATED_BARRIERS, EMULATED_INSTRUCTIONS = "emulator__barriers.sum", "emulator__inst_ptx.sum"
#: Sectors, and ideal number of sectors, of bulk copies from (ld) and to (st) global memory. The
#: sectors of loads and stores exclude bulk copies, as the hardware's counters do.
EMULATED_BULK = "emulator__bulk_{}_op_{}.sum"
#: Further counts of the emulator, from which advice follows: unneeded_fp64 (FP64 instructions of
#: threads if no array is FP64), constant_requests, constant_passes (different addresses of each);
#: of global atomics: atomic_updates (lanes), atomic_addresses, atomic_ideal_sectors.
EMULATED = "emulator__{}.sum"
_LANES = "smsp__thread_inst_executed{}_per_inst_executed.ratio"
_BOTH = ("ld", "st")
_ATOMIC_SECTORS = tuple(GLOBAL.format("sectors", op) for op in ("atom", "red"))

_Rows = list[tuple[str, str, str, _Formula]]


def _access(op: str, name: str) -> _Rows:
    sectors, requests = (_metric(GLOBAL.format(of, op)) for of in ("sectors", "requests"))
    ratio = _ratio(sectors, requests)
    return [
        (f"{name}_requests", f"{name} requests", "", requests),
        (f"{name}_sectors", f"{name} sectors", "", sectors),
        (f"ideal_{name}_sectors", f"{name} sectors, ideal", "", _ideal(op)),
        (f"{name}_sectors_per_request", f"sectors per {name} request", "", ratio),
    ]


def _shared(op: str, name: str) -> _Rows:
    wavefronts, conflicts = (_metric(of.format(op)) for of in (WAVEFRONTS, CONFLICTS))
    return [
        (f"shared_{name}_wavefronts", f"shared {name} wavefronts", "", wavefronts),
        (f"shared_{name}_conflicts", f"shared {name} bank conflicts", "", conflicts),
    ]


_conflicts = _ratio(_sum(*map(CONFLICTS.format, _BOTH)), _sum(*map(WAVEFRONTS.format, _BOTH)))
_active, _elapsed = _metric("sm__cycles_active.avg"), _metric("sm__cycles_elapsed.max")
_latency = _metric("smsp__average_warp_latency_per_inst_issued.ratio")
_issued = _metric("smsp__issue_active.avg.per_cycle_active")
_uniform = _percent("smsp__sass_average_branch_targets_threads_uniform.pct")
_unpredicated = _metric(_LANES.format("_pred_on"))
_balance = _ratio(_active, _metric("sm__cycles_active.max"))
_warps = "smsp__warps_{}.avg.per_cycle_active"

#: Key, title, unit and formula of each quantity, by section.
_SECTIONS: dict[str, _Rows] = {
    "time": [
        ("seconds", "time", "s", _metric("gpu__time_duration.sum", 1e-9)),
        ("clock", "SM clock", "Hz", _metric("sm__cycles_elapsed.avg.per_second")),
    ],
    "speed of light": [
        ("compute_sol", "compute", "%", _percent("sm__throughput" + _OF_PEAK)),
        ("memory_sol", "memory", "%", _percent("gpu__compute_memory_throughput" + _OF_PEAK)),
        *((f"{level.lower()}_sol", level, "%", _busiest(level)) for level in MEMORY_BREAKDOWN),
    ],
    "throughputs of Nsight Compute": [
        ("l1_active", "L1, in its active cycles", "%", _percent("l1tex__throughput" + _ACTIVE)),
        ("l2_all", "L2, all its units", "%", _percent("lts__throughput" + _OF_PEAK)),
    ],
    "bytes": [
        ("l1_bytes", "L1", "B", _metric("l1tex__t_bytes.sum")),
        ("shared_bytes", "shared memory", "B", _metric("sm__sass_data_bytes_mem_shared.sum")),
        ("l2_bytes", "L2, from and to L1", "B", _metric("lts__t_sectors_srcunit_tex.sum", SECTOR)),
        ("dram_read_bytes", "DRAM read", "B", _metric("dram__bytes_read.sum")),
        ("dram_write_bytes", "DRAM written", "B", _metric("dram__bytes_write.sum")),
        ("dram_bytes", "DRAM", "B", _metric("dram__bytes.sum")),
        ("l1_hit_rate", "L1 hit rate", "%", _percent("l1tex__t_sector_hit_rate.pct")),
        ("l2_hit_rate", "L2 hit rate", "%", _percent("lts__t_sector_hit_rate.pct")),
    ],
    "global memory": [*_access("ld", "load"), *_access("st", "store")],
    "shared memory": [
        *_shared("ld", "load"),
        *_shared("st", "store"),
        *_shared("atom", "atomic"),
        ("conflict_share", "wavefronts that are bank conflicts", "%", _conflicts),
    ],
    "issue": [
        ("instructions", "warp instructions", "", _metric("smsp__inst_executed.sum")),
        ("issue_active", "issue slots used", "%", _issued),
        ("eligible_warps", "eligible warps per scheduler", "", _metric(_warps.format("eligible"))),
        ("active_warps", "active warps per scheduler", "", _metric(_warps.format("active"))),
        ("occupancy", "achieved occupancy", "%", _percent("sm__warps_active" + _ACTIVE)),
    ],
    "warp states": [
        ("warp_latency", "cycles between instructions of a warp", "", _latency),
        *((f"stall_{s}", s.replace("_", " "), "", _metric(_STALL.format(s))) for s in STALLS),
    ],
    "pipes": [
        (f"pipe_{name.lower()}", f"{name} pipe", "%", _percent(metric + _ACTIVE))
        for name, metric in PIPES.items()
    ],
    "operations": [
        ("flops", "FP64 and FP32 FLOPs", "", _all_flops),
        *(
            (f"flops_{name}", f"{name.upper()} FLOPs", "", _flops(*ops))
            for name, ops in _FP.items()
        ),
        ("fma_share", "FMAs of FP instructions", "%", _fma_share),
        *(
            (f"{kind}_operations", f"{kind} instructions of threads", "", _metric(name))
            for kind in ("integer", "conversion", "memory", "control", "bit", "misc")
            for name in [THREADS.format(kind)]
        ),
    ],
    "divergence": [
        ("lanes", "active lanes per instruction", "", _metric(_LANES.format(""))),
        ("unpredicated_lanes", "active lanes not predicated off", "", _unpredicated),
        ("branch_efficiency", "branch efficiency", "%", _uniform),
    ],
    "local memory": [
        (
            "local_bytes",
            "local memory (spills)",
            "B",
            lambda v: SECTOR * _sum(*map(LOCAL.format, _BOTH))(v),
        ),
    ],
    "synchronisation": [
        ("atomics", "global atomic requests", "", _metric(GLOBAL.format("requests", "atom"))),
        ("atomic_sectors", "global atomic sectors", "", _sum(*_ATOMIC_SECTORS)),
        ("barriers", "barriers of warps", "", _metric(EMULATED_BARRIERS)),
    ],
    "imbalance": [
        ("sm_balance", "mean active cycles of SMs, of the maximum", "%", _balance),
        ("sm_active", "cycles in which an SM is active", "%", _ratio(_active, _elapsed)),
    ],
}
QUANTITIES = tuple(
    Quantity(key, title, unit, section, formula)
    for section, rows in _SECTIONS.items()
    for key, title, unit, formula in rows
)

#: The quantity with the bytes of each memory level, nearest first.
LEVEL_BYTES = {level: f"{level.lower()}_bytes" for level in ("L1", "shared", "L2", "DRAM")}

BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}


class _Asked(dict[str, float]):
    """A mapping that records which metrics a formula reads."""

    def __missing__(self, name: str) -> float:
        self[name] = 1.0
        return 1.0

    def get(self, name: str, default: object = None) -> float:
        return self[name]


#: The metrics of all quantities, the breakdown of the speed of light, and a weight.
_DEFAULT = (
    *(m for quantity in QUANTITIES for m in quantity.metrics if m != EMULATED_BARRIERS),
    *(of_peak(metric) for group in LEVELS.values() for metric in group.values()),
    "smsp__inst_issued.sum",
)
#: Sets of metrics by name. "light" excludes metrics that need instrumented code.
METRIC_SETS = {
    "default": tuple(dict.fromkeys(_DEFAULT)),
    "light": tuple(dict.fromkeys(metric for metric in _DEFAULT if "sass" not in metric)),
}


def combined(kernels: list[Values]) -> dict[str, float]:
    """Combine the values of several kernels.

    Counts are added. Stall reasons are averaged with issued instructions as weights, and all other
    values with time as weight.
    """
    if len(kernels) == 1:
        return dict(kernels[0])
    common = [name for name in kernels[0] if all(name in values for values in kernels)]
    seconds = [values.get("gpu__time_duration.sum", 1.0) for values in kernels]
    of_warps = ("smsp__inst_issued.sum", EMULATED_INSTRUCTIONS)
    issued = [next((v[name] for name in of_warps if name in v), 1.0) for v in kernels]

    def total(name: str) -> float:
        if name.endswith(".sum"):
            return sum(values[name] for values in kernels)
        weights = issued if "_per_inst_" in name or "_per_issue_" in name else seconds
        weighted = sum(w * values[name] for w, values in zip(weights, kernels, strict=True))
        return weighted / (sum(weights) or 1.0)

    return {name: total(name) for name in common}

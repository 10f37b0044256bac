"""The metrics of the default set, and the quantities that are computed from them.

Metrics have the names and units of Nsight Compute: percentages from 0 to 100, nanoseconds.
Quantities have names of this package and SI units; shares are fractions from 0 to 1.

Sources: the section files of Nsight Compute 2025.3 and the CUPTI documentation. Metrics that the
chip does not support are omitted. Quantities that need such a metric are omitted too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Values = Mapping[str, float]

#: Bytes of a sector, the unit of transfer between L1, L2 and DRAM.
SECTOR = 32
#: Bytes per wavefront that the data banks of L1 and shared memory deliver.
WAVEFRONT = 128
WARP = 32

#: Warp states by their names in Nsight Compute: stall reasons, and "selected" (the warp issues).
STALLS = (
    *("long_scoreboard", "lg_throttle", "mio_throttle", "short_scoreboard", "tex_throttle"),
    *("math_pipe_throttle", "wait", "not_selected", "dispatch_stall", "barrier", "membar"),
    *("branch_resolving", "no_instruction", "imc_miss", "drain", "sleeping", "misc", "gmma"),
    "selected",
)

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
    "ALU pipe": "sm__pipe_alu_cycles_active",
    "FMA pipe": "sm__pipe_fma_cycles_active",
    "heavy FMA pipe": "sm__pipe_fmaheavy_cycles_active",
    "FP64 pipe": "sm__pipe_fp64_cycles_active",
    "tensor pipe": "sm__pipe_tensor_cycles_active",
    "XU pipe": "sm__inst_executed_pipe_xu",
    "LSU pipe": "sm__inst_executed_pipe_lsu",
    "ADU pipe": "sm__inst_executed_pipe_adu",
    "uniform pipe": "sm__inst_executed_pipe_uniform",
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
    "DRAM": {
        "DRAM cycles": "dram__cycles_active",
        "DRAM bytes": "dram__bytes",
    },
}

_OF_PEAK = ".avg.pct_of_peak_sustained_elapsed"
_ACTIVE = ".avg.pct_of_peak_sustained_active"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_THREADS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"


def of_peak(metric: str) -> str:
    """Metric of the utilisation of a unit over the kernel's time, in percent."""
    if metric == "dram__bytes":
        return "dram__bytes.sum.pct_of_peak_sustained_elapsed"
    return metric + _OF_PEAK


@dataclass(frozen=True)
class Quantity:
    """One quantity that is computed from metrics.

    Attributes
    ----------
    key
        Its name in code: ``profile["dram_bytes"]``.
    title
        Its name in tables.
    unit
        ``"s"``, ``"B"``, ``"Hz"``, ``"%"`` (a fraction, shown as a percentage), or empty.
    section
        Its section in tables.
    formula
        Computes it from the values of metrics; raises KeyError if one is missing.
    """

    key: str
    title: str
    unit: str
    section: str
    formula: Callable[[Values], float]

    def of(self, values: Values) -> float | None:
        """Compute the quantity; None if a metric is missing or nothing was counted."""
        try:
            return self.formula(values)
        except (KeyError, ZeroDivisionError):
            return None


def _metric(name: str, factor: float = 1.0) -> Callable[[Values], float]:
    return lambda v: v[name] * factor


def _percent(name: str) -> Callable[[Values], float]:
    return _metric(name, 0.01)


def _sum(*names: str) -> Callable[[Values], float]:
    return lambda v: sum(v[name] for name in names)


def _ratio(
    above: Callable[[Values], float], below: Callable[[Values], float]
) -> Callable[[Values], float]:
    return lambda v: above(v) / below(v)


def _flops(add: str, mul: str, fma: str, lanes: int) -> Callable[[Values], float]:
    names = [_THREADS.format(op) for op in (add, mul, fma)]
    return lambda v: lanes * (v[names[0]] + v[names[1]] + 2 * v[names[2]])


_FP = {"fp64": ("dadd", "dmul", "dfma", 1), "fp32": ("fadd", "fmul", "ffma", 1)}
_FP["fp16"] = ("hadd", "hmul", "hfma", 2)


#: Precisions that are included in all FLOPs. FP16 is not: compilers move constants with it.
_COUNTED_AS_FLOPS = ("fp64", "fp32")


def _all_flops(v: Values) -> float:
    return sum(_flops(*_FP[precision])(v) for precision in _COUNTED_AS_FLOPS)


def _fma_share(v: Values) -> float:
    ours = [_FP[precision] for precision in _COUNTED_AS_FLOPS]
    fused = sum(v[_THREADS.format(ops[2])] for ops in ours)
    others = sum(v[_THREADS.format(op)] for ops in ours for op in ops[:2])
    return fused / (fused + others)


def _sectors(op: str) -> Callable[[Values], float]:
    return _metric(_GLOBAL.format("sectors", op))


def _requests(op: str) -> Callable[[Values], float]:
    return _metric(_GLOBAL.format("requests", op))


def _ideal(op: str) -> Callable[[Values], float]:
    """Minimum number of sectors for the requested bytes, at most the counted number.

    A word that several lanes access counts once.

    Asynchronous copies to shared memory (LDGSTS) are loads.
    """
    names = [f"sm__sass_data_bytes_mem_global_op_{op}.sum"]
    names += ["sm__sass_data_bytes_mem_global_op_ldgsts.sum"] if op == "ld" else []
    return lambda v: min(_sum(*names)(v) / SECTOR, _sectors(op)(v))


_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_TEX_SECTORS = "lts__t_sectors_srcunit_tex.sum"
_LOCAL = tuple(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st"))


def _access(op: str, words: str) -> list[Quantity]:
    name, section = words.partition(" ")[0], "global memory"
    return [
        Quantity(f"{name}_requests", f"{words} requests", "", section, _requests(op)),
        Quantity(f"{name}_sectors", f"{words} sectors", "", section, _sectors(op)),
        Quantity(f"ideal_{name}_sectors", f"{words} sectors, ideal", "", section, _ideal(op)),
        Quantity(
            f"{name}_sectors_per_request",
            f"sectors per {words} request",
            "",
            section,
            _ratio(_sectors(op), _requests(op)),
        ),
    ]


def _shared(op: str, words: str) -> list[Quantity]:
    section = "shared memory"
    return [
        Quantity(
            f"shared_{words}_wavefronts",
            f"shared {words} wavefronts",
            "",
            section,
            _metric(_WAVEFRONTS.format(op)),
        ),
        Quantity(
            f"shared_{words}_conflicts",
            f"shared {words} bank conflicts",
            "",
            section,
            _metric(_CONFLICTS.format(op)),
        ),
    ]


_BOTH = ("ld", "st")

QUANTITIES: tuple[Quantity, ...] = (
    Quantity("seconds", "time", "s", "time", _metric("gpu__time_duration.sum", 1e-9)),
    Quantity("clock", "SM clock", "Hz", "time", _metric("sm__cycles_elapsed.avg.per_second")),
    Quantity(
        "compute_sol",
        "compute",
        "%",
        "speed of light",
        _percent("sm__throughput" + _OF_PEAK),
    ),
    Quantity(
        "memory_sol",
        "memory",
        "%",
        "speed of light",
        _percent("gpu__compute_memory_throughput" + _OF_PEAK),
    ),
    Quantity("l1_sol", "L1", "%", "speed of light", _percent("l1tex__throughput" + _ACTIVE)),
    Quantity("l2_sol", "L2", "%", "speed of light", _percent("lts__throughput" + _OF_PEAK)),
    Quantity(
        "dram_sol", "DRAM", "%", "speed of light", _percent("gpu__dram_throughput" + _OF_PEAK)
    ),
    Quantity("l1_bytes", "L1", "B", "bytes", _metric("l1tex__t_bytes.sum")),
    Quantity(
        "shared_bytes",
        "shared memory",
        "B",
        "bytes",
        _metric("sm__sass_data_bytes_mem_shared.sum"),
    ),
    Quantity("l2_bytes", "L2, from and to L1", "B", "bytes", _metric(_TEX_SECTORS, SECTOR)),
    Quantity("dram_read_bytes", "DRAM read", "B", "bytes", _metric("dram__bytes_read.sum")),
    Quantity("dram_write_bytes", "DRAM written", "B", "bytes", _metric("dram__bytes_write.sum")),
    Quantity("dram_bytes", "DRAM", "B", "bytes", _metric("dram__bytes.sum")),
    Quantity("l1_hit_rate", "L1 hit rate", "%", "bytes", _percent("l1tex__t_sector_hit_rate.pct")),
    Quantity("l2_hit_rate", "L2 hit rate", "%", "bytes", _percent("lts__t_sector_hit_rate.pct")),
    *_access("ld", "load"),
    *_access("st", "store"),
    *_shared("ld", "load"),
    *_shared("st", "store"),
    Quantity(
        "conflict_share",
        "wavefronts that are bank conflicts",
        "%",
        "shared memory",
        _ratio(
            _sum(*map(_CONFLICTS.format, _BOTH)),
            _sum(*map(_WAVEFRONTS.format, _BOTH)),
        ),
    ),
    Quantity("instructions", "warp instructions", "", "issue", _metric("smsp__inst_executed.sum")),
    Quantity(
        "issue_active",
        "issue slots used",
        "%",
        "issue",
        _metric("smsp__issue_active.avg.per_cycle_active"),
    ),
    Quantity(
        "eligible_warps",
        "eligible warps per scheduler",
        "",
        "issue",
        _metric("smsp__warps_eligible.avg.per_cycle_active"),
    ),
    Quantity(
        "active_warps",
        "active warps per scheduler",
        "",
        "issue",
        _metric("smsp__warps_active.avg.per_cycle_active"),
    ),
    Quantity(
        "occupancy",
        "achieved occupancy",
        "%",
        "issue",
        _percent("sm__warps_active.avg.pct_of_peak_sustained_active"),
    ),
    Quantity(
        "warp_latency",
        "cycles between instructions of a warp",
        "",
        "warp states",
        _metric("smsp__average_warp_latency_per_inst_issued.ratio"),
    ),
    *(
        Quantity(
            f"stall_{name}", name.replace("_", " "), "", "warp states", _metric(_STALL.format(name))
        )
        for name in STALLS
    ),
    *(
        Quantity(f"pipe_{name.lower()}", f"{name} pipe", "%", "pipes", _percent(metric + _ACTIVE))
        for name, metric in PIPES.items()
    ),
    Quantity("flops", "FP64 and FP32 FLOPs", "", "operations", _all_flops),
    *(
        Quantity(f"flops_{name}", f"{name.upper()} FLOPs", "", "operations", _flops(*ops))
        for name, ops in _FP.items()
    ),
    Quantity("fma_share", "FMAs of FP instructions", "%", "operations", _fma_share),
    *(
        Quantity(
            f"{name}_operations",
            f"{name} instructions of threads",
            "",
            "operations",
            _metric(_THREADS.format(name)),
        )
        for name in ("integer", "conversion", "memory", "control", "bit", "misc")
    ),
    Quantity(
        "lanes",
        "active lanes per instruction",
        "",
        "divergence",
        _metric("smsp__thread_inst_executed_per_inst_executed.ratio"),
    ),
    Quantity(
        "unpredicated_lanes",
        "active lanes not predicated off",
        "",
        "divergence",
        _metric("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"),
    ),
    Quantity(
        "branch_efficiency",
        "branch efficiency",
        "%",
        "divergence",
        _percent("smsp__sass_average_branch_targets_threads_uniform.pct"),
    ),
    Quantity(
        "local_bytes",
        "local memory (spills)",
        "B",
        "local memory",
        lambda v: SECTOR * _sum(*_LOCAL)(v),
    ),
    Quantity(
        "sm_balance",
        "mean active cycles of SMs, of the maximum",
        "%",
        "imbalance",
        _ratio(_metric("sm__cycles_active.avg"), _metric("sm__cycles_active.max")),
    ),
    Quantity(
        "sm_active",
        "cycles in which an SM is active",
        "%",
        "imbalance",
        _ratio(_metric("sm__cycles_active.avg"), _metric("sm__cycles_elapsed.max")),
    ),
)

#: The quantity with the bytes of each memory level, nearest first.
LEVEL_BYTES = {
    "L1": "l1_bytes",
    "shared": "shared_bytes",
    "L2": "l2_bytes",
    "DRAM": "dram_bytes",
}

BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}


class _Asked(dict[str, float]):
    """A mapping that records which metrics a formula reads."""

    def __missing__(self, name: str) -> float:
        self[name] = 1.0
        return 1.0


def _metrics_of_quantities() -> list[str]:
    asked = _Asked()
    for quantity in QUANTITIES:
        quantity.formula(asked)
    return list(asked)


def default_metrics() -> tuple[str, ...]:
    """The metrics of the default set: all quantities and the breakdown of the speed of light."""
    breakdown = [COMPUTE_BREAKDOWN, *MEMORY_BREAKDOWN.values()]
    parts = [of_peak(metric) for group in breakdown for metric in group.values()]
    weights = ["smsp__inst_issued.sum"]
    return tuple(dict.fromkeys([*_metrics_of_quantities(), *parts, *weights]))


#: Sets of metrics by name. "light" excludes metrics that need instrumented code.
METRIC_SETS = {
    "default": default_metrics(),
    "light": tuple(metric for metric in default_metrics() if "sass" not in metric),
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
    issued = [values.get("smsp__inst_issued.sum", 1.0) for values in kernels]

    def total(name: str) -> float:
        if name.endswith(".sum"):
            return sum(values[name] for values in kernels)
        weights = issued if "_per_inst_" in name or "_per_issue_" in name else seconds
        weighted = sum(w * values[name] for w, values in zip(weights, kernels, strict=True))
        return weighted / (sum(weights) or 1.0)

    return {name: total(name) for name in common}

"""Reports of Nsight Compute as records: CSV files in all notations, reports, and their errors."""

import csv
import io
import warnings
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import adokernels as ado
from adokernels import toolkit
from adokernels.charts.canvas import plt
from adokernels.records.limiter import Kind

DATA = Path(__file__).parent.parent / "notebooks" / "data"
STORED = ado.load(DATA / "transpose-float32-8192.json.xz")
NAMES = ("naive", "tiled", "padded")
HEADER = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
HEADER += ["Block Size", "Grid Size", "Device", "CC"]
#: Scaled units as ncu writes them, with the factor from the unit of the metric.
SCALED = {"gpu__time_duration.sum": ("us", 1e3), "sm__cycles_elapsed.avg.per_second": ("Ghz", 1e9)}
SCALED |= {f"dram__bytes{of}.sum": ("Mbyte", 1e6) for of in ("", "_read", "_write")}


def launches():
    """Kernel name, grid, block and metrics of each stored kernel, with its launch statistics."""
    for name in NAMES:
        counted = STORED[name].profile.longest
        kernel, values = counted.kernel, dict(counted.values)
        values["launch__registers_per_thread"] = kernel.registers
        values["launch__shared_mem_per_block_static"] = kernel.static_shared_bytes
        values["device__attribute_multiprocessor_count"] = counted.multiprocessors
        for limit, blocks in kernel.limits.items():
            values[f"launch__occupancy_limit_{limit.replace('shared memory', 'shared_mem')}"] = (
                blocks
            )
        yield f"void {kernel.name}(const T1 *, T1 *, (Rows)1)", kernel, values


def formatted(value, mark="."):
    text = f"{value:,.6f}" if value % 1 else f"{value:,.0f}"
    return text if mark == "." else text.translate(str.maketrans(",.", ".,"))


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def row_of(i, name, kernel):
    extents = (f"({', '.join(map(str, (*e, 1, 1)[:3]))})" for e in (kernel.block, kernel.grid))
    return [i, 77, "python", "127.0.0.1", name, 1, 7, *extents, 0, "9.0"]


def raw_page(mark=".", scaled=True):
    """A raw page: one launch per row, units in the second row, and other output before it."""
    metrics = sorted({metric for *_, values in launches() for metric in values})
    units = [SCALED[m][0] if scaled and m in SCALED else "" for m in metrics]
    factors = [SCALED[m][1] if scaled and m in SCALED else 1 for m in metrics]
    lines = ["==PROF== Connected to process 77 (/usr/bin/python)", quoted(HEADER + metrics)]
    lines.append(quoted([""] * len(HEADER) + units))
    for i, (name, kernel, values) in enumerate(launches()):
        cells = [
            formatted(values[m] / f, mark) if m in values else "n/a"
            for m, f in zip(metrics, factors, strict=True)
        ]
        lines.append(quoted(row_of(i, name, kernel) + cells))
    return "\n".join(lines) + "\n"


@pytest.fixture
def report(tmp_path):
    def write(text, name="mine.csv", encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return tmp_path / name

    return write


def require_the_stored_kernels(sweep):
    """The imported kernels must have the counters, the resources and the limiters of the record."""
    assert sweep.routine == "mine"
    for name, m in zip(NAMES, sweep, strict=True):
        counted, found = STORED[name].profile.longest, m.profile.longest
        assert m.variant == counted.kernel.name
        assert m.seconds == pytest.approx(counted["seconds"], rel=1e-5)
        assert found.quantities == pytest.approx(counted.quantities, rel=1e-4, abs=1e-5)
        for what in ("grid", "block", "registers", "limits", "resident_warps", "max_warps"):
            assert getattr(found.kernel, what) == getattr(counted.kernel, what), what
        assert found.waves == counted.waves
        assert (m.limiter.kind, m.limiter.unit) == (
            STORED[name].limiter.kind,
            STORED[name].limiter.unit,
        )


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_raw_page_in_both_notations(report, mark, encoding):
    require_the_stored_kernels(ado.import_ncu(report(raw_page(mark), encoding=encoding)))


def test_base_units(report):
    require_the_stored_kernels(ado.import_ncu(report(raw_page(scaled=False))))


def test_the_records_work_in_diagnoses_charts_comparisons_and_files(report, tmp_path):
    sweep = ado.import_ncu(report(raw_page()))
    found = ado.diagnose(sweep)
    assert [f.advice.step for f in found] == [
        f.advice.step for f in ado.diagnose(STORED) if f.variant in NAMES
    ]
    assert found[0].cards == ado.diagnose(STORED)["naive"].cards
    assert found[0].outcome.ratio == pytest.approx(sweep[0].seconds / sweep[1].seconds)
    for chart in (ado.speed_of_light, ado.warp_states):
        plt.close(chart(sweep).figure)
    plt.close(ado.memory_chart(sweep[0], sweep[1]).figure)
    assert "times of the profiler" in repr(sweep)
    profile = sweep[1].profile.compare(sweep[0].profile)
    assert {key for key, *_ in profile} >= {"seconds", "store_sectors_per_request"}
    sweep.save(tmp_path / "mine.json")
    assert ado.load(tmp_path / "mine.json")[2].limiter == sweep[2].limiter


def test_a_report_with_fp32_metrics_alone_has_flops(report):
    text = (DATA / "course" / "average_matvec-plain-ncu.csv").read_text(encoding="utf-8")
    assert "_op_dfma_" in text
    both, alone = (ado.import_ncu(report(t)) for t in (text, text.replace("_op_d", "_op_no_d")))
    assert all(m.counted_flops for m in both)
    assert [m.counted_flops for m in alone] == [m.profile["flops_fp32"] for m in both]
    assert [m.profile["fma_share"] for m in alone] == [m.profile["fma_share"] for m in both]
    assert all(m.profile.get("flops_fp64") is None for m in alone)
    neither = ado.import_ncu(report(text.replace("_op_d", "_op_no_d").replace("_op_f", "_op_no_f")))
    assert all(m.counted_flops is None for m in neither)


def test_a_report_of_an_h100():
    """Three kernels that Nsight Compute 2025.3 has profiled with all sections."""
    sweep = ado.import_ncu(DATA.parent.parent / "tests" / "data" / "ncu" / "transpose.csv")
    names = [f"transpose_{name}<unsigned int>" for name in NAMES]
    assert [m.variant for m in sweep] == names
    assert [m.limiter.kind for m in sweep] == [Kind.L2, Kind.LATENCY, Kind.LATENCY]
    assert sweep.title == "transpose, cuda, cold"
    assert sweep[0].machine_title == "NVIDIA H100 80GB HBM3"
    steps = [f.advice.step for f in ado.diagnose(sweep)]
    assert steps == [f.advice.step for f in ado.diagnose(STORED) if f.variant in NAMES]
    naive, tiled, _ = (m.profile.longest for m in sweep)
    size = 2048 * 2048 * 4
    assert naive["l1_bytes"] == pytest.approx(9 * size, rel=1e-3)
    assert naive["ideal_store_sectors"] == pytest.approx(size / 32, rel=2e-3)
    assert naive["store_sectors_per_request"] == pytest.approx(32, rel=2e-3)
    assert tiled["conflict_share"] > 0.9
    assert tiled.waves == 4096 / (2 * 132)
    assert [tiled["seconds"], tiled["clock"]] == pytest.approx([33.28e-6, 1.957717e9])


def test_launches_of_one_kernel_are_samples(report):
    text = raw_page()
    *_, padded = text.splitlines()
    again = text + "".join(padded.replace('"2"', f'"{i}"', 1) + "\n" for i in range(3, 15))
    sweep = ado.import_ncu(report(again))
    assert [len(m.samples) for m in sweep] == [1, 1, 13]
    *_, grid = [f"({', '.join(map(str, (*k.grid, 1, 1)[:3]))})" for _, k, _ in launches()]
    other_grid = text + padded.replace(grid, "(7, 1, 1)").replace('"2"', '"3"', 1)
    *_, third, fourth = ado.import_ncu(report(other_grid))
    assert fourth.grid == (7,)
    assert fourth.variant == f"{third.variant} #2"


def test_metrics_of_the_sections_are_converted(report):
    """Nsight Compute's sections have bytes per sector, and operations per cycle."""
    name, kernel, values = next(launches())
    sectors = values["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
    for metric in [m for m in values if "sass" in m]:
        del values[metric]
    values["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"] = 4.0
    values["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"] = 2.5
    values["smsp__cycles_elapsed.max"] = 1000.0
    del values["dram__bytes.sum"]
    lines = [quoted([*HEADER, *values]), quoted([*row_of(0, name, kernel), *values.values()])]
    counted = ado.import_ncu(report("\n".join(lines))).measurements[0].profile.longest
    assert counted["sm__sass_data_bytes_mem_global_op_st.sum"] == 4 * sectors
    assert counted["ideal_store_sectors"] == pytest.approx(4 * sectors / 32)
    assert counted["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 2500
    assert counted["dram_bytes"] == counted["dram_read_bytes"] + counted["dram_write_bytes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a CSV file of ncu"),
        ("a,b\n1,2\n", 'header that contains "ID"'),
        (quoted([*HEADER, "x__y.sum"]), "must contain profiled kernels, got none"),
        (raw_page().replace("gpu__time_duration.sum", "other__name.sum"), "gpu__time_duration.sum"),
        (raw_page() + raw_page(",").splitlines()[-1], "must have one decimal mark"),
    ],
)
def test_errors(report, text, message):
    with pytest.raises(ValueError, match=message):
        ado.import_ncu(report(text))


def test_a_report_needs_nsight_compute(report, monkeypatch):
    monkeypatch.setattr(toolkit, "folders", lambda: [])
    with pytest.raises(ado.Unavailable, match="the program ncu is not installed"):
        ado.import_ncu(report("x", "mine.ncu-rep"))


def test_a_report_is_read_with_the_program(report, monkeypatch, tmp_path):
    monkeypatch.setattr(toolkit, "folders", lambda: [str(tmp_path)])
    page = report(raw_page(scaled=False), "page")
    program = tmp_path / "ncu"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat {page}\n')
    program.chmod(0o755)
    mine = report("binary", "mine.ncu-rep")
    require_the_stored_kernels(ado.import_ncu(mine))
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments == f"--import {mine} --csv --page raw".split()
    program.write_text("#!/bin/sh\necho '==ERROR== Failed to load report file.'; exit 1\n")
    with pytest.raises(ValueError, match="must be a report of ncu, got ==ERROR== Failed to load"):
        ado.import_ncu(mine)


def test_random_tables_do_not_end_with_another_error(report, rng):
    """Damaged files raise ValueError or are read."""
    text = raw_page()
    for _ in range(60):
        cut = bytearray(text.encode())
        for place in rng.integers(0, len(cut), 20):
            cut[place] = rng.integers(32, 127)
        damaged = cut[: rng.integers(1, len(cut))].decode("utf-8", "replace")
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ado.import_ncu(report(damaged))
            assert np.isfinite([m.seconds for m in found]).all()
            assert repr(found)


#: One kernel with numbers that do not show the decimal mark.
FEW = {"gpu__time_duration.sum": ("ns", "117,344"), "dram__bytes.sum": ("byte", "275,955")}
FEW |= {"launch__registers_per_thread": ("register/thread", "32")}


def few(metrics=FEW, names=("void k(int)",), swap=False, separator=",", quoting=csv.QUOTE_ALL):
    rows = [[*HEADER, *metrics], [""] * len(HEADER) + [unit for unit, _ in metrics.values()]]
    launch = SimpleNamespace(grid=(1024,), block=(256,))
    numbers = [value for _, value in metrics.values()]
    if swap:
        numbers = [number.translate(str.maketrans(",.", ".,")) for number in numbers]
    rows += [[*row_of(i, name, launch), *numbers] for i, name in enumerate(names)]
    out = io.StringIO()
    csv.writer(out, delimiter=separator, quoting=quoting, lineterminator="\n").writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        few(),
        few({**FEW, "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "65.77")}, swap=True),
        few(quoting=csv.QUOTE_MINIMAL),
        few(separator=";"),
        *(
            few().replace("117,344", f"117{s}344").replace("275,955", f"275{s}955")
            for s in " \xa0\u202f'"
        ),
        few(separator="\t", quoting=csv.QUOTE_MINIMAL),
        pd.read_csv(io.StringIO(few()), dtype=str, keep_default_na=False).to_csv(),
        few(names=()) + "==PROF== Disconnected\n" + few(),
    ],
)
def test_ambiguous_numbers_and_files_saved_again(report, text):
    (m,) = ado.import_ncu(report(text))
    assert (m.variant, m.seconds) == ("k", pytest.approx(117344e-9))
    assert m.profile["dram_bytes"] == 275955
    known = "sm__throughput" in text
    assert m.limiter.kind is (Kind.COMPUTE if known else Kind.UNKNOWN)  # missing is not 0 %
    assert "0 %" not in repr(ado.diagnose(ado.import_ncu(report(text))))


def test_stalls_that_were_not_collected_are_unknown(report):
    metrics = {**FEW, "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "88.30")}
    sweep = ado.import_ncu(report(few(metrics)))
    assert sweep[0].limiter.kind is Kind.DRAM
    assert "wait" not in repr(ado.diagnose(sweep))
    ax = ado.warp_states(sweep)
    assert "stalls not collected" in ax.get_title(loc="left")
    assert ", ," not in " ".join(text.get_text() for text in ax.findobj(plt.Text))
    assert "n/a" in [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("unit", ["fortnight", "%"])
def test_an_unknown_unit_of_a_time_is_refused(report, unit):
    text = few({**FEW, "gpu__time_duration.sum": (unit, "117,344")})
    with pytest.raises(ValueError, match=f"must be ns, us, ms or s, got {unit}"):
        ado.import_ncu(report(text))


def test_rooflines_name_what_a_report_lacks(report):
    sweep = ado.import_ncu(report(few()))
    with pytest.raises(ValueError, match=r"compulsory bytes.* ncu with --set full"):
        ado.roofline(sweep)
    with pytest.raises(ValueError, match=r"or ceilings=\{"):
        ado.roofline(sweep, kind="roofline")


def test_kernels_without_a_time_are_named(report):
    head, _, last = few(names=("void good(int)", "void failed(int)")).rstrip("\n").rpartition("\n")
    with pytest.warns(UserWarning, match="no time of launches of failed"):
        sweep = ado.import_ncu(report(head + "\n" + last.replace('"117,344"', '""')))
    assert [m.variant for m in sweep] == ["good"]
    assert "failed" in sweep.skipped


def test_a_details_page_and_times_alone(report):
    head = quoted([*HEADER, "Section Name", "Metric Name", "Metric Unit", "Metric Value"])
    start = quoted(row_of(0, "gemm", SimpleNamespace(grid=(256,), block=(128,)))) + ","

    def page(*rows):
        return report("\n".join([head, *(start + quoted(["S", *row]) for row in rows)]))

    (m,) = ado.import_ncu(page(("gpu__time_duration.sum", "ns", "117,344")))
    assert m.seconds == pytest.approx(117344e-9)
    (m,) = ado.import_ncu(page(("Duration", "us", "117.344")))  # three decimals, no thousands
    assert m.seconds == pytest.approx(117.344e-6)
    (m,) = ado.import_ncu(page(("Duration", "us", "117.34"), ("DRAM Throughput", "%", "91.20")))
    assert m.seconds == pytest.approx(117.34e-6)
    assert (m.limiter.kind, m.limiter.share) == (Kind.DRAM, pytest.approx(0.912))

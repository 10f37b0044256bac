"""benchmarks/counters.py: reading the output of ncu and assigning kernels, without running ncu."""

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import adokernels as ado

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "counters.py"
spec = importlib.util.spec_from_file_location("counters", SCRIPT)
counters = importlib.util.module_from_spec(spec)
sys.modules["counters"] = counters  # for its dataclasses
spec.loader.exec_module(counters)

UNIT = {"time": "ns", "lanes": "", "registers": "register/thread"}
UNIT |= dict.fromkeys(("fp64_issued", "fp64_busy", "occupancy"), "%")
UNIT |= dict.fromkeys(("add", "mul", "fma"), "inst")
UNIT |= dict.fromkeys(counters.LEVELS, "byte")
PROBLEM = ado.Problem.of([("wtilde", (3, 5), "complex128")])


def row(*cells):
    return ",".join(f'"{cell}"' for cell in cells)


def written(*launches, units=UNIT, leave_out=()):
    """A CSV as ncu writes it: messages, metrics in alphabetical order, units, launches."""
    names = [name for name in sorted(counters.METRICS, key=counters.METRICS.get)]
    names = [name for name in names if name not in leave_out]
    lines = [
        "==WARNING== Note: Running with unmodified GPU clocks.",
        "==PROF== Connected to process 673 (python)",
        "what the program printed",
        "==PROF== Disconnected from process 673",
        row("ID", "Kernel Name", "Block Size", *(counters.METRICS[name] for name in names), "z"),
        row("", "", "", *(units[name] for name in names), "%"),
    ]
    for i, (kernel, values) in enumerate(launches):
        cells = [values.get(name, "n/a") for name in names]
        lines.append(row(i, kernel, "(256, 1, 1)", *cells, "0"))
    return lines


TERMS = {"time": "1,146,400", "fp64_issued": "52.43", "fp64_busy": "52.53", "lanes": "27.86"}
TERMS |= {"add": "48,288,052", "mul": "465,168,420", "fma": "1,009,010,108", "registers": "92"}
TERMS |= {"occupancy": "23.50", "L1": "346,292,224", "L2": "250,777,760", "DRAM": "12,661,760"}
SUM = {"time": "2,048", "add": "1,000", "mul": "0", "fma": "0", "L1": "64", "L2": "32", "DRAM": "0"}
CSV = written(
    ("void ado::cuda::<unnamed>::terms<(int)2>(View, Pass<2>)", TERMS),
    ("ado::cuda::<unnamed>::add_up(double2 *)", SUM),
    ("void ado::cuda::<unnamed>::terms<(int)1>(View, Pass<1>)", TERMS),
)


def counted(name="one", kernels=("terms", "add_up"), block=(256, 1, 1)):
    return counters.Counted(name, block, kernels, 4e9, 3e9)


def assigned():
    variants = [counted(), counted("two", ("terms",))]
    counters.assign(variants, counters.read_csv(CSV))
    return variants


def test_numbers_have_separators_and_may_be_missing():
    first, second, third = counters.read_csv(CSV)
    assert first.values == third.values
    assert len(first.values) == len(counters.METRICS)
    assert first.values["time"] == 1146400
    assert first.values["fma"] == 1009010108
    assert first.values["lanes"] == 27.86
    assert second.kernel == "ado::cuda::<unnamed>::add_up(double2 *)"
    assert second.values["DRAM"] == 0
    assert "lanes" not in second.values
    assert "registers" not in second.values


def test_metrics_that_this_ncu_does_not_know_are_missing():
    (launch,) = counters.read_csv(written(("terms", TERMS), leave_out=("fp64_busy", "L2")))
    assert set(counters.METRICS) - set(launch.values) == {"fp64_busy", "L2"}


def test_nothing_ran():
    assert counters.read_csv(["==ERROR== ERR_NVGPUCTRPERM", "==WARNING== No kernels"]) == []
    assert counters.read_csv(written()) == []


@pytest.mark.parametrize(("name", "unit"), [("time", "us"), ("DRAM", "Mbyte")])
def test_other_units_are_refused(name, unit):
    lines = written(("terms", TERMS), units={**UNIT, name: unit})
    with pytest.raises(ValueError, match=f"must be in .*, got {unit}"):
        counters.read_csv(lines)


def test_kernels_go_to_variants_in_order():
    one, two = assigned()
    assert [launch.values["time"] for launch in one.launches] == [1146400, 2048]
    assert len(two.launches) == 1
    assert one.flops == 48288052 + 465168420 + 2 * 1009010108 + 1000
    assert one.instructions == 48288052 + 465168420 + 1009010108 + 1000
    assert one.bytes == {"L1": 346292288, "L2": 250777792, "DRAM": 12661760}
    assert two.bytes["L1"] == 346292224


def test_kernels_that_are_not_those_of_the_variants():
    launches = counters.read_csv(CSV)
    with pytest.raises(ValueError, match="must launch 2 kernels, got 3"):
        counters.assign([counted()], launches)
    with pytest.raises(ValueError, match=r"one must launch terms, got .*add_up\(double2 \*\)"):
        counters.assign([counted(kernels=("terms", "terms")), counted("two", ("terms",))], launches)
    with pytest.raises(ValueError, match=r"one must launch term, got"):
        counters.assign([counted(kernels=("term", "add_up")), counted("two", ("terms",))], launches)


def test_ncu_writes_no_namespaces():
    one = counted(kernels=("gpp::terms",))
    counters.assign([one], counters.read_csv(written(("terms", TERMS))))
    assert len(one.launches) == 1


def test_what_is_not_known_is_not_added_up():
    lines = written(("terms", TERMS), ("add_up", {**SUM, "fma": "(!) n/a", "L2": ""}))
    one = counted()
    counters.assign([one], counters.read_csv(lines))
    assert one.flops is one.instructions is None
    assert set(one.bytes) == {"L1", "DRAM"}


def test_the_table_says_everything():
    console = Console(width=250, record=True)
    console.print(counters.table_of(assigned(), 1_000_000_000, "gpp"))
    text = console.export_text()
    first, second, third = (line for line in text.splitlines() if "terms" in line or "add" in line)
    for words in ("one", "1.15 ms", "52.4 %", "52.5 %", "27.9", "92", "23.5 %", "346 MB", "251 MB"):
        assert words in first
    assert "2.53 (4.00)" in first  # FLOPs per term, measured and by formula
    assert "1.52 (3.00)" in first
    assert "one" not in second
    assert "n/a" in second
    assert "two" in third


def sweep():
    measurements = [
        ado.Measurement(
            routine="gpp",
            variant=name,
            device="cuda",
            problem=PROBLEM,
            cache="cold",
            samples=np.full(9, 1e-3),
            flops=1e9,
            bytes=1e6,
            executed_flops=4e9,
            requested_bytes=1e8,
            block=(256, 1, 1),
        )
        for name in ("one", "two", "three")
    ]
    return ado.Sweep(routine="gpp", measurements=tuple(measurements))


def test_counts_are_added_to_a_sweep(tmp_path):
    one, two = assigned()
    counters.filled(sweep(), [one, two], PROBLEM).save(tmp_path / "s.json")
    loaded = ado.load(tmp_path / "s.json")
    assert loaded["one"].measured_flops == one.flops
    assert loaded["one"].measured_bytes == one.bytes
    assert loaded["two"].measured_bytes == two.bytes
    assert loaded["three"].to_dict() == sweep()["three"].to_dict()


def test_counts_of_something_else_are_not_added():
    other = ado.Problem.of([("a", (3, 3), "float64")])
    with pytest.raises(ValueError, match=r"sweep must be of a: \(3, 3\).*, got wtilde"):
        counters.filled(sweep(), assigned(), other)
    with pytest.raises(ValueError, match=r"block \(64, 1, 1\) in the sweep, got \(256, 1, 1\)"):
        counters.filled(sweep(), [dataclasses.replace(assigned()[0], block=(64, 1, 1))], PROBLEM)


def test_a_variant_without_fp64_keeps_its_own_count():
    zero = {**TERMS, "add": "0", "mul": "0", "fma": "0"}
    one = counted(kernels=("terms",))
    counters.assign([one], counters.read_csv(written(("terms", zero))))
    filled = counters.filled(sweep(), [one], PROBLEM)["one"]
    assert filled.measured_flops is None
    assert filled.measured_bytes["DRAM"] == 12661760


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    """With a stand-in for ncu that copies the CSV and the plan to the paths in its arguments."""
    plan = {
        "problem": PROBLEM.to_dict(),
        "variants": [dataclasses.asdict(counted(*r)) for r in [("one",)]],
    }
    plan["variants"].append(dataclasses.asdict(counted("two", ("terms",))))
    ncu = tmp_path / "ncu"
    (tmp_path / "csv").write_text("\n".join(CSV) + "\n")
    (tmp_path / "plan").write_text(json.dumps(plan))
    ncu.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != "--log-file" ]; do shift; done\n'
        f'cp {tmp_path}/csv "$2"\n'
        'while [ "$1" != "--launch" ]; do shift; done\n'
        f'cp {tmp_path}/plan "$2"\n'
    )
    ncu.chmod(0o755)
    monkeypatch.setattr(counters.shutil, "which", lambda name: str(ncu))
    sweep().save(tmp_path / "s.json")
    arguments = ["gpp", "--shape", "2x3x5x2", "--json", f"{tmp_path}/c.json"]
    monkeypatch.setattr(sys, "argv", ["counters.py", *arguments, "--into", f"{tmp_path}/s.json"])
    counters.main()
    assert "terms" in capsys.readouterr().out
    stored = json.loads((tmp_path / "c.json").read_text())
    assert ado.Problem.from_dict(stored["problem"]) == PROBLEM
    assert stored["variants"][0]["launches"][1]["values"]["time"] == 2048
    assert ado.load(tmp_path / "s.json")["one"].measured_bytes["DRAM"] == 12661760

    ncu.write_text('#!/bin/sh\nwhile [ "$1" != "--log-file" ]; do shift; done\n')
    with ncu.open("a") as script:
        script.write('echo "==ERROR== ERR_NVGPUCTRPERM" > "$2"\nexit 1\n')
    with pytest.raises(SystemExit, match=r"==ERROR== ERR_NVGPUCTRPERM\nncu ended with 1"):
        counters.main()
    monkeypatch.setattr(counters.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="ncu is not installed"):
        counters.main()


@pytest.mark.gpu
def test_variants_report_what_they_launch(tmp_path, monkeypatch):
    """The part that runs under ncu, here without ncu, reports every CUDA variant."""
    plan = tmp_path / "plan.json"
    arguments = ["gpp", "--shape", "5x3x33x2", "--launch", str(plan)]
    monkeypatch.setattr(sys, "argv", ["counters.py", *arguments])
    counters.main()
    variants = json.loads(plan.read_text())["variants"]
    here = [v.name for v in ado.gpp if v.device == "cuda" and v.available]
    assert [r["variant"] for r in variants] == here
    assert all(r["kernels"] and r["executed_flops"] for r in variants)

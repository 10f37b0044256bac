"""Files: written completely or not at all, with values that JSON can represent."""

import csv
import dataclasses
import json
import lzma
import math
import os
import re
import stat

import numpy as np
import pytest
from charting import H200, make_transpose, with_peers

import adokernels as ado
from adokernels.charts.files import save
from adokernels.charts.roofline import roofline
from adokernels.measuring import machine as machines
from adokernels.pictures import save_side_by_side
from adokernels.records.inputs import Inputs
from adokernels.storage import replace_file, write_csv

SWEEP = make_transpose(counters=True)
GOOD = b"the good file"


def changed(**fields):
    """A sweep with changed fields in its fourth measurement."""
    ms = list(SWEEP.measurements)
    ms[3] = dataclasses.replace(ms[3], **fields)
    return dataclasses.replace(SWEEP, measurements=tuple(ms))


def write_chart(path):
    save(roofline(H200).figure, path)


WRITERS = {
    "sweep.json": SWEEP.save,
    "measurement.json": SWEEP["naive"].save,
    "machine.json": H200.save,
    "profile.json": SWEEP["naive"].profile.save,
    "report.html": lambda path: ado.write_report(path, title="t", sweeps=[SWEEP]),
    "chart.png": write_chart,
    "chart.svg": write_chart,
    "chart.pdf": write_chart,
    "edges.png": lambda path: save_side_by_side({"a": np.eye(4)}, path),
}


@pytest.mark.parametrize(
    ("name", "fails"),
    [*((name, "replace") for name in WRITERS), ("sweep.json", "fsync")],
)
def test_a_failed_write_leaves_the_old_file_unchanged(name, fails, tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    path = tmp_path / name
    path.write_bytes(GOOD)
    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        WRITERS[name](path)
    assert path.read_bytes() == GOOD
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    WRITERS[name](path)
    assert path.read_bytes() != GOOD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("flops", math.nan, r"measurements\[3\]\.flops must be a finite number .*, got nan"),
        ("error", math.inf, r"measurements\[3\]\.error must be a finite number .*, got inf"),
        ("samples", np.array([1.0, 0.0]), r"measurements\[3\]\.samples\[1\] must be a positive"),
        ("clocks", np.array([math.nan]), r"measurements\[3\]\.clocks\[0\] must be .*, got nan"),
        ("variant", 3, r"measurements\[3\]\.variant must be a text, got 3"),
        ("context", {"a": [object]}, r"measurements\[3\]\.context\.a\[0\] must be a JSON value"),
    ],
)
def test_a_record_that_cannot_be_loaded_is_not_saved(field, value, message, tmp_path):
    path = tmp_path / "sweep.json"
    path.write_bytes(GOOD)
    with pytest.raises(ValueError, match=message):
        changed(**{field: value}).save(path)
    assert path.read_bytes() == GOOD


def test_a_record_is_not_saved_as_a_picture(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.json .*ax\.figure\.savefig"):
        make_transpose().save(tmp_path / "record.SVG")
    assert not list(tmp_path.iterdir())


def test_infinite_options_are_stored_and_loaded(tmp_path):
    options = {"low": -math.inf, "high": math.inf, "fill": math.nan, "taps": [1, math.inf]}
    problem = Inputs.of([("a", (2, 2), "float32")], options | {"f": len})
    before = changed(problem=problem, context={"limit": math.inf})
    before.save(tmp_path / "s.json")
    json.loads((tmp_path / "s.json").read_text(), parse_constant=pytest.fail)
    after = ado.load(tmp_path / "s.json").measurements[3]
    assert after.problem == problem
    assert after.problem.options["taps"] == (1, math.inf)
    assert after.problem.options["f"] == "<built-in function len>"
    assert after.context == {"limit": math.inf}


@pytest.mark.parametrize("name", ["measurements", "peers"])
def test_a_sweep_of_two_machines_is_rejected_with_its_field(name, tmp_path):
    path = tmp_path / "x.json"
    with_peers(make_transpose()).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["measurements"][0]["context"]["device_name"] = "NVIDIA H200"
    document[name][-1]["context"]["device_name"] = "another GPU"
    path.write_text(json.dumps(document), encoding="utf-8")
    last = len(document[name]) - 1
    message = rf"x\.json: {name}\[{last}\]\.context must name the same machine .*got 'another GPU'"
    with pytest.raises(ValueError, match=message):
        ado.load(path)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_a_normal_write(mask, tmp_path):
    before = os.umask(mask)
    try:
        replace_file(tmp_path / "ours", b"")
        (tmp_path / "normal").write_bytes(b"")
    finally:
        os.umask(before)
    ours, normal = (stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("ours", "normal"))
    assert ours == normal
    (tmp_path / "ours").chmod(0o640)
    replace_file(tmp_path / "ours", b"1")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o640


def test_links_are_followed_and_pipes_written(tmp_path):
    (tmp_path / "target").write_bytes(GOOD)
    link = tmp_path / "link"
    link.symlink_to("target")
    replace_file(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    replace_file(os.devnull, b"new")
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)


def test_errors_contain_the_path_that_the_caller_passed(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such .*missing.sweep\.json'$"):
        SWEEP.save(tmp_path / "missing" / "sweep.json")
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        SWEEP.save(tmp_path)


def test_read_only_files_are_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(GOOD)
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(PermissionError, match="must be writable"):
        replace_file(path, b"new")
    assert path.read_bytes() == GOOD


# --- Limits of stored records ---------------------------------------------------------------------


def nested(levels):
    """A list in a list, and so on."""
    found = []
    for _ in range(levels - 1):
        found = [found]
    return found


def document_with(**context):
    """A measurement with a changed context."""
    document = {"schema": 2, "kind": "measurement", **SWEEP["naive"].to_dict()}
    return json.dumps(document | {"context": context})


def test_too_many_levels_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(document_with(a=nested(600)))
    with pytest.raises(ValueError, match=r"x\.json has too many levels of lists and objects"):
        ado.load(path)


def test_files_beyond_the_largest_size_are_not_parsed(tmp_path):
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate((1 << 27) + 1)
    with pytest.raises(ValueError, match=r"x\.json must have at most 134217728 bytes"):
        ado.load(path)


def test_a_record_with_too_many_levels_is_not_saved(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(GOOD)
    with pytest.raises(ValueError, match="too many levels"):
        changed(context={"a": nested(5000)}).save(path)
    assert path.read_bytes() == GOOD


@pytest.mark.parametrize("flops", [10**400, 1e31], ids=["integer", "float"])
def test_numbers_that_no_record_can_store_are_rejected_before_timing(flops):
    with pytest.raises(ValueError, match=r"flops must be at most 1e\+30"):
        ado.measure(len, [], flops=flops)


# --- The stored ceilings --------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Count measurements of ceilings, which are replaced by a stub."""
    made = []

    def measure(device, case):
        made.append(case)
        return ado.records.Ceiling(
            kind=case.kind, level=case.level, operation=case.operation, measured=1e9
        )

    monkeypatch.setattr(machines, "_measure", measure)
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path))
    return made


def test_damaged_ceilings_are_measured_again(measured, tmp_path):
    ado.machine("cpu")
    count = len(measured)
    ado.machine("cpu")
    assert len(measured) == count
    (path,) = tmp_path.iterdir()
    good = json.loads(path.read_text())
    damaged = [
        "",
        "[" * 100_000,
        json.dumps(good | {"ceilings": []}),
        json.dumps(good | {"ceilings": good["ceilings"][1:]}),
        json.dumps(good | {"device": "cuda"}),
        json.dumps({**good, "ceilings": [{**good["ceilings"][0], "measured": "fast"}]}),
        json.dumps({**good, "ceilings": [{**good["ceilings"][0], "measured": math.nan}]}),
    ]
    for number, text in enumerate(damaged, 2):
        path.write_text(text)
        ado.machine("cpu")
        assert len(measured) == number * count, text[:80]
    assert json.loads(path.read_text())["ceilings"] == good["ceilings"]


# --- The command line -----------------------------------------------------------------------------


def test_a_chart_of_an_unknown_format_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.png, \.svg, \.pdf, got"):
        save(roofline(H200).figure, tmp_path / "chart.txt")


def test_a_class_loads_its_own_records_only(tmp_path):
    sweep = make_transpose()
    sweep.save(tmp_path / "sweep.json")
    loaded = ado.records.Sweep.load(tmp_path / "sweep.json")
    assert isinstance(loaded, ado.records.Sweep)
    assert loaded.to_dict() == sweep.to_dict()
    with pytest.raises(ValueError, match="must contain a machine, got a sweep"):
        ado.records.Machine.load(tmp_path / "sweep.json")


def test_the_step_table_as_csv(tmp_path):
    sweep = with_peers(make_transpose())
    sweep.to_csv(tmp_path / "steps.csv")
    with (tmp_path / "steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == [m.variant for m in (*sweep, *sweep.peers)]
    assert [float(row["seconds"]) for row in rows] == [m.seconds for m in (*sweep, *sweep.peers)]
    assert rows[0]["speedup"] == ""  # a ceiling
    assert sweep.records()[1]["speedup"] == 1.0


@pytest.mark.parametrize("start", "=+-@\t\r")
def test_texts_in_csv_files_are_no_formulas(start, tmp_path):
    write_csv(tmp_path / "x.csv", [{"name": f"{start}1+1", "ratio": -1.5, "other": "a=b"}])
    with (tmp_path / "x.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"name": f"'{start}1+1", "ratio": "-1.5", "other": "a=b"}


HOSTILE_NAME = "a\x1b[31m\u202e\u200f\x9b"


def test_texts_of_own_ladders_have_no_control_characters():
    ladder = ado.ladder(HOSTILE_NAME, reference=np.copy)
    ladder.variant(np.copy, name=HOSTILE_NAME)
    (own,) = ladder.variants
    for shown in (repr(ladder), str(ladder), repr(own), str(own), ladder._repr_html_()):
        assert not re.search("[\x1b\u202e\u200f\x9b]", shown)


def test_a_scan_as_csv(tmp_path):
    scan = ado.records.Scan(
        routine="transpose", sweeps=(with_peers(make_transpose()), make_transpose())
    )
    scan.to_csv(tmp_path / "scan.csv")
    with (tmp_path / "scan.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(s) + len(s.peers) for s in scan)
    assert rows[0]["problem"] == str(scan.sweeps[0].measurements[0].problem)
    assert rows[-1]["variant"] == scan.sweeps[1].measurements[-1].variant
    values = {type(v) for record in scan.records() for v in record.values()}
    assert values <= {str, int, float, bool, type(None)}, "data frames need plain values"


def test_files_that_end_in_xz_are_compressed(tmp_path):
    """The same record always gives the same bytes."""
    plain, packed = tmp_path / "x.json", tmp_path / "x.json.xz"
    SWEEP.save(plain)
    SWEEP.save(packed)
    first = packed.read_bytes()
    assert lzma.decompress(first) == plain.read_bytes()
    SWEEP.save(packed)
    assert packed.read_bytes() == first
    assert ado.load(packed) == SWEEP


@pytest.mark.parametrize("damage", [lambda good: good[:-100], lambda good: b"{}", lambda good: b""])
def test_damaged_compressed_files_are_refused(damage, tmp_path):
    path = tmp_path / "x.json.xz"
    SWEEP.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"x\.json\.xz is not"):
        ado.load(path)


def test_compressed_files_beyond_the_largest_size_are_not_parsed(tmp_path):
    path = tmp_path / "x.json.xz"
    path.write_bytes(lzma.compress(bytes((1 << 27) + 1), preset=0))
    with pytest.raises(ValueError, match=r"x\.json\.xz must have at most 134217728 bytes"):
        ado.load(path)

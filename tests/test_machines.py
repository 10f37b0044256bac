"""Records of several machines: side by side, refusals."""

import dataclasses
import shutil
from pathlib import Path

import adokernels as ado
from adokernels.cli import main
from adokernels.tables.measurements import machine_tables, refusal
from adokernels.tables.rendering import to_text

DATA = Path(__file__).parent.parent / "notebooks" / "data"
SWEEP = ado.load(DATA / "transpose-float32-8192.json.xz")
#: Not a product: the records of this model are made from those of another one.
FAKE = "FAKE GPU OF A TEST"


def changed(sweep, name=FAKE, **changes):
    """The sweep as if another GPU had measured it."""
    measurements = tuple(
        dataclasses.replace(m, context=m.context | {"device_name": name} | changes.get("facts", {}))
        for m in sweep.measurements
    )
    machine = dataclasses.replace(sweep.machine, name=name)
    return dataclasses.replace(sweep, measurements=measurements, machine=machine)


def test_machines_are_shown_side_by_side():
    (table,) = machine_tables([SWEEP, changed(SWEEP)])
    text = to_text(table)
    assert FAKE in text
    assert "NVIDIA H200" in text
    for m in SWEEP.variants:
        assert text.count(m.variant) >= 1
        assert str(m.limiter.kind) in text
    assert not machine_tables([SWEEP])


def test_disturbed_records_are_refused():
    assert not refusal(SWEEP)
    busy = {"contention": {"gpu_utilization": 60}}
    assert "another process used the GPU" in refusal(changed(SWEEP, facts=busy))
    first, *others = SWEEP.measurements
    slow = dataclasses.replace(SWEEP.variants[0], flags=("throttled",))
    assert "clock" in refusal(dataclasses.replace(SWEEP, measurements=(first, slow, *others)))
    ceilings = [
        dataclasses.replace(c, measured=10 * c.theoretical) if c.theoretical else c
        for c in SWEEP.machine.ceilings
    ]
    machine = dataclasses.replace(SWEEP.machine, ceilings=tuple(ceilings))
    assert "impossible" in refusal(dataclasses.replace(SWEEP, machine=machine))
    assert "no variant" in refusal(dataclasses.replace(SWEEP, measurements=()))


def test_report_of_folders(tmp_path, capsys):
    shutil.copy(DATA / "transpose-float32-8192.json.xz", tmp_path / "transpose.json.xz")
    (tmp_path / "other").mkdir()
    changed(SWEEP).save(tmp_path / "other" / "transpose.json")
    busy = {"contention": {"gpu_utilization": 60}}
    changed(SWEEP, "BUSY " + FAKE, facts=busy).save(tmp_path / "other" / "busy.json")
    page = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "--out", str(page)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "refused" in printed
    assert "another process used the GPU" in printed
    assert FAKE in printed
    assert "BUSY" not in page.read_text("utf-8")

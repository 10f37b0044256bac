"""Captured launches: from records of the core to files, and on the emulator."""

import dataclasses
import linecache
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.kernels.captured import Launches
from adokernels.measuring import capturing, hotspots
from adokernels.model.compiler import compile_cuda, why_no_compiler

pytestmark = pytest.mark.skipif(
    bool(_core.why_no_emulator() or why_no_compiler()), reason="no emulator or no NVRTC"
)
SOURCE = """struct Where { const float* x; float* y; long long n; };
extern "C" __global__ void saxpy(Where at, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < at.n) at.y[i] = a * at.x[i] + at.y[i];
}
"""
ADDRESS, N = 0x7F0000000000, 1000


def record_of(kernel, **changes):
    """The record of a launch of saxpy on two arrays in one allocation."""
    x, y = np.arange(N, dtype="f4"), np.ones(N, "f4")
    before, after = (np.concatenate([np.zeros(64, "f4"), x, z]) for z in (y, 2 * x + y))
    where = np.array([ADDRESS + 256, ADDRESS + 256 + x.nbytes, N], np.int64)
    return {
        **{"symbol": kernel.symbol, "function": 5, "modules": 2, "seconds": 1e-5, "lacks": ""},
        **{"grid": (4, 1, 1), "block": (256, 1, 1), "shared_bytes": 0},
        "arguments": [where.tobytes(), np.float32(2).tobytes()],
        "allocations": [(ADDRESS, before.tobytes(), after.tobytes())],
    } | changes


@pytest.fixture
def kernel():
    return compile_cuda(SOURCE, "saxpy", arch="sm_90", file="captured/saxpy.cu")


def captured(kernel, **changes):
    known = [*capturing.compiled_kernels({kernel.symbol})]
    (launch,) = capturing.launches_of(
        [record_of(kernel, **changes)], [b"another module", kernel.code], known, 90, "a GPU"
    )
    return launch


def test_a_launch_has_the_code_and_the_source_of_its_kernel(kernel):
    launch = captured(kernel)
    assert launch.cubin == kernel.code
    assert ".entry saxpy" in launch.ptx
    assert launch.sources == {"captured/saxpy.cu": SOURCE}
    assert [(p.argument, p.at, p.offset) for p in launch.pointers] == [(0, 0, 256), (0, 8, 4256)]
    assert launch.limits == ()


def test_the_kernel_of_another_module_with_the_same_name_is_not_repeated(kernel):
    other = compile_cuda(SOURCE.replace("+", "-"), "saxpy", arch="sm_90", file="other.cu")
    records, cubins = [record_of(kernel)], [other.code, kernel.code]
    (launch,) = capturing.launches_of(records, cubins, (), 90, "a GPU")
    assert launch.lacks.startswith("several modules have a kernel of this name")
    known = [capturing.Known(kernel.symbol, other.code, str, record_of(kernel)["function"])]
    (launch,) = capturing.launches_of(records, cubins, known, 90, "a GPU")
    assert (launch.cubin, launch.lacks) == (other.code, "")


def test_a_stored_launch_repeats_bit_for_bit(kernel, tmp_path):
    launch = captured(kernel)
    launch.save(tmp_path / "launch.ado")
    loaded = ado.load(tmp_path / "launch.ado")
    assert vars(loaded).keys() <= vars(launch).keys()
    for name in type(launch).__dataclass_fields__:
        assert getattr(loaded, name) == getattr(launch, name), name
    with ado.emulated():
        assert loaded.difference() == ""


def test_a_difference_is_found(kernel):
    address, before, after = record_of(kernel)["allocations"][0]
    wrong = after[:-1] + bytes([after[-1] ^ 1])
    with ado.emulated():
        found = captured(kernel, allocations=[(address, before, wrong)]).difference()
        assert found == f"1 bytes of allocation 0 differ, the first at {len(after) - 1}"
        unchanged = captured(kernel, allocations=[(address, after, after)])
        with pytest.raises(ValueError, match="did not change its memory"):
            unchanged.difference()
    assert "it did not change its memory, so its result cannot be checked" in unchanged.limits


def test_a_loaded_launch_is_counted_with_its_source(kernel, tmp_path):
    captured(kernel).save(tmp_path / "launch.ado")
    linecache.cache.pop("captured/saxpy.cu", None)
    launch = ado.load(tmp_path / "launch.ado")
    heat = ado.heatmap(launch, device="emulator")
    lines = {entry.line: entry for entry in heat.entries}
    assert lines[4].text == SOURCE.splitlines()[3]
    assert lines[4].loads.requests == 64
    profile = ado.profile(launch, device="emulator")
    assert profile.kernels[0].kernel.name == "saxpy"
    trials = {t.experiment: t for t in ado.what_if(launch, device="emulator").trials}
    assert trials["no stores"].before == 32


def test_a_launch_is_the_first_variant_of_a_ladder(kernel):
    launch = captured(kernel)
    ladder = ado.ladder("saxpy", reference=launch.result)
    ladder.variant(launch.result, name="captured", device="cuda")
    ladder.variant(lambda memory: memory, name="copy")

    @ladder.variant
    def numpy(memory):
        x, y = memory[64 : 64 + N], memory[64 + N :]
        return np.concatenate([memory[: 64 + N], 2 * x + y])

    (memory,) = launch.operands
    found = ado.sweep(ladder, memory.view("f4"), device="emulator", progress=False)
    assert [each.variant for each in found] == ["captured"]
    assert "launches no kernels" in found.skipped["numpy"]
    assert "wrong result" in found.skipped["copy"]


def test_arguments_are_checked(kernel):
    with ado.emulated(), pytest.raises(ValueError, match=r"must have arrays of \[8256\] bytes"):
        captured(kernel)(np.zeros(3, np.uint8))
    lacking = captured(kernel, lacks="it was launched as a cooperative grid")
    with pytest.raises(ado.Unavailable, match="again: it was launched as a cooperative grid"):
        lacking()
    if _core.why_no_cuda():
        with pytest.raises(ado.Unavailable, match="device='emulator'"):
            captured(kernel)()
        with pytest.raises(ado.Unavailable, match="launches cannot be captured"):
            ado.capture(print)


def test_machine_code_and_samples_of_a_launch(kernel, monkeypatch):
    launch = captured(kernel)
    (found,) = ado.sass(launch, kernel="saxpy")
    assert (found.name, found.block, found.registers) == ("saxpy", (256, 1, 1), 10)
    assert {i.line for i in found.instructions if i.access and i.access.space == "global"} == {4}
    with pytest.raises(ValueError, match="kernel must be the name of a kernel of saxpy, got 'x'"):
        ado.sass(launch, kernel="x")
    with pytest.raises(ado.Unavailable, match=r"was loaded before ado\.capture"):
        ado.sass(dataclasses.replace(launch, cubin=b""))

    def sampled(work, seconds):
        assert pickle.loads(pickle.dumps(work))[0].cubin == kernel.code
        lines = [["saxpy", f"{Path.cwd()}/captured/saxpy.cu", 4, [9, 0]]]
        reasons = ["long_scoreboard", "long_scoreboard_not_issued"]
        return {"reasons": reasons, "lines": lines, "dropped": 0, "unattributed": 0}

    monkeypatch.setattr(hotspots, "samples_of", sampled)
    monkeypatch.setattr(hotspots, "context", lambda device: {})
    monkeypatch.setattr(_core, "why_no_cuda", lambda: "")
    (line,) = ado.hotspots(launch).lines
    assert (line.path, line.line) == ("captured/saxpy.cu", 4)
    assert line.text == SOURCE.splitlines()[3]


def test_memory_with_addresses_is_named(kernel):
    launch = captured(kernel)
    words = np.zeros(1032, np.uint64)
    words[5] = ADDRESS + 16
    holding = captured(kernel, allocations=[(ADDRESS, words.tobytes(), words.tobytes())])
    assert any("allocation 0 may contain addresses" in limit for limit in holding.limits)
    assert not launch.limits


def test_kernels_of_equal_name_are_distinguished(kernel):
    other = compile_cuda(
        SOURCE.replace("+ at.y", "- at.y"), "saxpy", arch="sm_90", file="captured/other.cu"
    )
    known = [*capturing.compiled_kernels({"saxpy"})]
    records = [record_of(kernel, function=i, modules=i) for i in (1, 2)]
    first, second = capturing.launches_of(records, [other.code, kernel.code], known)
    assert (first.cubin, second.cubin) == (other.code, kernel.code)
    assert [*first.sources] == ["captured/other.cu"]
    assert [*second.sources] == ["captured/saxpy.cu"]


def test_machine_code_of_earlier_captures_is_found(kernel, monkeypatch):
    monkeypatch.setattr(capturing, "_seen", {})
    source = SOURCE.replace('extern "C" ', "").replace("saxpy", "renamed")
    mangled = compile_cuda(source, "renamed", arch="sm_90", file="captured/renamed.cu")
    for each, later in ((mangled, mangled.code), (kernel, b"")):
        for cubins, expected in (([each.code], each.code), ([], later)):
            (launch,) = capturing.launches_of([record_of(each)], cubins)
            assert launch.cubin == expected
    (launch,) = capturing.launches_of(
        [record_of(kernel)], [], [capturing.Known("saxpy", kernel.code, str)]
    )
    assert launch.cubin == kernel.code  # no other kernel has its name


def test_kernels_of_triton_are_found_by_their_handle():
    asm = {"cubin": b"cubin", "ptx": ".entry add"}
    loaded = SimpleNamespace(name="add", asm=asm, function=7)
    known = [capturing.of_triton(loaded, {"add"})]
    assert capturing.of_triton(loaded, {"sub"}) is None
    record = {"symbol": "add", "modules": 0, "grid": (1, 1, 1), "block": (1, 1, 1)}
    record |= {"arguments": [], "allocations": [], "shared_bytes": 0, "seconds": 0, "lacks": ""}
    ours, others = capturing.launches_of(
        [record | {"function": 7}, record | {"function": 8}], [], known
    )
    assert (ours.cubin, ours.ptx) == (b"cubin", ".entry add")
    assert (others.cubin, others.ptx) == (b"", "")


def test_kernels_of_this_package_have_ptx(monkeypatch):
    symbol = next(iter(_core.fatbins()))
    record = {"symbol": symbol, "function": 1, "modules": 0, "grid": (1, 1, 1), "lacks": ""}
    record |= {"block": (1, 1, 1), "arguments": [], "allocations": [], "shared_bytes": 0}
    (launch,) = capturing.launches_of([record | {"seconds": 0.0}], [])
    assert f".entry {symbol}(" in launch.ptx
    assert launch.cubin
    monkeypatch.setattr(capturing, "_seen", {})
    (launch,) = capturing.launches_of([record | {"seconds": 0.0}], [], compute=10)
    assert "there is no machine code, so it runs only on the emulator" in launch.limits


def test_the_hottest_launch_took_the_longest(kernel):
    launches = Launches([captured(kernel, seconds=s) for s in (1e-5, 3e-5, 2e-5)], graphs=1)
    assert launches.hottest is launches[1]
    assert len(launches[1:]) == 2
    assert "30.0 us  <launch of saxpy, grid (4, 1, 1)" in repr(launches)
    assert "1 launches of CUDA graphs" in repr(launches)


def test_other_archives_are_refused(tmp_path):
    path = tmp_path / "other.ado"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("launch.json", "{}")
    with pytest.raises(ValueError, match=r"other.ado is not a captured launch: its kind is None"):
        ado.load(path)

"""The code blocks of the documentation run. Listed blocks cannot run, but name what exists."""

import ast
import contextlib
import doctest
import inspect
import io
import itertools
import linecache
import re
import shlex
import subprocess
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
import pytest
from conftest import NO_CUDA

import adokernels as ado
from adokernels import _core
from adokernels.cli import program
from adokernels.measuring import sampling

ROOT = Path(__file__).parent.parent
DATA = ROOT / "notebooks" / "data"
PAGES = [
    *(ROOT / name for name in ("README.md", "HACKING.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]

#: The beginnings of Python statements, or of whole blocks, that do not run here. Their calls of the
#: package are compared with its signatures.
NOT_RUN = {
    "import torch": "torch is not installed for the tests",
    "torch.from_dlpack(result)": "torch is not installed for the tests",
    'vectors = torch.rand(64, 32, 100, device="cuda")': "torch is not installed for the tests",
    "x = torch.rand(": "torch is not installed for the tests",
    "ado.profile(lambda: x.T.contiguous())": "torch is not installed for the tests",
    "import cupy": "CuPy is not installed for the tests",
    'profile["smsp__inst_executed.sum"]': "the emulator counts no machine instructions",
    'share = ado.distributed.split(operands, comm, device=f"cuda:{local_rank}")': "needs GPUs",
    "launches = ado.capture(": "capturing needs a GPU",
    'launch = ado.load("launch.ado")': "capturing needs a GPU",
    'ado.import_ncu("mine.ncu-rep")': "tests/test_ncu_import.py reads such files",
    "tuning = ado.tune(": "tuning needs a GPU",
    "tuning.use()": "tuning needs a GPU",
    'tuning.save("saxpy.json")': "tuning needs a GPU",
    'sass = ado.max_plus["vector_load_small"].sass()': "without a GPU, the kernels are unknown",
    '"""The task of ``ado.scale``."""': "the file of a routine that does not exist",
}
#: Records instead of the results of such statements, and the types of results without a record.
RESULTS = {"sass": "course/max_plus-float64-vector_load_small-sass"}
TYPES = {"ado": ado, "tuning": ado.records.Tuning}
#: Functions that need a GPU: a call with this argument returns a stored record.
STORED = {
    "sweep": ("counters", "transpose-float32-8192"),
    "scan": ("copies", "break_even/transpose"),
}
#: Pages whose calls are for a GPU unless they name a device.
EMULATED = {"HACKING.md", *(f"docs/guide/{name}.md" for name in ("arrays", "emulator", "why_slow"))}


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks_of(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


WITH_PYTHON = [page for page in PAGES if blocks_of(page, "python")]


# ------------------------------------------------------------------------------------------ Python


class _Smaller(ast.NodeTransformer):
    """Divides long lengths by 64. Replaces devices that this machine does not have."""

    def visit_Constant(self, node):
        if isinstance(node.value, int) and node.value >= 512:
            return ast.Constant(node.value // 64)
        if isinstance(node.value, str) and re.fullmatch(r"cuda(:\d)?", node.value):
            return ast.Constant(existing(node.value))
        return node


def existing(device):
    """The device if this machine has it, else the default GPU, or the emulator without a GPU."""
    try:
        return _core.resolve_device(device)
    except ado.Unavailable:
        return "emulator" if NO_CUDA else "cuda"


def run_block(code, names):
    """Run a block statement by statement, without those that are listed."""
    if is_listed(code):
        assert wrong_calls(code) == []
        return
    file = f"<{abs(hash(code))}>"  # Triton reads the source of functions
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    for statement in ast.parse(code).body:
        text = ast.get_source_segment(code, statement)
        if is_listed(text):
            assert wrong_calls(text) == []
            if NO_CUDA and text.startswith("tuning = ado.tune("):  # only its error, without a GPU
                with pytest.raises(ado.Unavailable):
                    exec(text, names)
            result = text.partition(" = ")[0]
            if result in RESULTS:
                names[result] = ado.load(DATA / f"{RESULTS[result]}.json.xz")
            continue
        tree = ast.fix_missing_locations(_Smaller().visit(ast.Module([statement], [])))
        exec(compile(tree, file, "exec"), names)


def is_listed(code):
    return any(code.startswith(beginning) for beginning in NOT_RUN)


def wrong_calls(code):
    """The package's functions whose calls do not fit their signatures."""
    wrong = []
    for node in ast.walk(ast.parse(code)):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if name.partition(".")[0] not in TYPES:
            continue
        elided = any(isinstance(a, ast.Constant) and a.value is ... for a in node.args)
        arguments = [] if elided else list(node.args)
        options = {k.arg: k.value for k in node.keywords if k.arg}
        try:
            function = eval(name, TYPES)
            if inspect.isfunction(function) and "." in function.__qualname__:  # a method
                arguments.insert(0, None)
            signature = inspect.signature(function)
            (signature.bind_partial if elided else signature.bind)(*arguments, **options)
        except (TypeError, AttributeError, KeyError):
            wrong.append(name)
        except ValueError:  # a compiled function has no signature
            continue
    return wrong


def stored(function, argument, record):
    """The function; calls with the argument return a record."""
    signature = inspect.signature(function)

    def call(*args, **options):
        if signature.bind(*args, **options).arguments.get(argument):
            return ado.load(DATA / f"{record}.json.xz")
        return function(*args, **options)

    return call


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """The reader's folder, with the files of the blocks. Timing is short, and caches are warm."""
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng().integers(0, 256, (48, 64, 4), np.uint8)
    PIL.Image.fromarray(pixels[..., :3]).save("photo.jpg")
    np.save("scan.npy", pixels)
    for name in ("before.json", "after.json"):
        ado.load(DATA / "transpose-float32-8192.json.xz").save(name)
    check = sampling.Timing.__post_init__

    def shortened(settings):
        check(settings)
        vars(settings).update(seconds=0.01, cache="warm")

    monkeypatch.setattr(sampling.Timing, "__post_init__", shortened)
    if NO_CUDA:
        for name, how in STORED.items():
            monkeypatch.setattr(ado, name, stored(getattr(ado, name), *how))
    names = [name for name in dir(type(ado.settings)) if not name.startswith("_")]
    before = {name: getattr(ado.settings, name) for name in names}
    yield tmp_path
    plt.close("all")
    for name, value in before.items():
        if getattr(ado.settings, name) != value:
            setattr(ado.settings, name, value)


def example(page):
    marks = [pytest.mark.cuda] if name_of(page) in EMULATED else []
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", [example(page) for page in WITH_PYTHON])
def test_python_blocks_run(page, reader, monkeypatch):
    names = {}
    if page.name == "own_kernels.md":
        (reader / "saxpy.cu").write_text(*blocks_of(page, "cpp"))
    if page.name == "dask.md":
        array = pytest.importorskip("dask.array")
        array.from_array(np.load("scan.npy"), chunks=(20, 30, 4)).to_zarr("image.zarr")
    if page.name in ("gallery.md", "cards.md"):
        monkeypatch.chdir(DATA if page.name == "gallery.md" else ROOT)
    for code in blocks_of(page, "python"):
        if code.startswith(">>>"):
            names |= run_session(code, names)
        else:
            run_block(code, names)
    for number in plt.get_fignums():
        plt.figure(number).draw_without_rendering()


def run_session(text, names):
    """Run examples with their results."""
    test = doctest.DocTestParser().get_doctest(text, names, "README.md", "README.md", 0)
    assert len(test.examples) >= 4
    assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
    return test.globs


def test_listed_code_is_in_the_documentation():
    code = "\n".join(itertools.chain(*(blocks_of(page, "python") for page in PAGES)))
    assert [beginning for beginning in NOT_RUN if beginning not in code] == []


def inline_code(page):
    """The spans of code in prose and tables."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_in_prose_uses_existing_names(page):
    for code in inline_code(page):
        if not re.match(r"ado\.[a-z]", code) or "ROUTINE" in code:
            continue
        try:
            tree = ast.parse(code)
        except SyntaxError:  # part of a statement
            names = re.findall(r"\bado\.\w+", code)
        else:
            assert wrong_calls(code) == []
            chains = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
            names = [
                text for node in chains if re.match(r"ado\.[\w.]+$", text := ast.unparse(node))
            ]
        for name in names:
            eval(name, {"ado": ado})


# ------------------------------------------------------------------------------- shell, C++


def commands():
    """The commands of adokernels in shell blocks, prose and tables, without the program."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        in_blocks = [c for b in blocks_of(page, "sh") for c in re.split(r" && | \| |\n", b)]
        for command in (*in_blocks, *re.findall(r"^!(.*)$", text, re.M), *inline_code(page)):
            if found := re.match(r"!?adokernels ([\w-].*)", command):
                yield shlex.split(found[1], comments=True)


def program_complaint(arguments):
    """What the program's parser says; prose may omit arguments and values."""
    text = io.StringIO()
    try:
        with contextlib.redirect_stderr(text):
            program.parse(arguments)
    except SystemExit as stop:
        if stop.code and not re.search("are required|expected one argument", text.getvalue()):
            return text.getvalue()
    return ""


def test_commands_parse(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(commands())
    assert len(found) > 40
    assert [complaint for each in found if (complaint := program_complaint(each))] == []


def test_the_cpp_example_compiles(tmp_path):
    (code,) = blocks_of(ROOT / "docs" / "guide" / "cpp.md", "cpp")
    includes, body = code.split("\n\n", 1)
    file = tmp_path / "program.cpp"
    file.write_text(f"{includes}\nint main() {{\n{body}}}\n")
    flags = ["-std=c++20", "-fsyntax-only", f"-I{ROOT / 'src'}"]
    subprocess.run(["g++", *flags, file], check=True)

"""Machine code: cubins, instructions, loops, registers, and the disassembly of built kernels."""

import dataclasses
from pathlib import Path

import charting
import numpy as np
import pytest
from conftest import NO_CUDA

import adokernels as ado
from adokernels import _core, machine_code
from adokernels.machine_code import architectures, kernels_in, kernels_of_module, tool
from adokernels.model.compiler import compile_cuda, why_no_compiler
from adokernels.records.instructions import Access, cleaned, parsed
from adokernels.records.loops import loops_in

DATA = Path(__file__).parent / "data"
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
MODULE = Path(_core.__file__)
LISTING = (DATA / "max_plus_vector_load_small.sass").read_text(encoding="utf-8")


def why_unavailable(find, where):
    """Why a tool or a module's machine code cannot be used; empty if it can."""
    try:
        return "" if find(where) else "the CUDA kernels are not built"
    except ado.Unavailable as error:
        return str(error)


NO_SASS = why_unavailable(tool, "nvdisasm")
NO_MODULE = NO_SASS or why_unavailable(architectures, MODULE)
needs_module = pytest.mark.skipif(bool(NO_MODULE), reason=NO_MODULE)
NO_COMPILED = why_no_compiler() or NO_SASS
needs_compiler = pytest.mark.skipif(bool(NO_COMPILED), reason=NO_COMPILED)


def relative(path):
    return path.removeprefix("/home/somebody/adokernels/")


def sass(**changes):
    kernel = ado.records.KernelSass(
        name="max_plus_vector_load_small<double>",
        block=(1024,),
        registers=32,
        register_limit=64,
        most_registers=64,
        listing=cleaned(LISTING, relative),
    )
    kernels = (dataclasses.replace(kernel, **changes),)
    return ado.records.Sass(
        routine="max_plus", variant="vector_load_small", arch="sm_90", kernels=kernels
    )


# --- Instructions ---------------------------------------------------------------------------------


def test_instructions_of_a_listing():
    instructions = parsed(LISTING)
    assert len(instructions) == 340
    assert parsed(cleaned(LISTING, str)) == instructions
    first, last = instructions[0], instructions[-1]
    assert (first.address, first.opcode, first.operands) == (0, "LDC", "R1, c[0x0][0x28]")
    assert first.place == "steps.cu:93"
    assert last.opcode == "BRA"
    assert last.targets == (last.address,)  # the padding after it is left out
    load = next(i for i in instructions if i.opcode == "LDG.E.128")
    assert load.loaded == {8, 9, 10, 11}
    branch = next(i for i in instructions if i.predicate == "!P1")
    assert (branch.opcode, branch.operands, branch.targets) == ("BRA", "0x250", (0x250,))
    spill = next(i for i in instructions if i.opcode == "STL")
    assert (spill.operands, spill.access) == ("[R1], R0", Access("store", "local", 32))


@pytest.mark.parametrize(
    ("code", "access"),
    [
        ("LDG.E R2, desc[UR4][R2.64]", ("load", "global", 32)),
        ("LDG.E.U8.CONSTANT R2, desc[UR4][R2.64]", ("load", "global", 8)),
        ("LDG.E.S16 R2, [R2.64]", ("load", "global", 16)),
        ("LDG.E.128.STRONG.GPU R4, desc[UR10][R12.64]", ("load", "global", 128)),
        ("STG.E.64 desc[UR8][R4.64], R2", ("store", "global", 64)),
        ("LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64]", ("copy", "global", 128)),
        ("UBLKCP.S.G [UR8], [UR6], UR4", ("copy", "global", 0)),
        ("REDG.E.MAX.S32.STRONG.GPU desc[UR4][R2.64], R5", ("atomic", "global", 32)),
        ("LDS.U.128 R4, [R3]", ("load", "shared", 128)),
        ("STS [R3+0x80], R4", ("store", "shared", 32)),
        ("LDSM.16.M88.4 R4, [R3]", ("load", "shared", 128)),
        ("LDL.LU R0, [R1]", ("load", "local", 32)),
        ("ULDC.64 UR4, c[0x0][0x208]", ("load", "constant", 64)),
        ("LD.E.64 R2, [R2.64]", ("load", "generic", 64)),
        ("DADD R6, R6, R8", None),
    ],
)
def test_memory_accesses(code, access):
    (instruction,) = parsed(f"        /*0000*/              @!UP0 {code} ;")
    assert instruction.predicate == "!UP0"
    assert instruction.access == access


def test_counts_of_a_kernel():
    found = sass()
    kernel = found[0]
    assert found.loads == kernel.loads == {64: 18, 128: 7}
    assert found.stores == {64: 2}
    assert found.opcodes["LDG.E.128"] == 7
    assert kernel.count("load", "global") == 25
    assert kernel.count(bits=128) == 7
    assert kernel.count("load", "local") == 1
    assert kernel.widths("load", "shared") == {}
    assert "0300  LDG.E.64                 R8, desc[UR8][R8.64]" in found.text
    assert "// cuda/max_plus/steps.cu:85" in kernel.text


# --- Loops ----------------------------------------------------------------------------------------


def code(*rows):
    return parsed(listing(*rows))


def listing(*rows):
    """Instructions of 16 bytes; a string that ends with a colon is a label."""
    lines, address = [], 0
    for row in rows:
        if row.endswith(":"):
            lines.append(row)
            continue
        lines.append(f"/*{address:04x}*/ {row} ;")
        address += 16
    return "\n".join(lines)


def shape_of(loops):
    return [(hex(loop.first), hex(loop.last), loop.depth, loop.innermost) for loop in loops]


def test_loops_of_a_kernel():
    kernel = sass()[0]
    assert shape_of(kernel.loops) == [
        *[("0x1d0", "0x440", 1, False), ("0x250", "0x3a0", 2, True), ("0x510", "0x1510", 1, False)],
        *[("0x790", "0xc70", 2, True), ("0x12f0", "0x1420", 2, True)],
    ]
    main = kernel.main_loop
    assert main is kernel.loops[3]
    assert main.loads == {64: 8, 128: 4}
    assert main.loaded_bytes == 128
    assert main.load_waits == 8
    assert len(main) == 79
    assert "steps.cu:81" in main.lines
    assert main.text.splitlines()[-1].split() == ["0c70", "@P1", "BRA", "0x790"]


def test_a_branch_back_is_a_loop_only_if_it_repeats():
    loops = loops_in(
        code(
            "@P0 BRA `(.L_rare)",
            ".L_back:",
            "IADD3 R0, R0, 0x1, RZ",
            "EXIT",
            ".L_rare:",  # out of line: the branch back to earlier code is not a loop
            "MUFU.RCP R0, R0",
            "BRA `(.L_back)",
            ".L_end:",
            "BRA `(.L_end)",
            "NOP",
        )
    )
    assert loops == ()


def test_instructions_out_of_line_belong_to_their_loop():
    (loop,) = loops_in(
        code(
            "MOV R0, RZ",
            ".L_head:",
            "@P1 BRA `(.L_rare)",
            ".L_back:",
            "LDG.E.64 R2, [R4.64]",
            "BRA.U UP0, `(.L_head)",
            "EXIT",
            ".L_rare:",
            "LDG.E R8, [R8.64]",
            "BRA `(.L_back)",
        )
    )
    assert (loop.first, loop.last, len(loop)) == (0x10, 0x30, 5)
    assert loop.loads == {32: 1, 64: 1}


def test_nested_loops_and_several_branches_to_one_header():
    loops = loops_in(
        code(
            ".L_outer:",
            "MOV R0, RZ",
            ".L_inner:",
            "IADD3 R0, R0, 0x1, RZ",
            "BRA P0, `(.L_inner)",
            "IADD3 R1, R1, 0x1, RZ",
            "@P1 BRA `(.L_inner)",
            "@!P2 BRA `(.L_outer)",
            "EXIT",
        )
    )
    assert shape_of(loops) == [("0x0", "0x50", 1, False), ("0x10", "0x40", 2, True)]


def test_an_indirect_branch_has_the_noted_targets():
    (loop,) = loops_in(
        code(
            ".L_a:",
            "IADD3 R0, R0, 0x1, RZ",
            'BRX R4 -0x20 (*"BRANCH_TARGETS .L_a,.L_b"*)',
            "NOP",
            ".L_b:",
            "EXIT",
        )
    )
    assert (loop.first, loop.last) == (0, 0x10)


def test_waits_for_loads_that_overlap_count_once():
    def waits(*rows):
        return loops_in(code(".L_head:", *rows, "@P0 BRA `(.L_head)"))[0].load_waits

    two = ("LDG.E R2, [R10.64]", "LDG.E R3, [R12.64]")
    assert waits(*two, "FADD R0, R0, R2", "FADD R0, R0, R3") == 1
    assert waits(two[0], "FADD R0, R0, R2", two[1], "FADD R0, R0, R3") == 2
    assert waits("FADD R0, R0, R2", *two) == 1  # loads of the previous iteration
    assert waits("LDG.E.128 R4, [R10.64]", "FADD R0, R0, R7") == 1
    assert waits("LDS R4, [R10]", "FADD R0, R0, R4") == 0
    assert waits(*two) == 1  # a load into the same register waits for the previous one


@pytest.mark.parametrize(
    ("copy", "loaded"),
    [("LDGSTS.E.BYPASS.128 [R5], desc[UR8][R8.64]", 16), ("UBLKCP.S.G [UR4], [UR6], UR8", 0)],
)
def test_asynchronous_copies_feed_the_main_loop(copy, loaded):
    def loop(label, row):
        return (f".L_{label}:", row, f"@P0 BRA `(.L_{label})")

    rows = *loop("remainder", "LDG.E R2, [R10.64]"), *loop("copies", copy), "EXIT"
    kernel = sass(listing=listing(*rows))[0]
    assert [each.loaded_bytes for each in kernel.loops] == [4, loaded]
    assert kernel.main_loop is kernel.loops[1]


# --- Registers ------------------------------------------------------------------------------------


def kernel_with(registers, **changes):
    values = {"name": "k", "grid": (1,), "block": (1024,), "resident_warps": 32}
    return charting.kernel_with(registers=registers, **values | changes)


def test_registers_agree_with_the_limits_of_stored_kernels():
    def blocks(kernel, registers):
        allocated = -(-registers * 32 // 256) * 256
        warps = -(-int(np.prod(kernel.block)) // 32)
        return 65536 // 4 // allocated * 4 // warps

    ladder = ado.load(NOTEBOOKS / "data" / "max_plus-float64.json.xz")
    kernels = [k.kernel for m in ladder if m.profile for k in m.profile.kernels]
    assert len(kernels) > 10
    for kernel in kernels:
        assert blocks(kernel, max(kernel.registers, 1)) == kernel.limits["registers"]
        warps = -(-int(np.prod(kernel.block)) // 32)
        share = -(-int(np.prod(kernel.grid)) // (kernel.multiprocessors or 1))  # of the blocks
        resident = min(kernel.resident_warps // warps, share)
        allowed = [n for n in range(1, 256) if blocks(kernel, n) >= resident]
        assert kernel.most_registers == max(allowed)
        assert kernel.registers_unused >= 0


# --- Cubins ---------------------------------------------------------------------------------------

BOUNDED = """
extern "C" __global__ void __launch_bounds__(512, 2) bounded(float* x) { x[threadIdx.x] *= 2; }
template <class T> __global__ void wide(T* x) { x[blockIdx.x * blockDim.x + threadIdx.x].x += 1; }
"""


@pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler())
def test_kernels_of_a_cubin():
    (bounded,) = kernels_in(compile_cuda(BOUNDED, "bounded").code)
    assert bounded.symbol == "bounded"
    assert bounded.register_limit == 64
    assert 4 <= bounded.registers <= 64
    compiled = compile_cuda(BOUNDED, "wide<float4>")
    wide = next(k for k in kernels_in(compiled.code) if k.symbol == compiled.symbol)
    assert wide.register_limit == 255
    assert _core.kernel_name(wide.symbol) == "wide<float4>"
    with pytest.raises(ValueError, match="code must be a cubin"):
        kernels_in(compiled.code[:200])


@pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler())
def test_functions_that_kernels_call_are_not_kernels():
    source = """
    extern "C" __global__ void quotients(unsigned long long* x, unsigned long long y) {
      x[threadIdx.x] /= y;  // a function of the compiler's library
    }"""
    code = compile_cuda(source, "quotients").code
    assert b"__cuda_sm20_div_u64" in code
    assert [k.symbol for k in kernels_in(code)] == ["quotients"]


@pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler())
def test_of_two_kernels_with_one_name_that_of_the_routine_is_chosen(monkeypatch):
    cubins = {
        f"/x/cuda/{name}/steps.cu": compile_cuda(BOUNDED.replace("512, 2", bounds), "bounded").code
        for name, bounds in (("copy", "512, 2"), ("mine", "1024"), ("other", "256, 2"))
    }
    monkeypatch.setattr(machine_code, "cubins_of", lambda module, arch: cubins)
    for path, code in cubins.items():
        assert kernels_of_module(MODULE, "sm_90", path.split("/")[-2])["bounded"][0] == code


@pytest.mark.parametrize("content", [b"", b"no cubin", b"\x7fELF", b"\x7fELF" + b"\xff" * 60])
def test_other_content_is_not_a_cubin(content):
    with pytest.raises(ValueError, match="code must be a cubin"):
        kernels_in(content)


# --- Presentation and storage ---------------------------------------------------------------------


# --- Variants -------------------------------------------------------------------------------------


def test_wrong_calls():
    kernels = [kernel_with(32)]
    with pytest.raises(ValueError, match="must be a CUDA variant"):
        ado.max_plus["naive_loops"].sass()
    with pytest.raises(TypeError, match="must not be combined with kernels="):
        ado.max_plus["one_block"].sass(np.zeros((2, 2)), kernels=kernels)
    ladder = ado.ladder("twice", reference=lambda x: 2 * x)
    ladder.add(lambda x: 2 * x)
    with pytest.raises(ValueError, match="must be a kernel in CUDA C"):
        ladder.variants[0].sass(np.zeros(3))


@pytest.mark.skipif(not NO_CUDA, reason="there is a CUDA device")
def test_without_a_gpu_the_kernels_must_be_given():
    with pytest.raises(ado.Unavailable, match=r"pass kernels= from stored resources or counters"):
        ado.max_plus["one_block"].sass()


@pytest.fixture
def fake_tools(tmp_path, monkeypatch):
    """A function that replaces a tool by a shell script; the other tools are missing."""
    monkeypatch.setattr("adokernels.toolkit.folders", lambda: [str(tmp_path)])

    def add(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    return add


def test_missing_and_failing_tools(fake_tools, monkeypatch):
    variant, kernels = ado.max_plus["one_block"], [kernel_with(32)]
    monkeypatch.setattr(machine_code, "architectures", lambda module: ["sm_75"])
    with pytest.raises(ValueError, match="arch must be one of sm_75, got 'sm_90'"):
        variant.sass(kernels=kernels, arch="sm_90")
    with pytest.raises(ValueError, match=r"kernels must be kernels of this build, .*, got k"):
        variant.sass(kernels=kernels)
    monkeypatch.setattr(machine_code, "architectures", lambda module: [])
    with pytest.raises(ado.Unavailable, match="CUDA kernels are not built; remedy"):
        variant.sass(kernels=kernels)
    with pytest.raises(ado.Unavailable, match="nvdisasm is missing; remedy: install a CUDA"):
        machine_code.disassembled(b"")
    fake_tools("nvdisasm", "echo too old >&2; exit 3")
    with pytest.raises(ado.Unavailable, match="ended with status 3: too old; remedy"):
        machine_code.disassembled(b"")


def built(routine, variant, kernel, **launch):
    return ado.routines[routine][variant].sass(kernels=[kernel_with(32, name=kernel, **launch)])


@needs_module
@pytest.mark.parametrize(
    ("variant", "loads"),
    [("one_block", {64}), ("vector_load_small", {64, 128}), ("vector_load_both", {128})],
)
def test_vector_loads_of_max_plus(variant, loads):
    found = built("max_plus", variant, f"max_plus_{variant}<double>")
    (kernel,) = found
    assert found.arch in architectures(MODULE)
    assert set(kernel.main_loop.loads) == loads
    assert {f"LDG.E.{bits}" for bits in loads} <= kernel.opcodes.keys()
    assert kernel.register_limit == 64  # for blocks of 1024 threads
    assert "steps.cu" in "".join(kernel.main_loop.lines)
    assert any(i.path == "cuda/max_plus/steps.cu" for i in kernel.instructions)


@pytest.mark.gpu
@needs_module
@pytest.mark.parametrize("routine", ado.routines.values(), ids=lambda r: r.name)
def test_the_launched_kernels_are_in_the_module(routine):
    compute = f"sm_{_core.cuda_properties()['compute']}"
    if compute not in architectures(MODULE):
        pytest.skip(f"no machine code for {compute}")
    known = kernels_of_module(MODULE, compute, routine.name)
    for variant in (v for v in routine if v.device == "cuda" and not v.stages):
        try:
            resources = variant.resources()
        except ValueError:  # the variant cannot solve the default problem
            continue
        for kernel in resources:
            # The driver reports at least 16 registers on some GPUs.
            assert kernel.registers in (known[kernel.name][1].registers, 16)


@needs_compiler
def test_machine_code_of_cuda_source():
    source = """
    template <class T> __global__ void sum(const T* x, T* out, long long n) {
      T total = 0;
      for (long long i = threadIdx.x; i < n; i += blockDim.x) total += x[i];
      out[threadIdx.x] = total;
    }"""
    variant = ado.cuda_variant(
        "columns", source=source, kernel="sum<{T}>", block=[(64,), (128,)], file="mine.cu"
    )
    found = variant.sass(np.zeros(5), block=(128,), arch="sm_80")
    assert (found.variant, found.arch, found[0].block) == ("columns", "sm_80", (128,))
    assert found[0].name == "sum<double>"
    assert set(found.loads) == {64}
    assert found[0].main_loop.lines == ("mine.cu:4",)
    assert found[0].registers_unused is None
    assert set(variant.sass(np.zeros(5, np.float32), arch="sm_80").loads) == {32}
    with pytest.raises(TypeError, match="must have an array as operand"):
        variant.sass(3.0)
    with pytest.raises(ado.CompilationError):
        ado.cuda_variant("wrong", source="no code", block=32).sass(np.zeros(5))

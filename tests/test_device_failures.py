"""The GPU has no memory left, or a foreign kernel has made it unusable.

Each test runs in a process of its own. The driver is called directly: it allocates memory
that the library then lacks, and it loads the kernel that traps.
"""

import pytest
from conftest import start_python

import adokernels as ado

pytestmark = pytest.mark.gpu

COMMON = """
import ctypes, re
import numpy as np
import adokernels as ado
from adokernels.model.tasks import as_tuple

driver = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20


def on_host(results):
    return [np.asarray(a.numpy() if hasattr(a, "numpy") else a) for a in results]


def results(routine, operands, **keywords):
    given = routine(*operands, **keywords)
    return on_host(given if isinstance(given, tuple) else (given,))


def ok(code):
    assert code == 0, code
"""

NO_MEMORY = """
def free_bytes():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ok(driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value


def fill(left):
    kept = []
    for size in (1024 * MIB, 64 * MIB, 2 * MIB):
        while free_bytes() > left + size:
            address = ctypes.c_uint64()
            if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) != 0:
                break
            kept.append(address)
    return kept


def all_right(device_operands):
    return all(
        np.allclose(a, b, rtol=1e-4, atol=1e-4)
        for given in (operands, device_operands)
        for a, b in zip(results(routine, given, device="cuda"), expected)
    )


# The results exceed the 32 MiB that the driver's memory pool reserves for small operands.
lengths = {"average_matvec": (64, 256, 1024), "gpp": (16, 1024, 2048, 2), "max_plus": (8, 1 << 20)}
lengths |= dict.fromkeys(("gaussian_blur", "sobel"), (8192, 8192))
lengths |= {"strided_copy": (32 << 20,), "gather": (1000, 16 << 20), "component": (16 << 20, 3)}
for name, routine in ado.routines.items():
    operands = routine.task.random_operands(lengths.get(name, (4096, 2048)))
    expected = results(routine, operands, device="cpu")
    arrays = [ado.to_device(a) for a in operands]
    assert all_right(arrays), name
    seen = set()

    def call_with(left):
        ado.synchronize()  # the driver returns cached memory
        kept = fill(left * MIB)
        for given in (operands, arrays):
            try:
                routine(*given, device="cuda")
                seen.add("result")
            except MemoryError as error:
                assert re.search(r"\\d+ bytes requested, \\d+ bytes free", str(error)), error
                seen.add("error")
        for address in kept:
            ok(driver.cuMemFree_v2(address))
        assert all_right(arrays), f"{name}: the next call is wrong"

    for left in (0, 4, 12, 24, 48, 96, 192, 384):
        call_with(left)
    # Another process may have freed or allocated memory in the meantime, so try again.
    for left, outcome in ((0, "error"), (384, "result")):
        for _ in range(10):
            if outcome not in seen:
                call_with(left)
    print(name, *sorted(seen))
"""

LOST = """
PTX = b".version 7.0\\n.target sm_50\\n.address_size 64\\n.visible .entry lose() { trap; }\\0"
a = np.arange(12.0).reshape(3, 4)
array = ado.to_device(a)
ado.transpose(array)
module, function = ctypes.c_void_p(), ctypes.c_void_p()
ok(driver.cuModuleLoadData(ctypes.byref(module), PTX))
ok(driver.cuModuleGetFunction(ctypes.byref(function), module, b"lose"))
one = [ctypes.c_uint(1)] * 6
ok(driver.cuLaunchKernel(function, *one, ctypes.c_uint(0), None, None, None))
driver.cuCtxSynchronize()
calls = {
    "call": lambda: ado.transpose(array),
    "call with staging": lambda: ado.transpose(a, device="cuda"),
    "to_device": lambda: ado.to_device(a),
    "numpy": array.numpy,
    "synchronize": ado.synchronize,
    "measure": lambda: ado.measure(ado.transpose, a, device="cuda"),
    "problem": lambda: ado.transpose.problem(a, device="cuda").prepare("tiled"),
}
for _ in range(2):
    for name, call in calls.items():
        try:
            call()
            print("no error:", name)
        except ado.CudaError:
            pass
        assert np.array_equal(ado.transpose(a, device="cpu"), a.T)
print("done")
"""


def test_no_device_memory():
    """With decreasing free memory, each allocation of a call fails once."""
    done = start_python(COMMON + NO_MEMORY, ADOKERNELS_DEVICE="")
    assert done.returncode == 0, done.stderr
    expected = [f"{name} error result" for name in ado.routines]
    assert done.stdout.splitlines() == expected


def test_lost_device():
    """Every later call raises CudaError, calls on the CPU work, and the process ends normally."""
    done = start_python(COMMON + LOST, ADOKERNELS_DEVICE="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")

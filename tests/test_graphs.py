"""CUDA graphs of torch and CuPy capture calls with device operands and out=, and replay them."""

import contextlib
import ctypes
import gc
import time

import numpy as np
import pytest
from conftest import cuda_variants, on_gpus, run_python

import adokernels as ado
from adokernels.model.tasks import TASKS, as_tuple

pytestmark = pytest.mark.gpu

A = np.arange(12, dtype=np.float32).reshape(3, 4)
SENTINEL = 77
SPIN_CYCLES = 100_000_000  # about 50 ms


class Cupy:
    """Functions of CuPy: arrays, streams and graphs."""

    def __init__(self):
        self.library = pytest.importorskip("cupy")
        self.capture_stream = self.stream()

    def array(self, host):
        return self.library.asarray(host)

    def host(self, array):
        return self.library.asnumpy(array)

    def write(self, array, host):
        array.set(host)

    def stream(self):
        return self.library.cuda.Stream(non_blocking=True)

    def using(self, stream):
        return stream

    def handle(self, stream):
        return stream.ptr

    def captured(self, work):
        """Capture work() in the mode that forbids most, and return the graph."""
        with self.capture_stream as stream:
            stream.begin_capture(self.library.cuda.runtime.streamCaptureModeGlobal)
            try:
                work()
            except BaseException:
                with contextlib.suppress(self.library.cuda.runtime.CUDARuntimeError):
                    stream.end_capture()
                raise
            return stream.end_capture()

    def replay(self, graph, stream):
        graph.launch(stream)

    def sleep(self):
        spin = """extern "C" __global__ void spin(long long cycles) {
                    long long start = clock64();
                    while (clock64() - start < cycles) {}
                  }"""
        self.library.RawKernel(spin, "spin")((1,), (1,), (np.int64(SPIN_CYCLES),))


class Torch:
    """The same functions of torch."""

    def __init__(self):
        self.library = pytest.importorskip("torch")
        if not self.library.cuda.is_available():
            pytest.skip("torch sees no GPU")

    def array(self, host):
        return self.library.from_numpy(np.array(host)).cuda()

    def host(self, array):
        return array.cpu().numpy()

    def write(self, array, host):
        array.copy_(self.library.from_numpy(np.array(host)))

    def stream(self):
        return self.library.cuda.Stream()

    def using(self, stream):
        return self.library.cuda.stream(stream)

    def handle(self, stream):
        return stream.cuda_stream

    def captured(self, work):
        graph = self.library.cuda.CUDAGraph()
        with self.library.cuda.graph(graph):
            work()
        return graph

    def replay(self, graph, stream):
        with self.using(stream):
            graph.replay()

    def sleep(self):
        self.library.cuda._sleep(SPIN_CYCLES)


@pytest.fixture(params=[Cupy, Torch], ids=["cupy", "torch"])
def library(request):
    return request.param()


@pytest.fixture
def cupy():
    return Cupy()


class Recorded:
    """A call on device arrays: its operands can be replaced, and its results checked."""

    def __init__(self, library, routine, lengths, *, in_place=False):
        self.library, self.routine, self.lengths = library, routine, lengths
        self.task = routine.task
        operands = self.task.random_operands(lengths)
        self.operands = [library.array(a) for a in operands]
        results = as_tuple(routine(*operands, device="cpu"))
        new = [library.array(np.zeros_like(a)) for a in results]
        self.outs = tuple(self.operands if in_place else new)
        self.renew()

    def call(self, **keywords):
        out = self.outs if len(self.outs) > 1 else self.outs[0]
        self.routine(*self.operands, out=out, **keywords)

    def renew(self):
        """Replace the values of the operands, and overwrite the results."""
        for out in self.outs:
            self.library.write(out, np.full(out.shape, SENTINEL, self.library.host(out).dtype))
        self.host_operands = self.task.random_operands(self.lengths)
        for array, host in zip(self.operands, self.host_operands, strict=True):
            self.library.write(array, host)
        ado.synchronize()

    def has_run(self):
        ado.synchronize()
        return any((self.library.host(out) != SENTINEL).any() for out in self.outs)

    def check(self):
        ado.synchronize()
        unit = self.task.error_unit(*self.host_operands) if self.task.error_unit else None
        expected = self.task.expected(*self.host_operands)
        results = tuple(map(self.library.host, self.outs))
        self.task.check(results if isinstance(expected, tuple) else results[0], expected, unit)


def calls_of(library, routine, variant):
    """Small problems that the variant can solve."""
    cases, in_place = TASKS[routine.name].sanitizer, variant == "in_place"
    calls = []
    for lengths in cases.in_place if in_place else cases.shapes:
        call = Recorded(library, routine, lengths, in_place=in_place)
        if variant is None or not routine.problem(*call.operands).why_not(variant):
            calls.append(call)
    if not calls:
        pytest.skip("declines the problems")
    return calls


@pytest.mark.parametrize(("routine", "variant"), on_gpus(cuda_variants(defaults=True)))
def test_replays_compute(library, routine, variant):
    """All calls are in one graph, so they use the same scratch memory one after the other."""
    calls = calls_of(library, routine, variant)
    graph = library.captured(lambda: [call.call(variant=variant) for call in calls])
    if isinstance(library, Cupy):
        assert set(kinds_of_nodes(graph)) <= {KERNEL, COPY, FILL}  # it allocates nothing
        assert variant == "in_place" or not any(call.has_run() for call in calls)
    for stream in (library.stream(), library.stream()):
        for call in calls:
            call.renew()
        library.replay(graph, stream)
        for call in calls:
            call.check()


KERNEL, COPY, FILL = 0, 1, 2  # CU_GRAPH_NODE_TYPE_KERNEL, MEMCPY, MEMSET


def kinds_of_nodes(graph):
    """The values of CUgraphNodeType of the nodes of a CuPy graph."""
    driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(graph.graph)
    count = ctypes.c_size_t()
    assert driver.cuGraphGetNodes(handle, None, ctypes.byref(count)) == 0
    nodes = (ctypes.c_void_p * count.value)()
    assert driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)) == 0
    kinds = []
    for node in nodes:
        kind = ctypes.c_int()
        assert driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) == 0
        kinds.append(kind.value)
    return kinds


FIRST_CALL = """
import sys, numpy as np, adokernels as ado
import cupy
routine, variant = sys.argv[1:]
routine = ado.routines[routine]
operands = [cupy.asarray(a) for a in routine.task.random_operands({lengths})]
outs = tuple(cupy.asarray(a) for a in {results})
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
    routine(*operands, out=outs if len(outs) > 1 else outs[0], variant=variant or None)
    graph = stream.end_capture()
graph.launch(stream)
stream.synchronize()
print(all(bool((out != 0).any()) for out in outs))
"""


@pytest.mark.parametrize(
    ("name", "variant"), [("transpose", ""), ("average_matvec", "average_then_gemm"), ("gpp", "")]
)
def test_the_first_call_of_a_process_is_captured(cupy, name, variant):
    """It finds the device, loads kernels and creates a handle of cuBLAS."""
    lengths = {"average_matvec": (5, 33, 20), "gpp": (8, 9, 10, 2)}.get(name, (70, 90))
    shapes = {"average_matvec": [(33, 5)], "gpp": [(2,), (2,)]}.get(name, [(90, 70)])
    dtype = {"gpp": "c16"}.get(name, ado.routines[name].task.operand_types(lengths)[0][1].str)
    results = f"[np.zeros(s, {dtype!r}) for s in {shapes}]"
    code = FIRST_CALL.replace("{lengths}", str(lengths)).replace("{results}", results)
    assert run_python(code, name, variant) == "True"


def strided(library, host):
    """A view of every other element, at an address that is not aligned to vectors."""
    whole = library.array(np.zeros((*host.shape[:-1], 2 * host.shape[-1] + 1), host.dtype))
    view = whole[..., 1::2]
    view[...] = library.array(host)
    return view


@pytest.mark.parametrize("name", ado.routines)
def test_strided_operands_and_results_are_packed(library, name):
    routine = ado.routines[name]
    call = calls_of(library, routine, None)[-1]
    call.operands = [strided(library, library.host(a)) for a in call.operands]
    call.outs = tuple(strided(library, library.host(a)) for a in call.outs)
    graph = library.captured(lambda: [call.call(), call.call()])
    if isinstance(library, Cupy):
        assert set(kinds_of_nodes(graph)) <= {KERNEL, COPY, FILL}
    for array, host in zip(call.operands, call.task.random_operands(call.lengths), strict=True):
        array[...] = library.array(host)
    call.host_operands = [library.host(a) for a in call.operands]
    ado.synchronize()
    library.replay(graph, library.stream())
    call.check()


# --- Memory of graphs -----------------------------------------------------------------------------


SCRATCH = {"edge_detect": (33, 1000), "gpp": (33, 5, 129, 3), "average_matvec": (40, 3, 64)}


@pytest.mark.parametrize("name", SCRATCH)
def test_replays_beside_calls_and_other_graphs(library, name):
    """No other work uses the scratch memory and the counters of a graph."""
    routine = ado.routines[name]
    calls = [Recorded(library, routine, SCRATCH[name]) for _ in range(3)]
    problem = routine.problem(*calls[0].operands)
    ours = (v.name for v in routine if v.device == "cuda" and not v.ceiling)
    variants = [name for name in ours if not problem.why_not(name)]
    graphs = [
        library.captured(lambda call=call: [call.call(variant=v) for v in variants])
        for call in calls[:2]
    ]
    streams = [library.stream() for _ in calls]
    for _ in range(5):
        for call in calls:
            call.renew()
        for _ in range(20):
            for graph, stream in zip(graphs, streams, strict=False):
                library.replay(graph, stream)
            with library.using(streams[2]):
                for variant in variants:
                    calls[2].call(variant=variant)
        for call in calls:
            call.check()


def test_counters_of_single_launch(library):
    """Plain calls use all counters in turn, so some use the number that a graph's launch had."""
    problem, other = (Recorded(library, ado.gpp, (33, 5, 129, 3)) for _ in range(2))
    graph = library.captured(lambda: [problem.call(variant="single_launch") for _ in range(20)])
    replays, calls = library.stream(), library.stream()
    problem.renew()
    with library.using(calls):
        for _ in range(900):
            library.replay(graph, replays)
            for _ in range(20):
                other.call(variant="single_launch")
    problem.check()
    other.check()


def test_memory_that_busy_streams_have_freed(library):
    """The scratch memory of a graph depends neither on the captured stream nor on another one."""
    problem, other = (Recorded(library, ado.edge_detect, (1000, 1000)) for _ in range(2))
    library.captured(lambda: other.call(variant="pipeline_naive"))  # the graph is deleted at once
    gc.collect()
    time.sleep(0.1)  # CUDA destroys the graph's memory in another thread
    captured = getattr(library, "capture_stream", None) or library.stream()
    for stream in (captured, library.stream()):
        with library.using(stream):
            library.sleep()
            other.call(variant="pipeline_naive")  # frees its scratch memory behind the kernel
    graph = library.captured(lambda: problem.call(variant="pipeline_naive"))
    problem.renew()
    library.replay(graph, library.stream())
    problem.check()


def test_arrays_can_be_freed_during_a_capture(cupy):
    """The arrays belong to the captured stream and to other streams."""
    call = Recorded(cupy, ado.transpose, (70, 90))
    results = []
    for stream in (cupy.capture_stream, cupy.stream(), cupy.library.cuda.Stream.null):
        with stream:
            results.append(ado.transpose(call.operands[0]))
    ado.synchronize()

    def work():
        results.clear()
        call.call()

    graph = cupy.captured(work)
    call.renew()
    cupy.replay(graph, cupy.stream())
    call.check()


# --- Streams --------------------------------------------------------------------------------------


def test_operands_that_earlier_calls_still_use(library):
    """CUDA forbids queries of their events during a capture."""
    slow, call = (Recorded(library, ado.transpose, (70, 90)) for _ in range(2))
    other = library.stream()
    with library.using(other):
        library.sleep()
    slow.call(stream=library.handle(other))
    graph = library.captured(call.call)
    call.renew()
    library.replay(graph, library.stream())
    call.check()
    slow.check()


def test_forked_streams():
    torch = Torch()
    call, later = (Recorded(torch, ado.transpose, (70, 90)) for _ in range(2))
    later.operands = list(call.outs)  # transposed back
    later.outs = (torch.array(np.zeros((70, 90), torch.host(call.outs[0]).dtype)),)
    branch = torch.stream()

    def work():
        branch.wait_stream(torch.library.cuda.current_stream())
        call.call(stream=branch)
        with torch.using(branch):
            later.call()
        torch.library.cuda.current_stream().wait_stream(branch)

    graph = torch.captured(work)
    call.renew()
    torch.replay(graph, torch.stream())
    call.check()
    np.testing.assert_array_equal(torch.host(later.outs[0]), call.host_operands[0])


# --- Refusals -------------------------------------------------------------------------------------


def test_refusals_leave_the_capture_valid(library):
    call = Recorded(library, ado.transpose, (70, 90))
    operand, (out,) = call.operands[0], call.outs
    host_out = np.zeros_like(A.T)
    other = library.stream()

    def work():
        with pytest.raises(ValueError, match="out must be passed as out= while a graph"):
            ado.transpose(operand)
        with pytest.raises(ValueError, match="operands must be in device memory while"):
            ado.transpose(A, out=host_out, device="cuda", stream=current(library))
        with pytest.raises(ValueError, match="stream must be captured, because a graph"):
            ado.transpose(operand, out=out, stream=library.handle(other))
        with pytest.raises(ValueError, match="out must have shape"):
            ado.transpose(operand, out=operand[:5])
        call.call()

    graph = library.captured(work)
    call.renew()
    library.replay(graph, library.stream())
    call.check()
    ado.transpose(operand)  # allowed again


def current(library):
    if isinstance(library, Torch):
        return library.library.cuda.current_stream().cuda_stream
    return library.capture_stream.ptr


def test_values_are_not_checked(library):
    """A replay reads values that do not exist during the capture."""
    call = Recorded(library, ado.gpp, (8, 12, 16, 2))
    occ = [p.name for p in ado.gpp.parameters if p.role == "input"].index("occ")
    library.write(call.operands[occ], np.full(8, 2.0))
    ado.synchronize()
    with pytest.raises(ValueError, match="must be from 0 to 1"):
        call.call()
    graph = library.captured(call.call)
    call.renew()
    library.replay(graph, library.stream())
    call.check()

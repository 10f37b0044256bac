"""Temporary: the interface of the coming core on top of the present one."""
# ruff: noqa
# mypy: ignore-errors
import difflib
from types import SimpleNamespace

import numpy as np

from adokernels import _core
from adokernels._core import *  # noqa
from adokernels._core import routines as _routines, sample as _sample


def suggest(name, known):
    close = difflib.get_close_matches(str(name), known, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"; there is {', '.join(known)}.{hint}"


def _kernels(infos):
    names = ["name", "grid", "block", "registers", "local_bytes", "static_shared_bytes"]
    names += ["dynamic_shared_bytes", "blocks_by_warps", "blocks_by_registers", "blocks_by_shared"]
    names += ["blocks_by_slots"]
    return [
        SimpleNamespace(
            **{n: getattr(k, n) for n in names}, resident_warps=k.warps, max_warps=k.most_warps
        )
        for k in infos
    ]


class Call:
    def __init__(self, raw, device):
        self.raw, self.device = raw, device
        self.variant, self.cost, self.grid = raw.variant, raw.cost, raw.grid
        self.block, self.shared_bytes, self.run = raw.block, raw.shared_bytes, raw.run

    def kernels(self):
        return _kernels(self.raw.kernels())


class Problem:
    def __init__(self, routine, arguments, options, device, variant):
        inputs = [p.name for p in routine.parameters if p.role == "input"]
        rest = dict(options)
        named = [rest.pop(name) for name in inputs[len(arguments) :] if name in rest]
        if len(arguments) + len(named) >= len(inputs):
            arguments, options = (*arguments, *named), rest
        on_device = any(isinstance(a, _core.DeviceArray) for a in arguments)
        where = {
            p
            for p in (
                "cuda" if on_device else None,
                routine.device_of(variant) if variant else None,
                device,
            )
            if p is not None
        }
        if len(where) > 1:
            raise ValueError(
                "operands, variant and device= disagree: " + " and ".join(sorted(where))
            )
        self.device = where.pop() if where else _core.device()
        self.raw = routine.raw.problem(tuple(arguments), options, self.device)
        self.arguments, self.options = tuple(arguments), dict(options)
        arrays = [a if hasattr(a, "dtype") else np.asarray(a) for a in self.arguments]
        self.operands = [
            (n, tuple(a.shape), str(a.dtype)) for n, a in zip(inputs, arrays, strict=True)
        ]
        self.best, self.results, self.fill_results = (
            self.raw.best,
            self.raw.results,
            self.raw.fill_results,
        )
        self.why_not = self.raw.why_refused

    def prepare(self, variant, block=None):
        return Call(self.raw.prepare(variant, block), self.device)


class Routine:
    def __init__(self, raw):
        self.raw, self.name, self.summary, self.source = raw, raw.name, raw.summary, raw.source
        self.parameters = raw.parameters
        self.why_unavailable, self.call, self.cost = raw.why_unavailable, raw.call, raw.cost
        words = [w for p in raw.parameters if p.role == "input" for w in self.words(p)]
        self.batched = "..." in words
        self.dimensions = list(dict.fromkeys(w for w in words if w.isidentifier()))

    @property
    def variants(self):
        return self.raw.variants

    @staticmethod
    def words(p):
        return [w for w in p.shape.strip("(,)").split(", ")]

    def device_of(self, variant):
        for v in self.variants:
            if v.name == variant:
                return v.device
        raise KeyError(
            f"{self.name} has no variant {variant!r}{suggest(variant, [v.name for v in self.variants])}"
        )

    def kernels(self, variant, arguments, options, block):
        return _kernels(self.raw.kernels(variant, arguments, options, block))

    def problem(self, arguments, options, device=None, variant=None):
        return Problem(self, arguments, options, device, variant)

    def operand_types(self, lengths, batch, dtype):
        if min([*lengths.values(), *batch], default=0) < 0:
            raise ValueError(
                f"{self.name}: lengths must not be negative, got {min([*lengths.values(), *batch])}"
            )
        out = []
        for p in self.parameters:
            if p.role != "input":
                continue
            shape = ()
            for w in self.words(p):
                shape += (
                    tuple(batch)
                    if w == "..."
                    else (lengths[w] if w in lengths else int(w.split("|")[-1]),)
                )
            if not p.any_elements and dtype is not None and np.dtype(dtype) != np.dtype(p.elements):
                raise TypeError(f"{p.name} must be {p.elements}, got {np.dtype(dtype)}")
            out.append((p.name, shape, dtype if p.any_elements else p.elements))
        return out


_ALL = [Routine(r) for r in _routines()]


def routines():
    return _ALL


def sample(what, *args):
    return _sample(getattr(what, "raw", what), *args)

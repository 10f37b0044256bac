"""Shared code of the comparisons with other libraries: their functions, compilation, and shapes."""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

Peers = dict[str, Callable[[], Any]]


def correct(
    makers: Mapping[str, Callable[..., Peers]],
    args: Sequence[Any],
    error_of: Callable[[Any], float],
    tolerance: float,
) -> tuple[Peers, dict[str, str], dict[str, str]]:
    """Return the correct peers, the reasons why others are left out, and the wrong peers.

    Each of the `makers`, by library, makes the peers that work on `args`.
    """
    kept: Peers = {}
    left_out: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for library, make in makers.items():
        if not importlib.util.find_spec(library.partition(".")[0]):  # torch.compile needs torch
            left_out[library] = "not installed"
            continue
        try:
            made = make(*args)
        except Exception as error:  # any error of another library
            left_out[library] = first_line(error)
            continue
        for name, run in made.items():
            try:
                found = error_of(run())
            except Exception as error:
                left_out[name] = first_line(error)
                continue
            if found <= tolerance:
                kept[name] = run
            else:
                wrong[name] = f"error {found:.3g} exceeds the tolerance of {tolerance:.3g}"
    return kept, left_out, wrong


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


def parser(description: str | None, names: Collection[str]) -> argparse.ArgumentParser:
    """Return the shared options: the routines, which must be among `names`, and the device."""

    def routine(name: str) -> str:
        if name not in names:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}, got {name}")
        return name

    formatter = argparse.RawTextHelpFormatter
    options = argparse.ArgumentParser(description=description, formatter_class=formatter)
    routines = {"metavar": "ROUTINE", "default": list(names), "help": "default: all"}
    options.add_argument("routines", nargs="*", type=routine, **routines)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    return options


def shape(text: str) -> tuple[int, ...]:
    return tuple(int(length) for length in text.lower().split("x"))


class Compiler:
    """Compiles torch formulas at their first call."""

    def __init__(self) -> None:
        #: Whether a formula is compiled once for all shapes, except for lengths of 1, instead of
        #: once per shape. Set it before the first formula is compiled.
        self.dynamic = False
        self.budget, self.spent = float("inf"), 0.0  # remaining and used seconds for compilation
        self._formulas: dict[Callable[..., Any], Callable[..., Any]] = {}

    def call(self, formula: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        """Return a call of the compiled formula, after the first one, if the budget allows it."""
        if self.budget <= 0:
            raise TimeoutError("the time for compilation is used up")
        start = time.perf_counter()
        function = self._compiled(formula)
        function(*args)
        spent = time.perf_counter() - start
        self.budget -= spent
        self.spent += spent
        return lambda: function(*args)

    def _compiled(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # more take seconds to start
        import torch

        if formula not in self._formulas:
            # Beyond these limits, torch falls back to eager mode.
            for limit in ("recompile_limit", "cache_size_limit", "accumulated_cache_size_limit"):
                if hasattr(torch._dynamo.config, limit):
                    setattr(torch._dynamo.config, limit, 1024)
            self._formulas[formula] = torch.compile(formula, dynamic=self.dynamic)
        return self._formulas[formula]


COMPILER = Compiler()

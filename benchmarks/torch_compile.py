"""Peers that use torch.compile, with a limit on the compilation time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from beside_peers import Peers


class Compiler:
    """Compiles torch formulas at their first call.

    Attributes
    ----------
    dynamic
        Whether a formula is compiled once for all shapes, except for lengths of 1. If false, it is
        compiled once per shape. Set it before the first formula is compiled.
    budget
        Remaining seconds for compilation. Compiled peers are unavailable when it is used up.
    spent
        Seconds spent on compilation.
    """

    def __init__(self) -> None:
        self.dynamic, self.budget, self.spent = False, float("inf"), 0.0
        self._formulas: dict[Callable[..., Any], Callable[..., Any]] = {}

    def peers(self, formula: Callable[..., Any], *args: Any) -> Peers:
        """Return the compiled formula, after its first call.

        Raises
        ------
        TimeoutError
            If the budget is used up.
        """
        if self.budget <= 0:
            raise TimeoutError("the time for compilation is used up")
        start = time.perf_counter()
        function = self._compiled(formula)
        function(*args)
        spent = time.perf_counter() - start
        self.budget -= spent
        self.spent += spent
        return {"torch.compile": lambda: function(*args)}

    def _compiled(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # more need seconds to start
        import torch

        if formula not in self._formulas:
            # Beyond these limits, torch falls back to eager mode.
            for limit in ("recompile_limit", "cache_size_limit", "accumulated_cache_size_limit"):
                if hasattr(torch._dynamo.config, limit):
                    setattr(torch._dynamo.config, limit, 1024)
            self._formulas[formula] = torch.compile(formula, dynamic=self.dynamic)
        return self._formulas[formula]


COMPILER = Compiler()

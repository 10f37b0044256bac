"""The pytest fixture ``ado_compare``, and the option ``--ado-emulated``.

pytest imports this package whenever it starts, so it must not import adokernels before a test does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from adokernels.records import SweepComparison


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run kernels without a GPU."""
    group = parser.getgroup("adokernels")
    text = "run the kernels of Triton and Numba on the emulator, as in adokernels.emulated()"
    group.addoption("--ado-emulated", action="store_true", help=text)
    text = "the compute capability, times ten, for which --ado-emulated compiles; default: 80"
    group.addoption("--ado-compute", type=int, metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Run the kernels of all tests on the emulator, if the option is given."""
    if not config.option.ado_emulated:
        return
    import adokernels as ado

    stack = ExitStack()
    try:
        stack.enter_context(ado.emulated(config.option.ado_compute))
    except (ValueError, ado.Unavailable) as error:
        raise pytest.UsageError(f"--ado-emulated: {error}") from error
    config.add_cleanup(stack.close)


@pytest.fixture
def ado_compare() -> Callable[..., SweepComparison]:
    """``adokernels.compare`` as a test of speed.

    ``ado_compare(before, after, *operands)`` fails if `after` takes more than 5 % longer than
    `before`, or if the results differ. If the comparison is inconclusive, for example on a busy
    machine, the test is skipped with the reason. ``fail_if_slower="10%"`` sets another limit, and
    ``None`` sets no limit. For other parameters and the result, see :func:`adokernels.compare`.
    """

    def compare(
        before: Any, after: Any = None, *args: Any, fail_if_slower: str | None = "5%", **how: Any
    ) -> SweepComparison:
        import adokernels as ado
        from adokernels.measuring.functions import ResultsDiffer
        from adokernels.text import share_of

        if close := get_close_matches("fail_if_slower", how):
            raise TypeError(f"ado_compare has no option {close[0]!r}: did you mean fail_if_slower?")
        try:
            limit = None if fail_if_slower is None else share_of(fail_if_slower)
        except ValueError as error:
            raise ValueError(f"fail_if_slower {error}") from None
        try:
            found: SweepComparison = ado.compare(before, after, *args, **{"progress": False, **how})
        except ResultsDiffer as error:
            pytest.fail(str(error), pytrace=False)
        if limit is not None:
            if slower := found.slower(limit):
                pytest.fail("\n".join(repr(change.comparison) for change in slower), pytrace=False)
            if unknown := found.inconclusive(limit):
                reasons = (f"{change.variant}: {change.doubt}" for change in unknown)
                pytest.skip(f"inconclusive: {'; '.join(reasons)}")
        return found

    return compare

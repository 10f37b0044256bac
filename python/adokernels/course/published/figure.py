"""The record of a published figure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from adokernels.records.metrics import BY_KEY
from adokernels.text import DIGITS, number, quantity, ratio

#: Units that get a decimal prefix in text.
_SI = ("s", "B", "B/s", "Hz", "FLOP/s")
#: The unit of factors, such as speed-ups.
TIMES = "times"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A figure of a document, for the device of that document.

    Attributes
    ----------
    document
        The document, as it is named in tables.
    item
        The item of docs/documents.md to which the figure belongs, for example ``"A12"``.
    quantity
        The quantity: ``"seconds"``, ``"speedup"`` or ``"registers"``; a quantity of profiles
        (``"compute_sol"``) or a metric of Nsight Compute, for which notebooks show ours beside it;
        or any other name, which tables show unchanged.
    value
        A number in SI units, or text. A share is a fraction.
    unit
        ``"s"``, ``"B"``, ``"%"`` (the value is a fraction), ``"times"`` (a factor), or any other
        unit; empty if none.
    device
        The device of the document.
    variant
        The variant of this package that corresponds to the measured one; empty if there is none.
    source
        The place in the document: title, page or section, and address.
    title
        The name in tables. Default: that of the quantity.
    """

    document: str
    item: str
    quantity: str
    value: float | str
    unit: str
    device: str
    variant: str
    source: str
    title: str = ""

    @property
    def text(self) -> str:
        """The value with its unit, with as many digits as were published."""
        if isinstance(self.value, str):
            return self.value
        digits = len(Decimal(repr(self.value)).normalize().as_tuple().digits)
        return written(self.value, self.unit, digits)

    @property
    def shown_as(self) -> str:
        """The name in tables."""
        known = BY_KEY.get(self.quantity)
        return self.title or (known.title if known else self.quantity.replace("_", " "))


def written(value: float, unit: str, digits: int = DIGITS) -> str:
    """Write a value with its unit: a share in percent, an integer with all of its digits."""
    if unit == "%":
        return f"{number(100 * value, digits)} %"
    if unit == TIMES:
        return ratio(value)
    if unit in _SI:
        return quantity(value, unit, digits)
    amount = f"{value:,.0f}" if value == int(value) else number(value, digits)
    return f"{amount} {unit}".rstrip()

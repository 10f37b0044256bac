"""Figures that the five documents publish. Each is stated once, in a TOML file of this folder.

The keys at the top of a file are defaults of its groups, and the keys of a group are defaults of
its figures. ``{place}`` and other keys in braces in a source are replaced by their values.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from decimal import Decimal
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adokernels.records.metrics import BY_KEY
from adokernels.text import DIGITS, number, quantity, ratio

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Units that get a decimal prefix in text.
_SI = ("s", "B", "B/s", "Hz", "FLOP/s")
#: The unit of factors, such as speed-ups.
TIMES = "times"
#: Units of quantities of profiles without one, by section.
UNITS = {"warp states": "cycles"}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A figure of a document, for the device of that document.

    Attributes
    ----------
    document
        The name of the document in tables.
    item
        The item of docs/documents.md to which the figure belongs, for example ``"A12"``.
    quantity
        The quantity: ``"seconds"``, ``"speedup"`` or ``"registers"``; a quantity of profiles
        (``"compute_sol"``) or a metric of Nsight Compute, for which notebooks also show our value;
        or any other name, which tables show unchanged.
    value
        A number in SI units, or text. A share is a fraction.
    device
        The device of the document.
    source
        The place in the document: title, page or section, and address.
    unit
        ``"s"``, ``"B"``, ``"%"`` (the value is a fraction), ``"times"`` (a factor), or any other
        unit; empty if none.
    variant
        The variant of this package that corresponds to the measured one, or the access pattern as
        ``ado.sectors`` names it; empty if there is none.
    title
        The name in tables. Default: the name of the quantity.
    """

    document: str
    item: str
    quantity: str
    value: float | str
    device: str
    source: str
    unit: str = ""
    variant: str = ""
    title: str = ""

    @property
    def text(self) -> str:
        """The value with its unit, with the published number of digits."""
        if isinstance(self.value, str):
            return self.value
        digits = len(Decimal(repr(self.value)).normalize().as_tuple().digits)
        return written(self.value, self.unit, digits)

    @property
    def shown_as(self) -> str:
        """The name in tables."""
        known = BY_KEY.get(self.quantity)
        return self.title or (known.title if known else self.quantity.replace("_", " "))


def read(name: str) -> SimpleNamespace:
    """Read a file of published figures: its groups and its other keys, as constants.

    ``TIMES`` has the figures of the group "times", for example, and ``FIGURES`` all figures.
    """
    data = read_toml(Path(__file__).with_name(f"{name}.toml"))
    groups = data.pop("groups")
    common = {key: value for key, value in data.items() if isinstance(value, str)}
    found = {g["name"]: tuple(_figure({**common, **g, **f}) for f in g["figures"]) for g in groups}
    constants = {**data, **found, "figures": tuple(chain(*found.values()))}
    return SimpleNamespace(**{name.upper(): value for name, value in constants.items()})


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    with path.open("rb") as file:
        return tomllib.load(file)


def _figure(given: dict[str, Any]) -> Published:
    known = {field.name: given[field.name] for field in fields(Published) if field.name in given}
    return Published(**{**known, "source": given["source"].format(**given)})


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

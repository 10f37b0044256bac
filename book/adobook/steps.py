"""Sentences about the steps of a ladder: the change of a variant, its gain, and predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from adobook.published import Published, written
from adobook.text import Text
from adokernels.model.registry import routines
from adokernels.records.measurement import Measurement
from adokernels.records.statistics import Verdict
from adokernels.records.sweep import Sweep
from adokernels.text import number, percent, quantity, ratio

#: Sources of a value: its heading if it is shown alone, and its label after a guess.
_SOURCES = {"measured": ("The measured value", "Measured"), "model": ("The model's value", "Model")}


def between(faster: Measurement, slower: Measurement) -> str:
    """The ratio of the times, its interval, and the verdict, as part of a sentence."""
    found = faster.compare(slower)
    verdict, factor, (low, high) = found
    digits = 4 if verdict is Verdict.SAME else 3
    limits = f"{low:.{digits}g} to {high:.{digits}g}"
    interval = f"99.9 % interval {limits}"
    if found.confidence is None:
        interval = f"only {found.samples} samples, range {limits}"
    return f"{ratio(factor)} ({interval}), **{verdict}**"


def step(
    sweep: Sweep,
    name: str,
    *,
    published: Iterable[Published] = (),
    before: str | None = None,
    more: str = "",
) -> Text:
    """Describe the change of a variant, its time, its share of the nearest limit, and its gain.

    The gain is relative to `before`, by default the measured variant before it. If figures of
    documents are given, their time or speed-up of the same step is added. `more` is appended.
    """
    if name not in [m.variant for m in sweep]:
        why = sweep.skipped.get(name, "it was not measured")
        ladder = routines.get(sweep.routine)
        changes = ladder[name].changes if ladder else ""
        return Text(f"**{name}** — {changes} It was not measured here: {why}.")
    m = sweep[name]
    baseline = sweep[before] if before else sweep.step_pairs().get(m)
    parts = [
        f"**{name}** — {m.changes} It takes **{quantity(m.seconds, 's')}**{_of_roof(sweep, m)}."
    ]
    if baseline:
        parts.append(f"Compared with {baseline.variant}: {between(m, baseline)}.")
        if skipped := _unmeasured(sweep, baseline.variant, name):
            parts.append(f"Steps between them that were not measured: {', '.join(skipped)}.")
    parts += _published_step(list(published), m, baseline)
    parts += [_traffic(m), more]
    return Text(" ".join(part for part in parts if part))


def _of_roof(sweep: Sweep, m: Measurement) -> str:
    nearest = sweep.nearest_limit(m)
    threads = f", in blocks of {' x '.join(map(str, m.block))} threads" if m.block else ""
    if nearest is None or not nearest.applies:
        return threads
    return f"{threads}, {percent(nearest.share)} of the {nearest.name}"


def _unmeasured(sweep: Sweep, before: str, name: str) -> list[str]:
    """The steps of the ladder between two variants that the sweep does not contain."""
    ladder = routines.get(sweep.routine)
    if ladder is None:
        return []
    devices = {v.name: v.device for v in ladder}  # stored variants can be gone
    names = [v.name for v in ladder if v.device == devices.get(name) and not v.ceiling]
    if before not in names:
        return []
    measured = {m.variant for m in sweep}
    between = [n for n in names[names.index(before) + 1 : names.index(name)] if n not in measured]
    reasons = {n: f" ({sweep.skipped[n]})" for n in between if sweep.skipped.get(n)}
    return [n + reasons.get(n, "") for n in between]


def _published_step(
    published: list[Published], m: Measurement, baseline: Measurement | None
) -> list[str]:
    """One sentence per document and device that published the time or the speed-up of the step."""
    sentences = []
    of_baseline = [p for p in published if baseline and p.variant == baseline.variant]
    for p in published:
        if p.variant != m.variant or not isinstance(p.value, float | int):
            continue
        same = (p.document, p.device, p.quantity)
        earlier = [o for o in of_baseline if (o.document, o.device, o.quantity) == same][:1]
        before = float(earlier[0].value) if earlier else None
        device = f"{'an' if p.device[:1] in 'AEIO' else 'a'} {p.device}"
        if p.quantity == "seconds" and before:
            words = f"from {earlier[0].text} to {p.text} on {device}, {ratio(before / p.value)}"
        elif p.quantity == "seconds":
            words = f"{p.text} on {device}"
        elif p.quantity == "speedup":
            since = baseline.variant if before and baseline else "the document's baseline"
            words = f"{ratio(p.value / (before or 1))} compared with {since} on {device}"
        else:
            continue
        sentences.append(f"{p.document}: {words}.")
    return sentences


def _traffic(m: Measurement) -> str:
    """Requested bytes, and bytes moved by each level, relative to the compulsory bytes."""
    if not m.bytes:
        return ""
    moved = {"requested": m.requested_bytes, **m.counted_bytes}
    moved.pop("shared", None)
    shares = ", ".join(f"{level} {number(value / m.bytes)}" for level, value in moved.items())
    return f"Bytes relative to the compulsory bytes: {shares}."


def predicted(
    guess: float | None,
    value: float,
    unit: str = "",
    *,
    source: Literal["measured", "model"] = "measured",
) -> Text:
    """Compare a reader's guess with a value, which is hidden while the guess is None.

    Both are in `unit`, which is not converted: for example ``"ms"``, ``"times"`` or ``"%"``. The
    source of the value is a measurement or a model, for example `adokernels.sectors`.
    """
    heading, origin = _SOURCES[source]
    answer = _with_unit(value, unit)
    if guess is None:
        return Text(
            "Replace `None` by your guess, then run this cell.\n\n"
            f"<details><summary>{heading}</summary>{answer}</details>"
        )
    text = f"Your guess: {_with_unit(guess, unit)}. {origin}: **{answer}**."
    if guess == value:
        return Text(f"{text} Exact.")
    if guess <= 0 or value <= 0:
        return Text(text)
    factor, size = max(guess / value, value / guess), "large" if guess > value else "small"
    return Text(f"{text} Your guess is {factor:.3g} times too {size}.")


def _with_unit(value: float, unit: str) -> str:
    return f"{written(value, '')} {unit}".rstrip()

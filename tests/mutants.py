"""Stored records of each kind, and copies in which one value is wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import adokernels as ado
from adokernels.records.loading import record_of
from adokernels.storage import read_file

ROOT = Path(__file__).parent.parent
#: A name that charts, tables, HTML and terminals could each misread.
HOSTILE = "_$x_{$ [bold]<b>&\"'|`*\x1b[31m\x00\u202e\ud800\n" + "y" * 300
DELETED = object()
#: Values that replace the value of a field.
WRONG = {
    "deleted": DELETED,
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -1.5,
    "fraction": 0.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "largest": 1e308,
    "large": 1e29,
    "denormal": 1e-320,
    "long integer": 10**400,
    "empty text": "",
    "text": "a",
    "number as text": "3",
    "hostile name": HOSTILE,
    "empty list": [],
    "nested list": [[[1]]],
    "empty object": {},
    "foreign object": {"$a": {"b": [1, None]}},
    "number object": {"number": "nan"},
}


def read(path):
    return json.loads(read_file(ROOT / path))


def measurements_of(sweep, *, keep):
    """The first measurements, with few samples and few counters."""
    for m in sweep["measurements"][:keep]:
        m["samples"], m["clocks"] = m["samples"][:15], m["clocks"][:15]
        yield m


def sweep_document():
    """A sweep with counters, a pipeline, its stages and a peer."""
    sweep = read("notebooks/data/transpose-float32-8192.json.xz")
    sweep["measurements"] = list(measurements_of(sweep, keep=4))
    last = sweep["measurements"][-1]
    sweep["peers"] = [last | {"variant": "peer", "kernels": [], "profile": None}]
    sweep["stages"] = [last | {"profile": None}]
    last["stages"] = [[last["routine"], last["variant"]]]
    last["flags"] = ["throttled"]
    last["problem"]["options"] = {"border": "replicate", "taps": [1, 2.5]}
    sweep["skipped"] = {"as_copy": "reason"}
    return copy.deepcopy(sweep)


def lines_document(name):
    """Samples or counts of lines, one of them unknown, from a stored record."""
    record = read(f"notebooks/data/{name}.json.xz")
    entry, *_ = record["entries"]
    entries = [entry, entry | {"path": "", "line": 0}]
    return record | {"block": [32, 8], "entries": entries, "excerpts": record["excerpts"][:1]}


def counts_document(sweep, profile):
    """A sweep on the emulator."""
    variant = {"variant": "naive", "ceiling": False, "flops": 0.0, "bytes": 8.0, "profile": profile}
    return {
        **{"schema": 2, "kind": "counts", "routine": "transpose"},
        **{"problem": sweep["measurements"][-1]["problem"], "variants": [variant]},
        **{"skipped": {"as_copy": "reason"}, "context": {"time": "now"}},
    }


def contained(sweep, **fields):
    """The contents of a sweep with one measurement, for documents that contain a sweep.

    Only the document of the sweep tests its peers, its stages and several measurements.
    """
    m = sweep["measurements"][-1] | {"stages": []} | fields
    small = sweep | {"measurements": [m], "peers": [], "stages": []}
    return {name: small[name] for name in small if name not in ("schema", "kind", "records")}


def comparison_document(sweep):
    small = {"schema": 2, "kind": "sweep", **contained(sweep)}
    record = record_of(json.dumps(small).encode(), "sweep.json")
    return {"schema": 2, "kind": "comparison", **ado.compare(record, record).to_dict()}


def tuning_document():
    """Two settings of a variant: one was measured, and one fails."""
    name = "32 x 8, TILE=32"
    sweep = contained(sweep_document(), variant=name)
    return {
        **{"schema": 2, "kind": "tuning", "routine": sweep["routine"], "variant": "tiled"},
        "settings": {
            name: {"block": [32, 8], "parameters": {"TILE": 32}},
            "32 x 16": {"block": [32, 16]},
        },
        "sweep": sweep,
    }


def what_if_document():
    trial = {"experiment": "no stores", "meaning": "m", "rewritten": 1, "accesses": 2}
    proved = {"count": "requests", "before": 8.0, "after": 0.5, "place": "a.cu:3", "code": ["x"]}
    return {
        **{"schema": 2, "kind": "what_if", "routine": "transpose", "variant": "naive"},
        **{"problem": "p", "block": [32, 8, 1], "source": "emulator", "kernels": ["k"]},
        "trials": [trial | proved, trial | {"reason": "no stores"}],
    }


def documents():
    """A valid document of each kind, by name."""
    sweep = sweep_document()
    profile = read("tests/data/profiles.json")[-1]
    return {
        "sweep": sweep,
        "measurement": {"schema": 2, "kind": "measurement", **sweep["measurements"][-1]},
        "machine": {"schema": 2, "kind": "machine", **sweep["machine"]},
        "profile": {"schema": 2, "kind": "profile", **profile},
        "hotspots": lines_document("course/transpose-hotspots-naive"),
        "heatmap": lines_document("emulated/luma-naive"),
        "counts": counts_document(sweep, profile),
        "check": {
            **{"schema": 2, "kind": "check", "routine": sweep["routine"], "correct": True},
            **{"variant": sweep["measurements"][-1]["variant"], "reason": ""},
            "sweep": contained(sweep),
        },
        "scan": {
            **{"schema": 2, "kind": "scan", "routine": sweep["routine"]},
            "sweeps": [contained(sweep)],
        },
        "tuning": tuning_document(),
        "what_if": what_if_document(),
        "comparison": comparison_document(sweep),
        "sass": read("notebooks/data/course/transpose-int64-8192-naive-sass.json.xz"),
    }


def places(value, path=(), shape=()):
    """The path of each value in a document, and its shape: the path with 0 for list indices."""
    yield path, shape
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value)
    for name, item in items:
        yield from places(item, (*path, name), (*shape, name if isinstance(name, str) else 0))


def one_of_each_shape(document, random):
    """One path per shape, so that lists do not dominate, and only a few counters."""
    found = {}
    for path, shape in places(document):
        if path:
            found.setdefault(shape, []).append(path)
    counters = [shape for shape in found if "values" in shape[:-1]]
    dropped = {counters[i] for i in random.permutation(len(counters))[6:]}
    return [p[random.integers(len(p))] for shape, p in found.items() if shape not in dropped]


def changed(document, path, value):
    """Copy a document, with another value at a path."""
    result = copy.deepcopy(document)
    parent = result
    for name in path[:-1]:
        parent = parent[name]
    if value is DELETED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return result


def mutants(document, random, count):
    """Description and document of some mutants: an unknown field, and random wrong values."""
    yield "unknown $field: true", changed(document, ("unknown $field",), True)
    paths = one_of_each_shape(document, random)
    pairs = [(path, name) for path in paths for name in WRONG]
    pairs += [((*path, "unknown $field"), "true") for path in paths if is_object(document, path)]
    for place in random.permutation(len(pairs))[:count]:
        path, name = pairs[place]
        yield f"{'.'.join(map(str, path))}: {name}", changed(document, path, WRONG[name])


def is_object(document, path):
    for name in path:
        document = document[name]
    return isinstance(document, dict)


def is_limited(name, value):
    """Whether only certain texts are valid: categories of a score."""
    return name == "changes" and isinstance(value, list)


def renamed(value):
    """Copy a document, and replace every name with the hostile name."""
    fixed = ("kind", "cache", "device", "level", "operation", "proposed", "alternatives")
    fixed += ("operands", "code", "flush", "steps")
    if isinstance(value, dict):
        changed = {
            name: item if name in fixed or is_limited(name, item) else renamed(item)
            for name, item in value.items()
        }
        if "settings" in changed:  # measurements refer to their names
            settings = changed["settings"].items()
            changed["settings"] = {f"{name}{HOSTILE}": item for name, item in settings}
        return changed
    if isinstance(value, list):
        return [renamed(item) for item in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value

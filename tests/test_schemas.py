"""The JSON schema of stored records, checked by an independent validator."""

import functools
import json
from importlib import resources
from pathlib import Path

import pytest
from mutants import documents, mutants

import adokernels as ado
from adokernels.records.loading import KINDS
from adokernels.records.record import SCHEMA
from adokernels.storage import read_file

ROOT = Path(__file__).parent.parent
DOCUMENTS = {name: document for name, document in documents().items() if document["kind"] in KINDS}
#: Rules that a schema cannot state, because they relate several fields.
RELATIONS = (
    "same machine",
    "ceilings must contain",
    "must be in the sweep",
    "measurements of settings",
    "comparable with before",
)


@functools.cache
def validator():
    """The import takes seconds, so processes that run other tests do without it."""
    from jsonschema import Draft202012Validator

    file = resources.files("adokernels.records").joinpath(f"schema-{SCHEMA}.json")
    return Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


def stored_records():
    folders = ("notebooks", "benchmarks", "docs", "tests")
    for path in (path for name in folders for path in sorted((ROOT / name).rglob("*.json*"))):
        if path.suffix == ".jsonl":
            continue
        document = json.loads(read_file(path))
        if isinstance(document, dict) and document.get("kind") in KINDS:
            yield document


def test_the_schema_is_valid():
    validator().check_schema(validator().schema)


def test_every_stored_record_validates():
    kinds = set()
    for document in stored_records():
        validator().validate(document)
        kinds.add(document["kind"])
    assert kinds >= {"sweep", "hotspots", "sass", "check"}


def rejection(path):
    """The message of :func:`adokernels.load`; empty if it accepts the file."""
    try:
        ado.load(path)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_reject_what_load_rejects(name, rng, tmp_path):
    """An independent validator and the loader agree on documents with one wrong value."""
    document, path, rejected = DOCUMENTS[name], tmp_path / "x.json", 0
    assert validator().is_valid(document)
    for changed, mutant in mutants(document, rng, 150):
        if "NaN" in changed or "infinity" in changed:
            continue  # not JSON
        path.write_text(json.dumps(mutant), encoding="utf-8")
        message = rejection(path)
        if not any(words in message for words in RELATIONS):
            assert validator().is_valid(mutant) == (not message), f"{changed}: {message}"
            rejected += bool(message)
    assert rejected  # the first mutant is

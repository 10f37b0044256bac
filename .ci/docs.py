"""Builds the documentation site in build/docs/html. Warnings are errors; no network is used.

The sources are copied and generated into build/docs/source: the documents and notebooks of the
repository, and one page per ladder.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from docsite import checks, ladders, sources
from sphinx.cmd.build import main as sphinx

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "docs"


def main() -> int:
    """Build the site from scratch; return the exit status."""
    shutil.rmtree(BUILD, ignore_errors=True)
    source, pages = BUILD / "source", BUILD / "html"
    sources.copy_documents(ROOT, source)
    ladders.write_pages(ROOT, source / "ladders")
    strict = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"]
    folders = ["--conf-dir", str(ROOT / "docs"), "--doctree-dir", str(BUILD / "doctrees")]
    status = sphinx([*strict, *folders, str(source), str(pages)])
    errors = checks.errors_in(pages)
    if errors:
        print("\n".join(errors), file=sys.stderr)
    elif not status:
        print(pages / "index.html")
    return status or int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())

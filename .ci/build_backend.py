"""The build backend of pyproject.toml: scikit-build-core, and nvcc from PyPI if there is none."""

from __future__ import annotations

from typing import Any

from requirements import nvcc
from scikit_build_core import build
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    """Requirements of a wheel, in addition to those in pyproject.toml."""
    return [*build.get_requires_for_build_wheel(settings), *nvcc()]


def get_requires_for_build_editable(settings: dict[str, Any] | None = None) -> list[str]:
    """Requirements of an editable installation, in addition to those in pyproject.toml."""
    return [*build.get_requires_for_build_editable(settings), *nvcc()]

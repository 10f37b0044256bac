"""Conversion of nvcc and NVRTC options to settings of ``cuda.core.ProgramOptions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Options without a value.
_FLAGS = {
    "use_fast_math": "use_fast_math",
    "extra-device-vectorization": "extra_device_vectorization",
    "default-device": "device_as_default_execution_space",
    "device-as-default-execution-space": "device_as_default_execution_space",
    "device-int128": "device_int128",
    "restrict": "restrict",
    "w": "disable_warnings",
    "disable-warnings": "disable_warnings",
    "G": "debug",
    "device-debug": "debug",
}


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _macro(text: str) -> str | tuple[str, str]:
    name, equals, content = text.partition("=")
    return (name, content) if equals else name


#: Options with one value, ``-name=value`` or ``-name value``, and the type of the value.
_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "std": ("std", str),
    "maxrregcount": ("max_register_count", int),
    "ftz": ("ftz", _boolean),
    "prec-sqrt": ("prec_sqrt", _boolean),
    "prec-div": ("prec_div", _boolean),
    "fmad": ("fma", _boolean),
}
#: Options that can be repeated. Options of one letter need no separator: ``-DTILE=32``.
_LISTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "D": ("define_macro", _macro),
    "define-macro": ("define_macro", _macro),
    "U": ("undefine_macro", str),
    "undefine-macro": ("undefine_macro", str),
    "I": ("include_path", str),
    "include-path": ("include_path", str),
    "Xptxas": ("ptxas_options", str),
    "ptxas-options": ("ptxas_options", str),
    "diag-suppress": ("diag_suppress", int),
}


def program_options(options: Sequence[str]) -> dict[str, Any]:
    """Return the keyword arguments of ``ProgramOptions`` for options in the syntax of nvcc.

    Raises
    ------
    ValueError
        If an option is not supported, or has a wrong value.
    """
    settings: dict[str, Any] = {}
    remaining = list(options)
    while remaining:
        option = remaining.pop(0)
        name, has_value, value = _split(option)
        if name in _FLAGS and not has_value:
            settings[_FLAGS[name]] = True
            continue
        if name not in _VALUES and name not in _LISTS:
            known = ", ".join(f"-{known}" for known in (*_FLAGS, *_VALUES, *_LISTS))
            raise ValueError(f"options must be among {known}, got {option!r}")
        if not has_value:
            if not remaining:
                raise ValueError(f"the option {option} must be followed by a value")
            value = remaining.pop(0)
        setting, read = (_VALUES if name in _VALUES else _LISTS)[name]
        try:
            item = read(value)
        except (ValueError, KeyError):
            kind = "true or false" if read is _boolean else "an integer"
            raise ValueError(f"the value of -{name} must be {kind}, got {value!r}") from None
        if name in _LISTS:
            settings.setdefault(setting, []).append(item)
        else:
            settings[setting] = item
    return settings


def _split(option: str) -> tuple[str, bool, str]:
    """The name of an option without hyphens, whether it contains a value, and the value."""
    if option[:1] != "-":
        return option, False, ""
    if option[1:2] in ("D", "U", "I") and option[2:]:
        return option[1], True, option[2:].removeprefix("=")
    name, equals, value = option.lstrip("-").partition("=")
    return name, bool(equals), value

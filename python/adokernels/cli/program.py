"""The program ``adokernels``: its parser, and the exit status of each kind of error."""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import IO, Any, NoReturn, cast

from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.cli.arguments import ARGUMENTS, INTERRUPTED, NO_DEVICE, STDOUT, USAGE, WRONG
from adokernels.cli.commands import COMMANDS
from adokernels.cli.output import Output, complain, printed_to_standard_error

#: Width of tables in a file or a pipe.
_WIDTH = 200
#: Commands that accept ``--device emulator``.
_EMULATED = ("bench", "check", "profile", "what-if")
_REMEDY = "; remedy: --device emulator"
_WITHOUT_ROUTINE = "; adokernels list shows all routines, adokernels tour --all measures them"
_EXAMPLES = """\
examples:
  adokernels tour
  adokernels bench transpose --shape 4096x4096 --plot transpose.png

"adokernels COMMAND --help" shows the arguments of a command, with an example."""

#: Without a matching word, the shell completes file names.
_COMPLETION = """\
_adokernels() {{
  local words=
  case "$COMP_CWORD ${{COMP_WORDS[1]}}" in
{}
  esac
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _adokernels adokernels"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports output errors, and names the commands that need no routine."""

    def error(self, message: str) -> NoReturn:
        """Print usage and a message, and exit."""
        missing = re.search(r"required: routine\b", message)
        super().error(f"{message}{_WITHOUT_ROUTINE if missing else ''}")

    def _print_message(self, message: str, file: Any = None) -> None:
        output = Output(file or sys.stderr)
        output.write(message)
        if not output.is_complete():
            raise SystemExit(USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status.

    0 on success, 1 if ``check`` finds a wrong result or ``compare`` a slower variant, 2 for a wrong
    argument or if the output cannot be written, 3 for a missing device, 4 if ``compare`` cannot
    tell whether a variant is slower, 130 if interrupted with Ctrl-C. ``run`` returns the status of
    the script. A closed pipe does not change the status.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parse(given)
    # If standard output receives JSON, everything else goes to standard error.
    alone = vars(options).get("json") == STDOUT
    options.document = ""
    output = Output(sys.stderr if alone else sys.stdout)
    # Names and paths are literal: no markup.
    console = Console(file=cast("IO[str]", output), markup=False, emoji=False)
    if not (output.isatty() or "COLUMNS" in os.environ):
        console.width = _WIDTH
    path = sys.path.copy()  # commands add the folder of the user's code
    try:
        try:
            with printed_to_standard_error() if alone else nullcontext():
                status = options.run(options, console) or 0
                output.flush()
        finally:
            output = Output(sys.stdout) if alone else output
            output.write(options.document)
            is_complete = output.is_complete()
        return status if is_complete else USAGE
    except OSError as error:
        known = error.filename is not None and error.strerror
        status, text = USAGE, f"{error.filename}: {error.strerror}" if known else str(error)
    except (ValueError, KeyError, TypeError) as error:
        status, text = USAGE, error.args[0] if isinstance(error, KeyError) else str(error)
    except MemoryError as error:
        status, text = WRONG, f"not enough memory: {error}"
    except ado.Unavailable as error:
        emulated = options.command in _EMULATED and options.device != "emulator"
        reason = _core.why_no_cuda()  # a compiler or ncu may be missing instead
        helps = emulated and reason and reason in str(error) and not vars(options).get("ncu")
        text = str(error).partition("; remedy: device=")[0]  # a remedy for Python calls
        status, text = NO_DEVICE, f"{text}{_REMEDY if helps else ''}"
    except KeyboardInterrupt:
        status, text = INTERRUPTED, "interrupted"
    except SystemExit as error:  # status 0 would mean success
        status, text = USAGE, f"the code called exit({error.code})"
    finally:
        sys.path[:] = path
    complain(text)
    return status


def parse(given: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of the program; print help or an error and exit if necessary."""
    parser = _Parser(
        prog="adokernels",
        description="Run, measure and compare ladders of kernels.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"adokernels {ado.__version__}")
    style: dict[str, Any] = {"metavar": "command", "title": "commands", "dest": "command"}
    parsers = parser.add_subparsers(required=True, **style)
    for command in COMMANDS:
        _add_command(parsers, command)
    script = ""
    if "--completion" in given:
        cases = _cases(parsers.choices), _variant_cases(parsers.choices)
        script = _COMPLETION.format(*map("\n".join, cases))
    words = (
        "print a script for bash (in zsh, after bashcompinit) that completes commands and options"
    )
    parser.add_argument("--completion", action="version", version=script, help=words)
    # The message of argparse would list the commands, but suggest none.
    name = next((word for word in given if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        parser.error(f"no command {name!r}{_suggestion(name, list(COMMANDS))}")
    options = ("--version", "--completion", "--help", "-h")
    if name is None and given and given[0] not in options:
        parser.error(f"no option {given[0]!r}{_suggestion(given[0], options)}")
    parsed, unknown = parser.parse_known_args(_joined(given))
    if unknown:
        own = parsers.choices[parsed.command]
        known = re.findall(r"--[\w-]+", own.format_usage())
        for word in (word.partition("=")[0] for word in unknown if word.startswith("--")):
            own.error(f"no option {word!r}{_suggestion(word, known)}")
        own.error(f"unknown arguments: {' '.join(unknown)}")
    return parsed


def _add_command(parsers: Any, name: str) -> None:
    """Add the parser of a command with its arguments."""
    run, example, arguments, defaults = COMMANDS[name]
    sentence = (run.__doc__ or "").strip(".")
    parser = parsers.add_parser(
        name,
        help=f"{sentence[:1].lower()}{sentence[1:]}",
        description=f"{sentence}.",
        epilog=f"example:\n  adokernels {name} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, **defaults)  # Python 3.14 formats help when it adds an argument
    for word in arguments.split():
        group = parser.add_mutually_exclusive_group() if "|" in word else parser
        for argument in word.split("|"):
            own = ARGUMENTS.get(f"{name} {argument}") or ARGUMENTS[argument]
            group.add_argument(argument.strip("[]"), **own)


def _cases(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """For each command, the words that can follow: its options and values of its arguments."""
    from adokernels.puzzles import puzzles

    of_puzzles = [*ARGUMENTS["puzzles [action]"]["choices"], *(p.name for p in puzzles())]
    yield f"  1\\ *) words='{' '.join(parsers)}' ;;"
    for name, parser in parsers.items():
        text = parser.format_usage()
        routines = list(ado.routines) if re.search(r"\broutine\b", text) else []
        tasks = of_puzzles if name == "puzzles" else []
        words = dict.fromkeys([*routines, *tasks, *re.findall(r"--[\w-]+", text)])
        yield f"  *\\ {name}) words='{' '.join(words)}' ;;"


def _variant_cases(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """For each routine, its variants, after the commands that accept variants."""
    commands = [name for name, parser in parsers.items() if "variant" in parser.format_usage()]
    for routine in ado.routines.values():
        before = "|".join(f"{command}\\ {routine.name}" for command in commands)
        yield f"  {before}) words+=' {' '.join(v.name for v in routine)}' ;;"


def _suggestion(name: str, known: Sequence[str]) -> str:
    """Suggest the nearest name, even if two letters are exchanged, and list all names."""
    nearest, *_ = (*difflib.get_close_matches(name, known, 1), name)
    return _core.suggest(nearest, known)


def _joined(words: Sequence[str]) -> list[str]:
    """The arguments, with values that argparse would not attribute to their option.

    ``--shape=-1x5`` replaces ``--shape -1x5``. ``--json=-`` replaces ``--json`` if the next word is
    not the path of a file, that is, if it has neither a dot nor a separator. The arguments of a
    script are not changed.
    """
    if words[:1] == ["run"]:
        return list(words)
    joined: list[str] = []
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if joined and joined[-1].startswith("--") and re.match(r"-\d", word):
            joined[-1] += f"={word}"
        elif word == "--json" and (
            following.startswith("-") or not re.search(r"[./\\]", following)
        ):
            joined.append("--json=-")
        elif word == "-" and joined and joined[-1] == "--json=-":
            continue
        else:
            joined.append(word)
    return joined

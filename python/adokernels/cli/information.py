"""The commands ``tour``, ``info`` and ``list``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

import adokernels as ado
from adokernels import _core
from adokernels.cli.arguments import INTERRUPTED, Commands, output_folder, size


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    tour = commands.add(
        "tour",
        _run_tour,
        "Find edges in a photograph, measure two ladders, and write a report",
        "--image holiday.jpg --out my-tour",
    )
    tour.add_argument("--image", type=Path, help="use this picture file")
    tour.add_argument(
        "--out", type=output_folder, default=Path("adokernels-tour"), help="output folder"
    )
    tour.add_argument("--size", type=size, help="upper limit for every length")
    tour.add_argument("--all", action="store_true", help="measure every ladder on every device")

    sentence = "Show the build, the devices and their ceilings"
    info = commands.add("info", _run_info, sentence, "--refresh")
    info.add_argument("--refresh", action="store_true", help="measure the ceilings again")

    sentence = "Show all routines, or the ladder of one routine"
    ladders = commands.add("list", _run_list, sentence, "transpose")
    ladders.add_argument("routine", nargs="?", help="show the ladder of this routine")


def _run_tour(options: argparse.Namespace, console: Console) -> int:
    from adokernels.tour import tour  # loads matplotlib

    settings = {"size": options.size, "everything": options.all}
    return INTERRUPTED if tour(options.out, console, image=options.image, **settings) else 0


def _run_info(options: argparse.Namespace, console: Console) -> None:
    from adokernels.measuring.context import context

    console.print(f"adokernels {ado.__version__}, instruction set {_core.isa()}")
    console.print(f"CUDA: {_core.why_no_cuda() or context('cuda')['device_name']}")
    devices = ["cpu"] + ([] if _core.why_no_cuda() else ["cuda"])
    for device in devices:
        console.print(ado.machine(device, refresh=options.refresh))


def _run_list(options: argparse.Namespace, console: Console) -> None:
    console.print(ado.routines[options.routine] if options.routine else ado.routines)

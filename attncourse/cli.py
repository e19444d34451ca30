"""The command line: `attncourse COMMAND`.

Each command lives in the module that does the work, as `add_command(subparsers)`.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module

import attncourse
from attncourse import doctor

COMMAND_MODULES = (
    "attncourse.doctor",
    "attncourse.conformance",
    "attncourse.measure.bench",
    "attncourse.measure.kernel_report",
    "attncourse.grading.learner_command",
    "attncourse.grading.command",
)

__all__ = ["COMMAND_MODULES", "build_parser", "main"]


def build_parser() -> argparse.ArgumentParser:
    """Collect every command into one parser.

    Returns
    -------
    argparse.ArgumentParser
        Parsed arguments carry `run`, a function from them to an exit status.
    """
    parser = argparse.ArgumentParser(
        prog="attncourse", description="The companion package of the self-attention course."
    )
    parser.add_argument(
        "--version", action="version", version=f"attncourse {attncourse.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMAND_MODULES:
        import_module(module).add_command(commands)
    return parser


def print_every_character() -> None:
    """Have what a terminal cannot show printed as its number, such as `u2264`, not raise.

    A report must not be lost, and its exit status with it, because a Windows console knows
    256 characters.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the program's name; those of the process by default.

    Returns
    -------
    int
        0 for success; what the command returns otherwise, 2 for wrong words or a missing package.
    """
    print_every_character()
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "attncourse":
            raise
        how = doctor.how_to_get(error.name.partition(".")[0])
        print(
            f"attncourse {arguments.command}: {error.name} is not installed: {how}", file=sys.stderr
        )
        return 2

"""The command ``attncourse conformance module:function``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from attncourse.conformance._case import LEVELS

KINDS = ("attention", "decode", "cache")
DESCRIPTION = """\
Run an attention function, a decode function or a cache through its suite: your own, a rung
of the ladder, or the package's.

It is called with query, key and value by position and with its other arguments by name.
What it can do is read off its arguments' names (is_causal, attn_mask, return_lse, ...);
cases that need more are left out and counted. With --as decode it is called as a step of
decoding with a cache, with --as cache as a class that stores keys and values. A failed case
prints what was wanted and what came. The exit status is 0 when all passed, 1 when one
failed, 2 when nothing could be run."""
EXAMPLES = """\
examples:
  attncourse conformance my_kernel:attention         my_kernel.py in this folder
  attncourse conformance my_kernel:attention --only exact/causal
  attncourse conformance my_kernel:attention --level full --html report.html
  attncourse conformance recompute                   a rung, by its name
  attncourse conformance my_cache:decode --as decode
  attncourse conformance my_cache:Cache --as cache
  attncourse conformance paged_decode --as decode    the package's own, by its name"""


def add_command(subparsers: Any) -> None:
    """Add ``conformance`` to the command line.

    Parameters
    ----------
    subparsers : argparse._SubParsersAction
        What ``ArgumentParser.add_subparsers`` returned.
    """
    parser = subparsers.add_parser(
        "conformance",
        help="run an attention function, a decode function or a cache through its suite",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", help="module:name, or the name of a rung such as batched")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=KINDS,
        default="attention",
        help="what it is: attention (default), decode or cache",
    )
    parser.add_argument(
        "--level", choices=LEVELS, default="quick", help="quick: seconds; full: all cases"
    )
    parser.add_argument(
        "--features", help="what it can do, separated by commas; found out by default"
    )
    parser.add_argument(
        "--library", choices=("numpy", "torch"), help="what it takes; found out by default"
    )
    parser.add_argument("--only", default="", help="only cases whose name starts so")
    parser.add_argument("--html", type=Path, help="also write the report to this file")
    parser.set_defaults(run=command)


def command(options: argparse.Namespace) -> int:
    """Run the suite as asked on the command line.

    Parameters
    ----------
    options : argparse.Namespace
        What `add_command`'s parser returned.

    Returns
    -------
    int
        0 when all cases passed, 1 when one failed, 2 when there was nothing to run.
    """
    from attncourse.conformance._run import run
    from attncourse.conformance.decoding import run_cache, run_decode

    runner: Any = {"attention": run, "decode": run_decode, "cache": run_cache}[options.kind]
    try:
        fn = load(options.target)
        features = options.features.split(",") if options.features else None
        report = runner(fn, options.level, features, library=options.library, only=options.only)
    except ModuleNotFoundError:  # a package of ours: the command line says how to get it
        raise
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        print(f"attncourse conformance: {error}", file=sys.stderr)
        return 2
    print(report)
    if options.html is not None:
        options.html.write_text(report._repr_html_(), encoding="utf-8")
    return 0 if report else 1


def load(target: str) -> Any:
    """Find a function by ``module:function``; a name without a colon is a rung.

    Parameters
    ----------
    target : str
        The module is looked for in the current folder first.

    Returns
    -------
    callable or str

    Raises
    ------
    ImportError
        When there is no such module, or it cannot be imported.
    AttributeError
        When the module has no such function.
    """
    module, colon, name = target.partition(":")
    if not colon:
        return target
    if "" not in sys.path:
        sys.path.insert(0, "")
    loaded = _import(module)
    if not hasattr(loaded, name):
        raise AttributeError(f"module {module!r} has no function {name!r}")
    return getattr(loaded, name)


def _import(module: str) -> Any:
    """Import a module, and say in one sentence why that fails."""
    if not module or module.endswith(".py"):
        raise ImportError(
            f"wanted module:function, with a module as import spells it, got the module {module!r}"
        )
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"cannot import {module!r}: {error}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"cannot import {module!r}: {reason}") from error

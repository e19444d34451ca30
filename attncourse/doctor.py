"""`attncourse doctor`: what this machine has, what each extra is missing, how to get it.

Nothing is guessed: versions come from the installed packages, the extras from this
package's own metadata, devices from torch where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

__all__ = ["add_command", "devices", "examine", "extras", "how_to_get", "render"]

_DISTRIBUTIONS = {"IPython": "ipython", "sklearn": "scikit-learn", "skimage": "scikit-image"}
_PACKAGES = ("numpy", "torch", "triton", "matplotlib", "anywidget", "ipywidgets", "tqdm")


def add_command(subparsers: Any) -> None:
    """Add `doctor` to the command line."""
    command = subparsers.add_parser(
        "doctor", help="show versions, devices, and what each extra is missing"
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of a report")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    report = examine()
    print(json.dumps(report, indent=2) if arguments.json else render(report))
    return 0 if report["packages"]["numpy"] else 1


def examine() -> dict[str, Any]:
    """Look at the machine.

    Returns
    -------
    dict
        ``python``, ``platform``, ``cores``; ``packages``: name to version or None;
        ``devices``: list of texts; ``extras``: name to the list of missing requirements.
    """
    return {
        "attncourse": _version("attncourse"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "devices": devices(),
        "extras": extras(),
    }


def devices() -> list[str]:
    """Name the devices that torch can compute on.

    Returns
    -------
    list of str
        The CPU with torch's thread count first, then each CUDA or Apple device; the reason
        instead, when torch is not installed or does not start.
    """
    try:
        import torch
    except Exception as problem:  # a broken install raises OSError as well
        return [f"torch does not start ({type(problem).__name__}: {problem}): NumPy rungs only"]
    found = [f"cpu ({torch.get_num_threads()} threads)"]
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        size = properties.total_memory / 2**30
        found.append(f"cuda:{index} ({properties.name}, {size:.0f} GiB)")
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def extras() -> dict[str, list[str]]:
    """List, for each extra of the package, the requirements that are not met.

    Returns
    -------
    dict of str to list of str
        An empty list means that the extra is complete. A requirement is named with the
        version that is installed, if one is.
    """
    own = metadata.metadata("attncourse")
    result: dict[str, list[str]] = {extra: [] for extra in own.get_all("Provides-Extra") or []}
    for extra, requirement in _requirements():
        if problem := _unmet(requirement):
            result[extra].append(problem)
    return result


def _requirements() -> Iterator[tuple[str, str]]:
    """Yield each extra with each requirement that it has on this system."""
    for line in metadata.metadata("attncourse").get_all("Requires-Dist") or []:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", marker)
        if extra and _applies(marker):
            yield extra.group(1), requirement.strip()


def how_to_get(module: str) -> str:
    """Return the command that installs a module's package.

    Parameters
    ----------
    module : str
        Name of a module that cannot be imported, such as `torch`.

    Returns
    -------
    str
        With the first extra of this package that lists it, if one does.
    """
    package = _DISTRIBUTIONS.get(module, module)
    try:
        found = [extra for extra, wanted in _requirements() if _bare_name(wanted) == package]
    except metadata.PackageNotFoundError:
        found = []
    return f"pip install 'attncourse[{found[0]}]'" if found else f"pip install {package}"


def _bare_name(requirement: str) -> str:
    """Return a requirement's package: 'torch>=2.6' gives 'torch'."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def render(report: dict[str, Any]) -> str:
    """Write the report as text.

    Parameters
    ----------
    report : dict
        From `examine`.

    Returns
    -------
    str
        Lines of at most about 90 characters.
    """
    lines = [
        f"attncourse {report['attncourse']} on Python {report['python']} ({report['executable']})",
        f"{report['platform']}, {report['cores']} cores",
        "",
        "Packages",
    ]
    lines += [
        f"  {name:<12} {found or 'not installed'}" for name, found in report["packages"].items()
    ]
    lines += ["", "Devices", *(f"  {device}" for device in report["devices"])]
    lines += ["", "Extras"]
    for extra, missing in report["extras"].items():
        if not missing:
            lines.append(f"  {extra:<12} complete")
            continue
        lines.append(f"  {extra:<12} missing {', '.join(missing)}")
        lines.append(f"  {'':<12} get it: pip install 'attncourse[{extra}]'")
    return "\n".join(lines)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _unmet(requirement: str) -> str | None:
    """Name a requirement that is missing or too old, None when it is met."""
    parts = re.match(r"([\w.-]+)\s*(?:(>=|==)\s*([\w.]+))?", requirement)
    if parts is None:
        return requirement
    name, relation, wanted = parts.groups()
    found = _version(name)
    if found is None:
        return requirement
    if relation and _numbers(found) < _numbers(wanted):
        return f"{requirement} ({found} is installed)"
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: '2.13.0+cpu' gives (2, 13, 0)."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, release.group().split("."))) if release else ()


def _applies(marker: str) -> bool:
    """Tell whether a marker's platform, if it names one, is this one."""
    for variable, system in re.findall(r"(platform_system|sys_platform)\s*==\s*['\"](\w+)", marker):
        here = platform.system() if variable == "platform_system" else sys.platform
        if here != system:
            return False
    return True

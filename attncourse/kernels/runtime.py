"""Interpreter or GPU: decided once, before Triton is first imported.

Triton fixes this while it is imported, for its own library too, so it cannot be changed
per call. A CUDA device means native kernels, none means the interpreter, which runs the
same source in NumPy on the CPU. TRITON_INTERPRET=1 or 0 in the environment overrides.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

__all__ = ["INTERPRETED", "check_device", "device_arch", "tl", "triton"]

_NO_WHEELS = {"darwin": "macOS", "win32": "Windows"}


def _wants_interpreter() -> bool:
    """Read the environment, and else look for a CUDA device."""
    given = os.environ.get("TRITON_INTERPRET")
    if given is not None:
        return given.lower() in ("1", "true", "yes", "on", "y")
    import torch

    return not torch.cuda.is_available()


def _check_installed() -> None:
    """Say how to get Triton where it is missing."""
    if "triton" in sys.modules or importlib.util.find_spec("triton") is not None:
        return
    system = _NO_WHEELS.get(sys.platform)
    if system:
        raise ImportError(
            f"the Triton rungs need triton, which has no wheels for {system}: run them on Linux, "
            "or take another rung, such as rung='recompute'"
        )
    raise ImportError(
        "the Triton rungs need triton: pip install 'attncourse[triton]', or take another rung, "
        "such as rung='recompute'"
    )


def _import_triton(interpreted: bool) -> tuple[Any, Any]:
    """Import Triton in the wanted mode, or find out that somebody was faster.

    Raises
    ------
    RuntimeError
        When Triton had been imported in the other mode.
    """
    early = "triton" in sys.modules
    if interpreted:
        os.environ["TRITON_INTERPRET"] = "1"
    import triton
    import triton.language as tl

    is_interpreted = type(tl.cdiv).__name__ == "InterpretedFunction"
    if is_interpreted != interpreted:
        modes = {True: "in its interpreter", False: "natively"}
        raise RuntimeError(
            f"attncourse wants to run Triton {modes[interpreted]} here, but triton was imported "
            f"{modes[is_interpreted]} {'before' if early else 'just now'}; import "
            "attncourse.kernels.runtime before anything that imports triton (torch.compile does), "
            f"or set TRITON_INTERPRET={int(interpreted)} before Python starts"
        )
    return triton, tl


def _prepare_once_a_launch() -> None:
    """Spare the interpreter work that takes two fifths of a small launch.

    Triton 3's interpreter replaces every function of `triton.language` when a kernel is launched,
    and again at each call of another jitted function inside it. Once a launch is enough.
    """
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    if not (hasattr(interpreter, "_patch_lang") and hasattr(interpreter, "GridExecutor")):
        return
    prepare, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__
    ready: list[set[int]] = []

    def prepare_once(function: Any) -> Any:
        named = {id(each) for each in function.__globals__.values()}
        languages = named & {id(tl), id(tl.core)}
        if languages not in ready:
            ready.append(languages)
            return prepare(function)
        return None

    def launch_afresh(self: Any, *args: Any, **options: Any) -> Any:
        ready.clear()
        try:
            return launch(self, *args, **options)
        finally:
            ready.clear()

    interpreter._patch_lang = prepare_once
    interpreter.GridExecutor.__call__ = launch_afresh


_check_installed()
INTERPRETED = _wants_interpreter()
triton, tl = _import_triton(INTERPRETED)
if INTERPRETED:
    _prepare_once_a_launch()


def check_device(tensor: Any) -> None:
    """Refuse tensors that the mode decided on cannot read.

    Raises
    ------
    ValueError
        For a CPU tensor where kernels run natively.
    """
    if not INTERPRETED and tensor.device.type != "cuda":
        raise ValueError(
            "the Triton rungs run natively here and want tensors on a CUDA device, got one on "
            f"{tensor.device}; move it there, or set TRITON_INTERPRET=1 before Python starts"
        )


def device_arch(tensor: Any) -> str:
    """Name the row of the block table that fits the device of a tensor.

    Returns
    -------
    str
        "interpreter", or a key of `attncourse.kernels.blocks.ARCHS`.

    Raises
    ------
    RuntimeError
        For a GPU older than compute capability 8.0.
    """
    if INTERPRETED:
        return "interpreter"
    import torch

    major, minor = torch.cuda.get_device_capability(tensor.device)
    if major < 8:
        raise RuntimeError(
            f"wanted a GPU of compute capability 8.0 or newer, got {major}.{minor}: Triton does "
            "not use the matrix units of older ones; take rung='sdpa'"
        )
    if major in (9, 10):
        return "sm_90"
    return "sm_80" if (major, minor) == (8, 0) else "sm_86"

"""The circumstances under which every chapter is tried: eight seeds, four kinds of arithmetic.

A library picks its code path by what the processor can do. Environment variables hold it to an
older path, so that one machine adds in the orders of several. `WITNESS` prints what was really
taken: a variable that a library ignores would make a run that proves nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

SEEDS = range(8)

# One name for what PyTorch, oneDNN, MKL, OpenBLAS and NumPy call it. NumPy is given what it must
# not use; the others, what they may.
_NUMPY_NEWER_THAN = {
    "oldest": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "avx2": "X86_V4 AVX512_ICL AVX512_SPR",
}
ARITHMETIC = {
    "native": {},
    "oldest": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "two-threads": {
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2"),
        "OMP_WAIT_POLICY": "passive",  # threads that spin would slow the chapter beside them
    },
}

WITNESS = """
import json, numpy, torch
from numpy._core import _multiarray_umath as core
from threadpoolctl import threadpool_info
blas = {p.get("architecture") for p in threadpool_info() if p["internal_api"] == "openblas"}
features = core.__cpu_features__
print(json.dumps({
    "torch": torch.backends.cpu.get_cpu_capability(),
    "openblas": " ".join(sorted(filter(None, blas))),
    "numpy": " ".join(name for name in core.__cpu_dispatch__ if features.get(name)),
    "threads": torch.get_num_threads(),
    "sum": (wave := torch.linspace(0, 9, 40000).sin().view(200, 200)).mm(wave).sum().item(),
}))
"""


@dataclass(frozen=True)
class Variation:
    """One seed under one kind of arithmetic.

    Attributes
    ----------
    seed : int
        Stands in the place of the chapter's ``SEED = 0``.
    arithmetic : str
        A key of `ARITHMETIC`.
    """

    seed: int
    arithmetic: str = "native"
    environment: dict[str, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        environment = {"OMP_NUM_THREADS": "1", **ARITHMETIC[self.arithmetic]}
        if self.arithmetic in _NUMPY_NEWER_THAN:
            environment["NPY_DISABLE_CPU_FEATURES"] = _numpy_may_not(self.arithmetic)
        object.__setattr__(self, "environment", environment)

    @property
    def name(self) -> str:
        """Return a short name such as ``seed 3`` or ``seed 0, avx2``."""
        kind = "" if self.arithmetic == "native" else f", {self.arithmetic}"
        return f"seed {self.seed}{kind}"


def chosen(seeds, arithmetic) -> list[Variation]:
    """List every seed as the machine is, then every other arithmetic with the first seed."""
    runs = [Variation(seed) for seed in seeds] if "native" in arithmetic else []
    others = [name for name in arithmetic if name != "native"]
    return runs + [Variation(seeds[0], name) for name in others]


def found(variation: Variation) -> dict:
    """Say which code paths the libraries really take under a variation."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITNESS],
        env={**os.environ, **variation.environment},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)


def _numpy_may_not(arithmetic: str) -> str:
    """List the newer paths of NumPy that this processor has: it complains about others."""
    from numpy._core import _multiarray_umath as core

    held = os.environ.get("NPY_DISABLE_CPU_FEATURES", "").replace(",", " ").split()
    here = [n for n in core.__cpu_dispatch__ if n in held or core.__cpu_features__.get(n)]
    return " ".join(n for n in _NUMPY_NEWER_THAN[arithmetic].split() if n in here)

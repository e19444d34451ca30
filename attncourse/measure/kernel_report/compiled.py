"""Compile a kernel for a GPU that is not there, and read what the compiler made of it.

New here: a launch needs a device, compiling does not. Arguments are made of tensors
without memory, by the same functions that make them for a launch, so what is examined
is what would run. Started by `attncourse.measure.kernel_report`, in a process of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from attncourse.call import Call
from attncourse.kernels import blocks
from attncourse.kernels.arguments import accumulator, common, is_heavy, strides
from attncourse.kernels.dkdv import dkdv_kernel
from attncourse.kernels.dq import dq_kernel
from attncourse.kernels.forward import forward_kernel
from attncourse.kernels.runtime import INTERPRETED, triton
from attncourse.rungs import triton_forward

KERNELS = {
    "short": triton_forward.forward_kernel,
    "forward": forward_kernel,
    "dkdv": dkdv_kernel,
    "dq": dq_kernel,
}
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_POINTERS = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.uint8: "*u8",
}
_SEQ_LEN = 4096
LAUNCH = ("num_warps", "num_stages", "maxnreg")  # what a launch says beside the arguments

_FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "windowed": {"is_causal": True, "window_size": 1024},
    "everything": {
        "is_causal": True,
        "window_size": 1024,
        "softcap": 30.0,
        "dropout_p": 0.1,
        "dropout_seed": 2**40,
    },
    "learned": {},
}


def arguments(kernel: str, arch: str, width: int, dtype: str, features: str) -> dict[str, Any]:
    """Make the arguments of a launch, of tensors that have no memory.

    Parameters
    ----------
    kernel : {"short", "forward", "dkdv", "dq"}
        Which kernel; "short" is that of rung `triton_forward`.
    arch : str
        A key of `attncourse.kernels.blocks.ARCHS`.
    width : int
        E and Ev.
    dtype : {"float16", "bfloat16", "float32"}
        Of query, key and value.
    features : {"plain", "causal", "windowed", "everything", "learned"}
        "everything" has a boolean mask, "learned" a float mask whose gradient is wanted.

    Returns
    -------
    dict
        Keyword arguments of the kernel.
    """
    with torch.device("meta"):
        query = torch.empty(2, 8, _SEQ_LEN, width, dtype=DTYPES[dtype])
        key = torch.empty(2, 2, _SEQ_LEN, width, dtype=DTYPES[dtype])
        rows = torch.empty(2, 8, _SEQ_LEN)
        square = {
            "everything": torch.empty(2, 1, _SEQ_LEN, _SEQ_LEN, dtype=torch.bool),
            "learned": torch.empty(1, 8, _SEQ_LEN, _SEQ_LEN),
        }
        slopes = torch.empty(2, 8) if features == "everything" else None
    whole, asked = (0, _SEQ_LEN), _FEATURES[features]
    mask = square.get(features)
    call = Call(whole, whole, width**-0.5, mask, alibi_slopes=slopes, **asked)
    table = "forward" if kernel == "short" else kernel
    tile = blocks.choose(table, arch, width, query.element_size(), is_heavy(call))
    shared = common(query, key, key, call, tile)
    if kernel == "short":
        own = {"out": query, "lse": rows, "scale": width**-0.5, "ACC": accumulator(query)}
        names = {*KERNELS["short"].arg_names, *LAUNCH} - {*own}
        return {name: shared[name] for name in names} | own
    read: dict[str, Any] = {"dout": query, "row_max": rows, "row_sum": rows, "delta": rows}
    read |= strides("dout", "bhle", query)
    learned = features == "learned"
    results: dict[str, dict[str, Any]] = {
        "forward": {"out": query, "lse": rows, "row_max_out": rows, "row_sum_out": rows},
        "dkdv": {**read, "dk": key, "dv": key},
        "dq": {**read, "dq": query, "dscores": square["learned"], "STORE_SCORES": learned},
    }
    return shared | results[kernel]


def examine(kernel: str, arch: str, width: int, dtype: str, features: str) -> dict[str, Any]:
    """Compile one variant.

    Parameters
    ----------
    kernel, arch, width, dtype, features
        As in `arguments`.

    Returns
    -------
    dict
        The five parameters, the tile, and: registers (a thread), shared and spilled (bytes),
        matrix ("wgmma", "mma" or "none"), seconds.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = KERNELS[kernel]
    given = arguments(kernel, arch, width, dtype, features)
    options = {name: given.pop(name) for name in LAUNCH}
    signature, constants, hints = _specialize(function, given)
    started = time.perf_counter()
    compiled = triton.compile(
        ASTSource(function, signature, constexprs=constants, attrs=hints),
        target=GPUTarget("cuda", int(arch.removeprefix("sm_")), 32),
        options=options,
    )
    registers, spilled = _resources(compiled, arch)
    return {
        "kernel": kernel,
        "arch": arch,
        "width": width,
        "dtype": dtype,
        "features": features,
        "tile": f"{given['BLOCK_M']}x{given['BLOCK_N']}",
        **options,
        "registers": registers,
        "shared": int(compiled.metadata.shared),
        "spilled": spilled,
        "matrix": _matrix_instruction(compiled.asm["ptx"]),
        "seconds": round(time.perf_counter() - started, 2),
    }


def _specialize(function: Any, given: dict[str, Any]) -> tuple[dict, dict, dict]:
    """Turn arguments into types, constants and hints, as Triton's launcher does."""
    signature, constants, hints = {}, {}, {}
    for at, parameter in enumerate(function.params):
        value = given[parameter.name]
        signature[parameter.name] = _type_of(parameter, value)
        if signature[parameter.name] == "constexpr":
            constants[(at,)] = value
        elif isinstance(value, torch.Tensor) or (
            isinstance(value, int) and value % 16 == 0 and not parameter.do_not_specialize
        ):
            hints[(at,)] = [["tt.divisibility", 16]]
    return signature, constants, hints


def _type_of(parameter: Any, value: Any) -> str:
    if parameter.is_constexpr or value is None:
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, float):
        return "fp32"
    if value == 1 and not parameter.do_not_specialize:
        return "constexpr"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def _resources(compiled: Any, arch: str) -> tuple[int, int]:
    """Assemble once more and read: registers a thread, and bytes spilled from them."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    # wgmma is only there for the variant of the chip that is named sm_90a.
    target = arch + ("a" if arch == "sm_90" else "")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(compiled.asm["ptx"], encoding="utf-8")
        command = [str(tool), "-v", f"--gpu-name={target}", str(source), "-o", f"{folder}/cubin"]
        said = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stderr
    registers = re.search(r"Used (\d+) registers", said)
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
    if registers is None or not spilled:
        raise RuntimeError(f"wanted ptxas to report registers and spills, got: {said}")
    return int(registers[1]), sum(map(int, spilled))


def _matrix_instruction(ptx: str) -> str:
    for name, sign in (("wgmma", "wgmma.mma_async"), ("mma", "mma.sync")):
        if sign in ptx:
            return name
    return "none"


def main() -> None:
    """Examine the variants that the arguments name, each a JSON list, and print results."""
    if INTERPRETED:
        raise SystemExit("nothing is compiled in the interpreter: set TRITON_INTERPRET=0")
    for wanted in sys.argv[1:]:
        print(json.dumps(examine(*json.loads(wanted))), flush=True)


if __name__ == "__main__":
    main()

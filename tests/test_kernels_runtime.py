"""Interpreter or GPU: what is chosen, what is refused, and what is said."""

import os
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
torch = pytest.importorskip("torch")

from attncourse import attention  # noqa: E402
from attncourse.kernels import runtime  # noqa: E402
from attncourse.rungs import _dispatch  # noqa: E402

pytestmark = pytest.mark.ladder


def start_python(code, **environment):
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=env | environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_without_a_gpu_the_interpreter_is_chosen():
    done = start_python("from attncourse.kernels import runtime; print(runtime.INTERPRETED)")
    assert done.stdout.strip() == "True", done.stderr


def test_triton_imported_too_early_is_an_error():
    done = start_python("import triton, attncourse.rungs.triton")
    assert done.returncode == 1
    assert "imported natively before" in done.stderr
    assert "TRITON_INTERPRET=1" in done.stderr


@pytest.mark.parametrize(
    ("platform", "said"), [("linux", r"attncourse\[triton\]"), ("win32", "no wheels for Windows")]
)
def test_without_triton_the_error_says_what_to_do(monkeypatch, platform, said):
    monkeypatch.setattr(runtime.sys, "platform", platform)
    monkeypatch.setattr(runtime.sys, "modules", {})
    monkeypatch.setattr(runtime.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=said):
        runtime._check_installed()


@pytest.mark.skipif(not runtime.INTERPRETED, reason="kernels run natively here")
def test_the_interpreter_prepares_once_a_launch_and_leaves_the_language_as_it_was(monkeypatch):
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    patch, patched = interpreter._patch_builtin, []
    monkeypatch.setattr(
        interpreter, "_patch_builtin", lambda *what: (patched.append(what), patch(*what))
    )
    query = torch.randn(2, 3, 5, 4)
    load = runtime.tl.load
    attention(query, query, query, rung="triton_forward")
    assert 0 < len(patched) < 20, "six programs, each with many calls inside"
    assert runtime.tl.load is load


def test_native_kernels_refuse_tensors_on_the_cpu(monkeypatch):
    monkeypatch.setattr(runtime, "INTERPRETED", False)
    query = torch.randn(1, 1, 3, 2)
    for rung in ("triton", "triton_forward"):
        with pytest.raises(ValueError, match="want tensors on a CUDA device, got one on cpu"):
            attention(query, query, query, rung=rung)


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 9), "sm_86"),
        ((9, 0), "sm_90"),
        ((10, 0), "sm_90"),
        ((12, 0), "sm_86"),
    ],
    ids=str,
)
def test_each_gpu_gets_a_row_whose_shared_memory_it_has(monkeypatch, capability, arch):
    monkeypatch.setattr(runtime, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert runtime.device_arch(torch.zeros(1)) == arch


def test_old_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(runtime, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with pytest.raises(RuntimeError, match=r"wanted .* 8.0 or newer, got 7.5"):
        runtime.device_arch(torch.zeros(1))


def on_gpu(width, itemsize=2):
    """Imitate what the choice of a rung looks at."""
    device = SimpleNamespace(type="cuda")
    return SimpleNamespace(shape=(1, 2, 5, width), device=device, element_size=lambda: itemsize)


@pytest.mark.parametrize(
    ("capability", "query", "value", "has_triton", "chosen"),
    [
        ((9, 0), on_gpu(128), on_gpu(128), True, "triton"),
        ((7, 5), on_gpu(128), on_gpu(128), True, "sdpa"),
        ((9, 0), on_gpu(128), on_gpu(128), False, "sdpa"),
        ((9, 0), on_gpu(64), on_gpu(300), True, "sdpa"),
        ((9, 0), on_gpu(256, 4), on_gpu(64, 4), True, "sdpa"),
    ],
    ids=["new", "old-gpu", "no-triton", "wide-value", "wide-float32"],
)
def test_auto_takes_triton_where_it_runs_well(
    monkeypatch, capability, query, value, has_triton, chosen
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(_dispatch, "_HAS_TRITON", has_triton)
    assert _dispatch.pick(query, value, frozenset({"causal"})).name == chosen

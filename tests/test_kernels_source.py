"""Rules for kernels that the interpreter cannot notice being broken."""

import ast
from pathlib import Path

import pytest

import attncourse

PACKAGE = Path(attncourse.__file__).parent
FILES = sorted([*(PACKAGE / "kernels").glob("*.py"), PACKAGE / "rungs" / "triton_forward.py"])
FORBIDDEN = (
    "make_block_ptr",
    "advance",
    "atomic_add",
    "atomic_cas",
    "atomic_xchg",
    "debug_barrier",
)
# What Triton 3.6 to 3.9 all have, of what kernels may want.
KNOWN = {
    *("abs", "arange", "cast", "cdiv", "constexpr", "dot", "exp2", "full", "load", "log2"),
    *("max", "maximum", "minimum", "philox", "program_id", "range", "reshape"),
    *("split", "static_range", "store", "sum", "trans", "where", "zeros"),
    *("float32", "float64", "int32", "int64", "uint32"),
}


def kernels_in(source):
    """Find the functions that Triton compiles."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any(
            "triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield node


def broken_rules(source):
    """List what a source breaks; empty when it keeps every rule."""
    return [found for kernel in kernels_in(source) for found in _broken_in(kernel)]


def _broken_in(kernel):
    text = ast.unparse(kernel)
    for name in FORBIDDEN:
        if f"tl.{name}" in text:
            yield f"{kernel.name}: tl.{name}"
    if "program_id" in text and ".to(tl.int64)" not in text:
        yield f"{kernel.name}: counts heads in 32 bits"
    for node in ast.walk(kernel):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "tl":
            if node.attr not in KNOWN and node.attr not in FORBIDDEN:
                yield f"{kernel.name}: tl.{node.attr} is not in every Triton from 3.6 on"
        if isinstance(node, ast.Call):
            yield from _broken_call(kernel.name, node)


def _broken_call(name, call):
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    function = ast.unparse(call.func)
    line = ast.unparse(call)
    if function == "tl.load" and "mask" in given and "other" not in given:
        yield f"{name}: {line} leaves masked places undefined"
    if function == "tl.store" and "mask" not in given:
        yield f"{name}: {line} stores past the end"
    if function == "tl.dot" and given.get("input_precision") != "'ieee'":
        yield f"{name}: {line} may round float32 to TF32"
    if function == "tl.dot" and given.get("out_dtype") != "ACC":
        yield f"{name}: {line} does not say how it accumulates"
    if function == "tl.program_id" and line != "tl.program_id(0)":
        yield f"{name}: {line} uses a grid axis that ends at 65,535"


def test_there_are_kernels_to_look_at():
    found = [kernel.name for path in FILES for kernel in kernels_in(path.read_text("utf-8"))]
    assert len([name for name in found if name.endswith("_kernel")]) == 5
    assert {"load_tile", "finish_scores", "keep"} <= set(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kernels_keep_the_rules(path):
    assert broken_rules(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_stay_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= 300


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x = tl.load(p, mask=m)", "undefined"),
        ("tl.store(p, x)", "past the end"),
        ("x = tl.dot(a, b, out_dtype=ACC)", "TF32"),
        ("x = tl.dot(a, b, input_precision='ieee')", "accumulates"),
        ("x = tl.program_id(1).to(tl.int64)", "65,535"),
        ("x = tl.program_id(0)", "32 bits"),
        ("x = tl.make_block_ptr(p)", "make_block_ptr"),
        ("tl.atomic_add(p, x)", "atomic_add"),
        ("x = tl.to_tensor(p)", "not in every Triton"),
    ],
)
def test_each_rule_can_be_broken(line, said):
    found = broken_rules(f"@triton.jit\ndef kernel(p):\n    {line}\n")
    assert len(found) == 1
    assert said in found[0]

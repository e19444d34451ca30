"""The compile report: real kernels fit their chips, and what does not fit is said."""

import argparse
from importlib.util import find_spec

import pytest

from attncourse.measure import kernel_report as report

if find_spec("triton") is None:
    pytest.skip("triton is not installed (Linux only): attncourse[triton]", allow_module_level=True)
pytest.importorskip("torch")

FITS = {
    "kernel": "forward",
    "arch": "sm_90",
    "width": 64,
    "dtype": "float16",
    "features": "causal",
    "tile": "128x64",
    "num_warps": 8,
    "num_stages": 3,
    "registers": 200,
    "shared": 100_000,
    "spilled": 0,
    "matrix": "wgmma",
    "seconds": 1.0,
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spilled": 8}, "spills 8 bytes"),
        ({"shared": 232_449}, "wants 232449 bytes of shared memory, the chip has 232448"),
        ({"matrix": "mma"}, "with mma, not with wgmma"),
        ({"arch": "sm_80", "matrix": "none"}, "with none, not with mma"),
        ({"kernel": "dkdv", "tile": "16x64", "matrix": "mma"}, "with mma, not with wgmma"),
    ],
    ids=str,
)
def test_what_does_not_fit_fails(change, said):
    result = FITS | change
    assert len(report.faults(result)) == 1
    assert said in report.faults(result)[0]
    assert f"FAILS: {report.faults(result)[0]}" in report.render(result)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"arch": "sm_80", "matrix": "mma"},
        {"dtype": "float32", "matrix": "none"},
        {"tile": "32x64", "matrix": "mma"},
    ],
    ids=str,
)
def test_what_fits_passes(change):
    assert report.faults(FITS | change) == []
    assert "FAILS" not in report.render(FITS | change)


def run_command(*words):
    parser = argparse.ArgumentParser()
    report.add_command(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["kernels", *words])
    return arguments.run(arguments)


def test_the_command_fails_when_a_variant_does_not_fit(monkeypatch, capsys):
    monkeypatch.setattr(
        report, "compile_all", lambda wanted, jobs, show: [FITS, FITS | {"spilled": 4}]
    )
    assert run_command("--arch", "sm_90") == 1
    assert "2 variants compiled, 1 do not fit" in capsys.readouterr().out


def test_variants_are_the_whole_product_but_for_wide_heads_in_float32():
    assert len(report.variants("sm_90")) == (3 * 5 + 2) * (3 + 3 + 2)
    assert report.variants("sm_90", widths=[256], dtypes=["float32"]) == []


def test_a_compiler_error_is_reported():
    with pytest.raises(RuntimeError, match="KeyError: 'no such kernel'"):
        report.compile_all([("no such kernel", "sm_90", 64, "float16", "causal")])


@pytest.mark.slow
@pytest.mark.ladder
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_causal_kernels_compile_and_fit(arch, capsys):
    words = ("--features", "causal", "--dtype", "float16", "--width", "64", "--width", "128")
    assert run_command("--arch", arch, *words) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert f"{arch}: 8 variants compiled, 0 do not fit" in printed

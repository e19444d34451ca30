"""The table of tiles: complete, and clear about what it does not hold."""

from itertools import product

import pytest

from attncourse.kernels import blocks


@pytest.mark.parametrize("arch", blocks.ARCHS)
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_every_entry_is_a_tile_that_triton_takes(arch, itemsize):
    widths = [width for width in (1, 64, 65, 128, 256) if blocks.fits(width, itemsize)]
    assert len(widths) >= 2
    for kernel, width, heavy in product(blocks.KERNELS, widths, (False, True)):
        tile = blocks.choose(kernel, arch, width, itemsize, heavy)
        for side in (tile.block_m, tile.block_n):
            assert side >= 16
            assert side & (side - 1) == 0
        assert tile.num_warps in (4, 8)
        assert tile.num_stages >= 1


@pytest.mark.parametrize(("width", "itemsize"), [(257, 2), (129, 4), (65, 8)])
def test_a_head_too_wide_for_a_gpu_is_refused_and_interpreted(width, itemsize):
    said = f"512 bytes a position on a GPU, got width {width} at {itemsize} bytes"
    with pytest.raises(NotImplementedError, match=said):
        blocks.choose("dq", "sm_90", width, itemsize, False)
    assert blocks.choose("dq", "interpreter", width, itemsize, False).block_m >= 16


def test_use_holds_inside_and_not_after():
    before = blocks.choose("dq", "interpreter", 64, 4, False)
    with blocks.use(16, 32):
        inside = blocks.choose("dq", "interpreter", 64, 4, False)
        assert (inside.block_m, inside.block_n) == (16, 32)
        assert blocks.choose("dq", "sm_80", 64, 2, False).block_m == 16
    assert blocks.choose("dq", "interpreter", 64, 4, False) == before


@pytest.mark.parametrize("sides", [(8, 16), (16, 24)], ids=str)
def test_a_side_that_is_no_power_of_two_is_refused(sides):
    with pytest.raises(ValueError, match="power of two, at least 16"), blocks.use(*sides):
        pass

"""The table of tiles: complete, and clear about what it does not hold."""

import pytest

from attncourse.kernels import blocks


@pytest.mark.parametrize("arch", blocks.ARCHS)
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_every_entry_is_a_tile_that_triton_takes(arch, itemsize):
    for kernel in blocks.KERNELS:
        for width in (1, 64) if itemsize > 2 else (1, 64, 65, 128, 256):
            for heavy in (False, True):
                tile = blocks.choose(kernel, arch, width, itemsize, heavy)
                for side in (tile.block_m, tile.block_n):
                    assert side >= 16
                    assert side & (side - 1) == 0
                assert tile.num_warps in (4, 8, 16)
                assert tile.num_stages >= 1


def test_a_head_too_wide_for_a_gpu_is_refused_and_interpreted():
    with pytest.raises(NotImplementedError, match=r"width up to 256 on sm_90 .* 2 bytes, got 257"):
        blocks.choose("dq", "sm_90", 257, 2, False)
    with pytest.raises(NotImplementedError, match="width up to 128 on sm_75"):
        blocks.choose("dq", "sm_75", 129, 4, False)
    with pytest.raises(NotImplementedError, match="width up to 128 on sm_86"):
        blocks.choose("dq", "sm_86", 129, 8, False)
    assert blocks.choose("dq", "interpreter", 257, 2, False).block_m >= 16


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

"""The counter-based generator: published answers, coordinates, frequencies."""

import numpy as np
import pytest

from attncourse import dropout

# From the known-answer file of Random123, philox4x32 with 10 rounds.
KNOWN = [
    ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "seed", "expected"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_words(counter, seed, expected):
    words = dropout.philox(tuple(np.array([c], np.int64) for c in counter), seed)
    assert tuple(int(word[0]) for word in words) == expected


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1], ids=str)
def test_any_tile_holds_the_bits_of_the_whole(seed):
    whole = dropout.keep(np.zeros((2, 3, 17, 23)), 0.3, seed)
    tile = dropout.keep(np.zeros((2, 3, 5, 6)), 0.3, seed, slice(9, 14), slice(16, 22))
    np.testing.assert_array_equal(tile, whole[:, :, 9:14, 16:22])


def test_numpy_and_torch_draw_the_same_bits():
    torch = pytest.importorskip("torch")
    shape = (2, 3, 7, 11)
    for seed in (5, 2**63 + 11):
        bits = dropout.keep(torch.zeros(shape), 0.5, seed)
        np.testing.assert_array_equal(bits.numpy(), dropout.keep(np.zeros(shape), 0.5, seed))


def test_batches_heads_seeds_and_axes_do_not_repeat_each_other():
    bits = dropout.keep(np.zeros((2, 2, 16, 16)), 0.5, 7)
    views = [*bits.reshape(4, -1), bits[0, 0].T.ravel(), dropout.keep(bits, 0.5, 8)[0, 0].ravel()]
    for a in range(len(views)):
        for b in range(a):
            assert 0.35 < (views[a] == views[b]).mean() < 0.65, (a, b)


@pytest.mark.parametrize("dropout_p", [0.0, 0.1, 0.5, 0.9])
def test_the_share_kept_is_within_five_standard_errors(dropout_p):
    bits = dropout.keep(np.zeros((4, 8, 64, 64)), dropout_p, 3)
    error = np.sqrt(dropout_p * (1 - dropout_p) / bits.size)
    assert abs(bits.mean() - (1 - dropout_p)) <= 5 * error


def test_one_head_is_head_zero_of_batch_zero():
    np.testing.assert_array_equal(
        dropout.keep(np.zeros((5, 6)), 0.4, 9), dropout.keep(np.zeros((1, 1, 5, 6)), 0.4, 9)[0, 0]
    )

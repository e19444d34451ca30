"""What crosses the border comes out the same; what lies about its size is refused."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.grading.inside.wire import (
    DTYPES,
    FRAME,
    MAGIC,
    Limits,
    WireError,
    decode,
    encode,
    frame,
    frame_size,
    plain,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(a, b):
    """Compare by type too, so that True is not 1; NaN equals NaN."""
    return repr(a) == repr(b)


@given(values)
def test_plain_values_come_out_the_same(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (1, 2, 1, 2, 1, 2)], ids=str)
def test_arrays_come_out_the_same(dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    came = decode(encode(array))
    np.testing.assert_array_equal(came, array)
    assert (came.dtype, came.shape) == (dtype, shape)
    assert came.flags.writeable
    assert came.flags.owndata


def test_views_and_foreign_byte_orders_are_copied_in_order():
    array = np.arange(12.0).reshape(3, 4)
    for odd in (
        array[:, ::2],
        array.T,
        array[::-1],
        array.astype(">f8"),
        np.broadcast_to(1.0, (2, 2)),
    ):
        came = decode(encode(odd))
        np.testing.assert_array_equal(came, odd)
        assert came.flags.c_contiguous
        assert came.dtype.isnative


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (object(), "object"),
        ({1: 2}, "keys"),
        (np.array([object()]), "dtype object"),
        (np.array(["a"]), "dtype"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
        (np.zeros((1,) * 7), "axes"),
        (1j, "complex"),
        ({1, 2}, "set"),
    ],
)
def test_what_may_not_cross_is_named(value, word):
    with pytest.raises(TypeError, match=word):
        plain(value)


def test_tuples_tensors_and_numpy_scalars_become_plain():
    torch = pytest.importorskip("torch")
    came = plain(
        (np.float32(0.5), np.int8(3), torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    )
    assert same(came[:2], [0.5, 3])
    assert came[2].dtype == np.float32


def test_a_subclass_of_an_array_loses_its_methods():
    class Always(np.ndarray):
        def __eq__(self, other):
            return True

    came = plain(np.zeros(2).view(Always))
    assert type(came) is np.ndarray


def array_bytes(code, shape, raw):
    return (
        b"A" + struct.pack("<BB", code, len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + raw
    )


LIES = {
    "nothing": b"",
    "unknown kind": b"Z",
    "text that is longer": b"S" + struct.pack("<I", 100) + b"short",
    "text that is not UTF-8": b"S" + struct.pack("<I", 1) + b"\xff",
    "list that is longer": b"L" + struct.pack("<I", 2**32 - 1),
    "dict with a number as key": b"M" + struct.pack("<I", 1) + b"TT",
    "dict with a list as key": b"M" + struct.pack("<I", 1) + b"L" + struct.pack("<I", 0) + b"T",
    "integer of a megabyte": b"I" + struct.pack("<I", 1 << 20) + bytes(1 << 20),
    "array of unknown dtype": array_bytes(99, (1,), bytes(8)),
    "array with an exabyte": array_bytes(11, (1 << 60,), bytes(8)),
    "array whose size overflows": array_bytes(11, (1 << 32, 1 << 32), bytes(8)),
    "array with many axes": array_bytes(11, (1,) * 200, bytes(8)),
    "empty array with huge axes": array_bytes(11, (1 << 62, 0), b""),
    "truth value 2": array_bytes(0, (1,), b"\2"),
    "bytes behind": b"NN",
    "deep lists": (b"L" + struct.pack("<I", 1)) * 100 + b"N",
    "very deep lists": (b"L" + struct.pack("<I", 1)) * 1_000_000 + b"N",
    "wide list": b"L" + struct.pack("<I", 200_000) + b"N" * 200_000,
}


@pytest.mark.parametrize("name", LIES)
def test_bytes_that_lie_are_refused(name):
    with pytest.raises(WireError):
        decode(LIES[name])


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(data):
    try:
        decode(data)
    except WireError:
        pass


@settings(max_examples=200)
@given(values, st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_a_value_or_an_error(value, place, byte):
    data = bytearray(encode(value))
    data[place % len(data)] = byte
    try:
        decode(bytes(data))
    except WireError:
        pass


def test_a_message_is_measured_before_it_is_read():
    limits = Limits(frame_bytes=100)
    assert frame_size(frame([1])[: FRAME.size], limits) == len(encode([1]))
    with pytest.raises(WireError, match="at most 100"):
        frame_size(FRAME.pack(MAGIC, 101), limits)
    with pytest.raises(WireError, match="start"):
        frame_size(FRAME.pack(b"PICK", 1), limits)


def test_the_widest_floats_are_read():
    came = plain(np.array([0.5, 2.0], dtype=np.longdouble))
    assert (came.dtype, came.tolist()) == (np.dtype("float64"), [0.5, 2.0])

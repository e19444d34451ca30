"""The values that cross the border between learner code and tests, and their bytes.

The one idea: a few plain kinds of value in a format of our own, every size checked before anything
is allocated. Nothing that comes from the learner's side is ever unpickled, evaluated or loaded.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "DTYPES",
    "FRAME",
    "MAGIC",
    "Limits",
    "StudentError",
    "WireError",
    "decode",
    "encode",
    "frame",
    "frame_size",
    "plain",
]

MAGIC = b"ATC1"
FRAME = struct.Struct("<4sI")
MAX_AXES = 6  # printing an array in a message takes time exponential in its axes
DTYPES = tuple(
    np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
)
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_MAY_CROSS = "None, bool, int, float, str, list, dict with str keys, array of bool, int or float"


class WireError(ValueError):
    """Bytes that are not a value, or a value that is larger than allowed."""


class StudentError(Exception):
    """Learner code failed: its message is text only, never one of the learner's objects."""


@dataclass(frozen=True)
class Limits:
    """What one message may hold.

    Parameters
    ----------
    frame_bytes : int
        Size of a whole message.
    nodes : int
        Number of values in it, those inside lists and dicts included.
    depth : int
        Lists inside lists.
    int_bytes : int
        Size of one integer: longer ones take quadratic time to print.
    """

    frame_bytes: int = 16 << 20
    nodes: int = 100_000
    depth: int = 16
    int_bytes: int = 64


def plain(value: Any, depth: int = 16) -> Any:
    """Turn a value into exactly what crosses the border.

    Parameters
    ----------
    value : object
        A tuple becomes a list, a tensor an array, a NumPy scalar a Python one, an array a copy
        in C order and native byte order.
    depth : int, default 16
        How many lists or dicts may stand inside each other.

    Returns
    -------
    None, bool, int, float, str, list, dict or ndarray

    Raises
    ------
    TypeError
        If a value of this type may not cross.
    ValueError
        If lists stand too deep inside each other.

    Examples
    --------
    >>> plain((1, np.float64(0.5), np.bool_(True)))
    [1, 0.5, True]
    """
    if depth < 0:
        raise ValueError("lists stand more than 16 deep inside each other")
    if value is None or isinstance(value, (bool, np.bool_)):
        return None if value is None else bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [plain(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {_key(key): plain(item, depth - 1) for key, item in value.items()}
    return _plain_array(value)


def _key(key: Any) -> str:
    """Return a dict's key, which must be a str."""
    if not isinstance(key, str):
        raise TypeError(f"a dict's keys must be str, one is {type(key).__name__}")
    return str(key)


def _from_tensor(tensor: Any, torch: Any) -> np.ndarray:
    """Return a tensor as an array; NumPy has no bfloat16, so that becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _plain_array(value: Any) -> np.ndarray:
    """Return an array or a tensor as a new array of an allowed dtype."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = _from_tensor(value, torch)
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"got a {type(value).__name__}; what may be passed or returned: {_MAY_CROSS}"
        )
    dtype = value.dtype.newbyteorder("=")
    if dtype == np.longdouble:  # wider where the machine has it: its numbers are right, only longer
        dtype = np.dtype("float64")
    if dtype not in _CODES:
        raise TypeError(f"got an array of dtype {value.dtype}; allowed: bool, int and float dtypes")
    if value.ndim > MAX_AXES:
        raise TypeError(f"got an array of {value.ndim} axes; at most {MAX_AXES} may cross")
    return np.array(value, dtype=dtype, order="C", subok=False)


def encode(value: Any) -> bytes:
    """Write a plain value as bytes.

    Parameters
    ----------
    value : object
        See `plain`, which is applied to it.

    Returns
    -------
    bytes
    """
    parts: list[bytes] = []
    _encode(plain(value), parts)
    return b"".join(parts)


def _encode(value: Any, parts: list[bytes]) -> None:
    """Append the bytes of one plain value."""
    if value is None or isinstance(value, bool):
        parts.append({None: b"N", True: b"T", False: b"F"}[value])
    elif isinstance(value, int):
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        parts.append(b"I" + struct.pack("<I", len(raw)) + raw)
    elif isinstance(value, float):
        parts.append(b"D" + struct.pack("<d", value))
    elif isinstance(value, str):
        raw = value.encode("utf-8", "replace")
        parts.append(b"S" + struct.pack("<I", len(raw)) + raw)
    elif isinstance(value, list):
        parts.append(b"L" + struct.pack("<I", len(value)))
        for item in value:
            _encode(item, parts)
    elif isinstance(value, dict):
        parts.append(b"M" + struct.pack("<I", len(value)))
        for key, item in value.items():
            _encode(key, parts)
            _encode(item, parts)
    else:
        head = struct.pack("<BB", _CODES[value.dtype], value.ndim)
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        parts.append(b"A" + head + struct.pack(f"<{value.ndim}Q", *value.shape) + little.tobytes())


class _Reader:
    """Read plain values from bytes that may lie about themselves."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.limits = limits
        self.at = 0
        self.nodes = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, which must be there."""
        if count > len(self.data) - self.at:
            raise WireError("a value says that it is longer than its message")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Return the next 32-bit size."""
        return struct.unpack("<I", self.take(4))[0]

    def value(self, depth: int) -> Any:
        """Return the next value."""
        self.nodes += 1
        if depth < 0 or self.nodes > self.limits.nodes:
            raise WireError("a message holds too many values, or they stand too deep")
        kind = self.take(1)
        if kind in b"NTF":
            return {b"N": None, b"T": True, b"F": False}[kind]
        readers = {b"I": self.integer, b"S": self.text, b"A": self.array}
        if kind in readers:
            return readers[kind]()
        if kind == b"D":
            return struct.unpack("<d", self.take(8))[0]
        if kind == b"L":
            return [self.value(depth - 1) for _ in range(self.number())]
        if kind == b"M":
            return self.mapping(depth)
        raise WireError(f"a value of unknown kind {kind!r}")

    def mapping(self, depth: int) -> dict[str, Any]:
        """Return a dict."""
        pairs: dict[str, Any] = {}
        for _ in range(self.number()):
            key = self.value(0)
            if not isinstance(key, str):
                raise WireError("a dict's key is not text")
            pairs[key] = self.value(depth - 1)
        return pairs

    def integer(self) -> int:
        """Return an integer."""
        size = self.number()
        if size > self.limits.int_bytes:
            raise WireError(
                f"an integer of {size} bytes; at most {self.limits.int_bytes} may cross"
            )
        return int.from_bytes(self.take(size), "little", signed=True)

    def text(self) -> str:
        """Return a string."""
        try:
            return self.take(self.number()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise WireError("a text is not UTF-8") from error

    def array(self) -> np.ndarray:
        """Return an array that owns its memory."""
        code, ndim = struct.unpack("<BB", self.take(2))
        if code >= len(DTYPES) or ndim > MAX_AXES:
            raise WireError("an array of an unknown dtype or of more than 6 axes")
        shape = struct.unpack(f"<{ndim}Q", self.take(8 * ndim))
        if math.prod(size for size in shape if size) > 1 << 40:
            raise WireError("an array's shape is too large")
        dtype = DTYPES[code].newbyteorder("<")
        raw = self.take(math.prod(shape) * dtype.itemsize)
        if code == 0 and raw.translate(None, b"\0\1"):
            raise WireError("a truth value that is neither 0 nor 1")
        return np.frombuffer(raw, dtype).reshape(shape).astype(DTYPES[code])


def decode(data: bytes, limits: Limits | None = None) -> Any:
    """Read a value that an untrusted side wrote.

    Parameters
    ----------
    data : bytes
        One message without its frame.
    limits : Limits, optional
        What it may hold.

    Returns
    -------
    object
        A plain value; arrays own their memory.

    Raises
    ------
    WireError
        If the bytes are no value, or a larger one than allowed.
    """
    reader = _Reader(data, limits or Limits())
    value = reader.value(reader.limits.depth)
    if reader.at != len(data):
        raise WireError(f"{len(data) - reader.at} bytes follow the value")
    return value


def frame(value: Any) -> bytes:
    """Write a value as one message: magic, length, bytes."""
    data = encode(value)
    return FRAME.pack(MAGIC, len(data)) + data


def frame_size(head: bytes, limits: Limits) -> int:
    """Read the length from a message's head and refuse one that is too long."""
    magic, size = FRAME.unpack(head)
    if magic != MAGIC:
        raise WireError("a message does not start as one")
    if size > limits.frame_bytes:
        raise WireError(f"a reply of {size} bytes; at most {limits.frame_bytes} may cross")
    return size

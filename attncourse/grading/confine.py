"""Give up, for good, what learner code must never have: processes, sockets, programs, memory.

The one idea: a process can bind itself. Resource limits and a filter of system calls are put on by
our own code before the first line of learner code runs, and no later code can take them off. It
works the same inside every sandbox, and for root too, for whom the kernel ignores NPROC.
Only the standard library is used; on systems other than Linux only the resource limits are left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import socket
import struct
import sys

__all__ = ["FilterError", "confine", "filter_program", "limit_resources"]

_DENY, _ABSENT, _KILL, _ALLOW = 0x0005_0001, 0x0005_0026, 0x8000_0000, 0x7FFF_0000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NEWEST = 450  # calls that are newer than this list are answered with "no such call"

# New processes and threads; other programs; sockets; memory that no limit counts; other processes'
# memory; keys of the kernel; namespaces and mounts; kernel interfaces with a history of holes.
_X86_64 = (
    *(56, 57, 58, 435, 59, 322),
    *(41, 42, 43, 49, 50, 288),
    *(29, 30, 31, 319, 447, 64, 65, 220, 68, 69, 70, 240, 241, 242, 243),
    *(101, 310, 311, 312, 434, 438, 440, 448),
    *(248, 249, 250),
    *(272, 308, 155, 161, 165, 166, 428, 429, 430, 431, 432, 433, 442),
    *(321, 298, 323, 425, 426, 427, 206, 209, 275, 276, 278, 300, 301, 303, 304),
    *(103, 135, 153, 154, 156, 163, 164, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179),
    *(227, 246, 256, 279, 305, 313, 320, 443),
)
_AARCH64 = (
    *(220, 435, 221, 281),
    *(198, 203, 202, 200, 201, 242),
    *(194, 195, 196, 279, 447, 190, 193, 192, 186, 189, 188, 180, 181, 182, 183),
    *(117, 270, 271, 272, 434, 438, 440, 448),
    *(217, 218, 219),
    *(97, 268, 41, 51, 40, 39, 428, 429, 430, 431, 432, 433, 442),
    *(280, 241, 282, 425, 426, 427, 0, 2, 76, 77, 75, 262, 263, 264, 265),
    *(116, 92, 58, 89, 170, 224, 225, 142, 161, 162, 105, 106, 60),
    *(112, 104, 238, 239, 266, 273, 294, 443),
)
_TABLES = {"x86_64": (0xC000_003E, _X86_64), "aarch64": (0xC000_00B7, _AARCH64)}


class FilterError(RuntimeError):
    """The filter of system calls could not be put on, or did not hold when tried."""


def limit_resources(memory_bytes: int, cpu_seconds: int, file_bytes: int) -> None:
    """Lower this process's limits, so that they can never be raised again.

    Parameters
    ----------
    memory_bytes : int
        Address space.
    cpu_seconds : int
        Processor time; the kernel kills a process that uses more.
    file_bytes : int
        Size of one file, the memory behind `/tmp` included.
    """
    wanted = {
        "RLIMIT_AS": memory_bytes,
        "RLIMIT_CPU": cpu_seconds,
        "RLIMIT_FSIZE": file_bytes,
        "RLIMIT_NOFILE": 64,
        "RLIMIT_NPROC": 1,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_RTPRIO": 0,
        "RLIMIT_SIGPENDING": 64,
    }
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # macOS refuses RLIMIT_AS; the other limits hold there all the same.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


def filter_program(machine: str) -> bytes:
    """Write the filter of system calls in the kernel's own instructions.

    Parameters
    ----------
    machine : str
        What `platform.machine()` says: `x86_64` or `aarch64`.

    Returns
    -------
    bytes
        An array of `struct sock_filter`.

    Raises
    ------
    FilterError
        If the numbers of this machine's system calls are not known.
    """
    if machine not in _TABLES:
        known = ", ".join(_TABLES)
        raise FilterError(f"no list of system calls for {machine}; there is one for {known}")
    architecture, denied = _TABLES[machine]
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _NEWEST + 1),
        (_RETURN, 0, 0, _ABSENT),
    ]
    for number in sorted(denied):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _DENY)]
    return b"".join(struct.pack("<HBBI", *step) for step in [*steps, (_RETURN, 0, 0, _ALLOW)])


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _put_on_filter() -> None:
    """Put the filter on this process and try whether it holds."""
    code = filter_program(platform.machine())
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode, die_with_parent = 38, 22, 2, 1
    libc.prctl(die_with_parent, 9, 0, 0, 0)
    if libc.prctl(no_new_privileges, 1, 0, 0, 0):
        raise FilterError("the kernel refused no_new_privs")
    if libc.prctl(set_seccomp, filter_mode, ctypes.byref(program), 0, 0):
        raise FilterError(f"the kernel refused the filter: {os.strerror(ctypes.get_errno())}")
    for attempt in (os.fork, socket.socket):
        try:
            made = attempt()
        except OSError:
            continue
        if made == 0:
            os._exit(1)  # the child of a fork that should have been refused
        raise FilterError(f"{attempt.__name__} still works behind the filter")


def confine(memory_bytes: int, cpu_seconds: int, file_bytes: int = 16 << 20) -> bool:
    """Bind this process: limits everywhere, and the filter on Linux.

    Parameters
    ----------
    memory_bytes, cpu_seconds, file_bytes : int
        See `limit_resources`.

    Returns
    -------
    bool
        True if the filter is on; False on a system that has none.

    Raises
    ------
    FilterError
        If this is Linux and the filter does not hold.
    """
    limit_resources(memory_bytes, cpu_seconds, file_bytes)
    if not sys.platform.startswith("linux"):
        return False
    _put_on_filter()
    return True

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

# Name of a system call: its number on x86_64 and on aarch64.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # New processes and threads, other programs.
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281),
    # Sockets.
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "bind": (49, 200),
    "listen": (50, 201), "accept4": (288, 242), "socketpair": (53, 199),
    # Files that others see too: who holds a lock, who reads.
    "flock": (73, 32), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    # Memory that no limit counts.
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183),
    # Other processes and their memory.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "process_mrelease": (448, 448),
    # Which pages of a shared file are in memory: a channel from one sandbox to a later one.
    "preadv2": (327, 286), "mincore": (27, 232), "fadvise64": (221, 223),
    # Keys of the kernel.
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # Namespaces and mounts.
    "unshare": (272, 97), "setns": (308, 268), "pivot_root": (155, 41), "chroot": (161, 51),
    "mount": (165, 40), "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # Kernel interfaces with a history of holes.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "io_submit": (209, 2), "splice": (275, 76), "tee": (276, 77),
    "vmsplice": (278, 75), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # What only an administrator does.
    "syslog": (103, 116), "personality": (135, 92), "vhangup": (153, 58), "modify_ldt": (154, None),
    "_sysctl": (156, None), "acct": (163, 89), "settimeofday": (164, 170), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "init_module": (175, 105), "delete_module": (176, 106), "quotactl": (179, 60),
    "clock_settime": (227, 112), "kexec_load": (246, 104), "migrate_pages": (256, 238),
    "move_pages": (279, 239), "clock_adjtime": (305, 266), "finit_module": (313, 273),
    "kexec_file_load": (320, 294), "quotactl_fd": (443, 443),
}  # fmt: skip
# Of `fcntl` only these orders are refused: locks, leases and notes of changes on shared files, and
# larger pipes, whose memory no limit counts.
_FCNTL = {"x86_64": 72, "aarch64": 25}
_FCNTL_DENIED = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026, 1031)
_SECOND_ARGUMENT = 24  # its place in `struct seccomp_data`, lower half
_ARCHITECTURES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}


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


def denied(machine: str) -> dict[str, int]:
    """Return the refused system calls of a kind of machine: name -> number."""
    column, _ = _ARCHITECTURES[machine]
    found = {name: numbers[column] for name, numbers in _DENIED.items()}
    return {name: number for name, number in found.items() if number is not None}


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
    if machine not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise FilterError(f"no list of system calls for {machine}; there is one for {known}")
    _, architecture = _ARCHITECTURES[machine]
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _NEWEST + 1),
        (_RETURN, 0, 0, _ABSENT),
    ]
    orders = [(_EQUAL, 0, 1, order) for order in _FCNTL_DENIED]
    orders = [step for order in orders for step in (order, (_RETURN, 0, 0, _DENY))]
    own = [(_LOAD, 0, 0, _SECOND_ARGUMENT), *orders, (_RETURN, 0, 0, _ALLOW)]
    steps += [(_EQUAL, 0, len(own), _FCNTL[machine]), *own]
    for number in sorted(denied(machine).values()):
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

"""Ask the operating system how much this process has sent: a second witness beside `wire`.

New here: `wire.recorded` counts what our code hands over, the kernel counts what leaves a socket.
The two must agree but for the headers that gloo puts around each message.

Left out: anything but Linux, where no such number is to be had, and NVLink or InfiniBand.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

__all__ = ["bytes_sent"]

_DESCRIPTORS = Path("/proc/self/fd")
# Where `tcpi_bytes_sent` stands in Linux's struct tcp_info (since 4.19), and where it ends.
_OFFSET, _END = 200, 208


def bytes_sent() -> int | None:
    """Count the bytes that this process has sent over the TCP sockets that it has open.

    Returns
    -------
    int or None
        All bytes since each socket was opened; None where the system does not say.
    """
    if not _DESCRIPTORS.exists() or not hasattr(socket, "TCP_INFO"):
        return None
    counts = [_of_descriptor(int(entry.name)) for entry in _DESCRIPTORS.iterdir()]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _of_descriptor(descriptor: int) -> int | None:
    """Read one socket's counter; None for whatever is not a TCP socket."""
    try:
        if not os.readlink(_DESCRIPTORS / str(descriptor)).startswith("socket:"):
            return None
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.type != socket.SOCK_STREAM or copy.family == socket.AF_UNIX:
                return None
            facts = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:  # closed meanwhile
        return None
    return struct.unpack_from("Q", facts, _OFFSET)[0] if len(facts) >= _END else None

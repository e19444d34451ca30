"""A limit on the trusted process's own memory, while it holds what learner code returned.

The one idea: a small reply can grow in our hands, as a list of texts does that becomes an array of
the longest one's width. With a limit that is a `MemoryError` in one test, not a machine that swaps.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["ROOM", "bounded_memory"]

# For torch (0.5 GiB of address space) and all that the tests of one submission may hold.
ROOM = 1536 << 20


@contextlib.contextmanager
def bounded_memory(room: int = ROOM) -> Iterator[None]:
    """Limit this process's address space to what it has now and some more, for a while.

    Parameters
    ----------
    room : int
        Bytes above what is in use.

    Notes
    -----
    Only the soft limit is lowered: a worker that is started meanwhile sets its own. On systems
    other than Linux nothing is limited.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as source:
        used = int(source.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    tops = [used + room, *(top for top in (soft, hard) if top != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(tops), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

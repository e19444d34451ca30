"""Cases that a rung is known to fail, and why: declared here, and executed.

Such a case is run like any other and must fail. It is then left out of the verdict, and the
report says so. A flaw that has been mended fails the run until it is deleted here.
"""

from __future__ import annotations

_LSE_ALONE = "the backward pass makes weights from the log-sum-exp alone, where log n is lost"
_FLOORS = {
    f"floors/{floor}-backward": _LSE_ALONE for floor in ("finfo-min", "minus-1e30", "minus-1e9")
}
# PyTorch's own CPU kernel has this flaw, so `sdpa` cannot mend it.
FLAWS = {"sdpa": _FLOORS}


def flaws_of(name: str) -> dict[str, str]:
    """Return the cases that a rung is known to fail, each with its reason."""
    return FLAWS.get(name, {})

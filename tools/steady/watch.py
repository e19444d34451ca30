"""Inside a chapter's kernel: note by how much each assert holds, one JSON line each.

The instrumented cells call this module. A failed assert is noted and the chapter goes on, so that
one run finds every sentence that does not hold.
"""

from __future__ import annotations

import json
import math
import operator
import os

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_margins: list[tuple[float, float, float]] = []


def compare(left, *rest):
    """Compare as Python does in ``left < middle < right``, and note the slack of each step.

    Returns
    -------
    bool or array
        What the comparison itself would have given.
    """
    result = True
    for symbol, right in zip(rest[::2], rest[1::2], strict=True):
        step = _ORDER[symbol](left, right)
        _note(*((left, right) if symbol[0] == "<" else (right, left)), swapped=symbol[0] == ">")
        result = step if result is True else result and step
        left = right
    return result


def hold(cell, line, text, verdict):
    """Note an assert: whether it holds, and the smallest slack of its comparisons."""
    _write(cell, line, text, bool(verdict), _taken())


def call(cell, line, text, function, *arguments, **keywords):
    """Run a function such as ``np.testing.assert_allclose``; note its verdict and its slack."""
    try:
        function(*arguments, **keywords)
        verdict = True
    except AssertionError:
        verdict = False
    if function.__name__ == "assert_allclose":
        _note_close(*arguments, **keywords)
    elif function.__name__ == "assert_array_less":
        _note(*arguments[:2])
    _write(cell, line, text, verdict, _taken())


def _taken():
    """Hand over the tightest comparison since the last assert, and forget all."""
    tightest = min(_margins, default=None)
    _margins.clear()
    return tightest


def _note(low, high, swapped=False):
    """Keep the smallest ``high - low`` with the two numbers, in the order of the source."""
    import numpy as np

    try:
        low, high = np.broadcast_arrays(_numbers(low), _numbers(high))
    except (TypeError, ValueError):
        return  # words, objects: only the verdict counts
    if low.size == 0:
        return
    with np.errstate(invalid="ignore"):
        slack = high - low
    at = int(np.argmin(np.where(np.isnan(slack), -np.inf, slack)))
    pair = float(low.flat[at]), float(high.flat[at])
    _margins.append((float(slack.flat[at]), *(pair[::-1] if swapped else pair)))


def _note_close(actual, desired, rtol=1e-7, atol=0.0, *_, **__):
    """Keep the largest error over the error allowed: 1 is the bound."""
    import numpy as np

    actual, desired = np.broadcast_arrays(_numbers(actual), _numbers(desired))
    allowed = atol + rtol * np.abs(desired)
    error = np.abs(np.where(actual == desired, 0, actual - desired))
    used = np.where(error == 0, 0, error / np.where(allowed == 0, np.finfo(float).tiny, allowed))
    worst = float(np.max(used, initial=0.0))
    _margins.append((1 - worst, worst, 1.0))


def _numbers(values):
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"not real numbers: {array.dtype}")
    return array.astype(np.float64)


def _write(cell, line, text, verdict, margin):
    row = {"cell": cell, "line": line, "text": text, "holds": verdict}
    if margin is not None and all(map(math.isfinite, margin)):
        row |= dict(zip(("slack", "left", "right"), margin, strict=True))
    with open(os.environ["STEADY_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps(row) + "\n")

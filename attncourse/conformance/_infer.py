"""Find out what a function under test can do.

A rung of the ladder says so in `LADDER`. Any other function is asked in two ways: the
names of its arguments (`is_causal` means that it must mask causally), and one small trial
call for what no argument tells: the library, axes in front, and gradients.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from attncourse.conformance._flaws import flaws_of
from attncourse.conformance._limits import EXTRAS
from attncourse.conformance._subject import Subject, check_library
from attncourse.features import ARGUMENTS
from attncourse.rungs import FEATURES, LADDER, Rung, attention, by_name

# Half types are measured against plain PyTorch, so these cases need it.
_HALF = {"half"} if importlib.util.find_spec("torch") else set()


def subject_of(
    fn: Callable[..., Any] | Rung | str,
    features: Iterable[str] | None = None,
    library: str | None = None,
    device: str | None = None,
    strict: bool = False,
) -> Subject:
    """Wrap a function, a rung or a rung's name for the suite.

    Parameters
    ----------
    fn : callable, Rung or str
        What to test. A rung is called through `attncourse.attention`.
    features : iterable of str, optional
        What it can do: keys of `attncourse.rungs.FEATURES` and of `EXTRAS`. Found out by
        default.
    library : {"numpy", "torch"}, optional
        What it takes. Found out by default: NumPy when a call with arrays gives an array.
    device : str, optional
        Where tensors are put; on the CPU by default, or where a rung needs them.
    strict : bool
        Whether a warning fails a case.

    Returns
    -------
    Subject

    Raises
    ------
    ValueError
        For an unknown feature or library.
    TypeError
        When `fn` cannot be called.
    ModuleNotFoundError
        When it takes tensors and torch is not installed.
    """
    if isinstance(fn, str):
        fn = by_name(fn)
    rung = fn if isinstance(fn, Rung) else _rung_behind(fn)
    if rung is not None:
        return _rung_subject(rung, features, device, strict)
    if not callable(fn):
        raise TypeError(f"wanted a function or the name of a rung, got {type(fn).__name__}")
    name = f"{getattr(fn, '__module__', '?')}:{getattr(fn, '__name__', type(fn).__name__)}"
    if library is None:
        library = "torch" if not _takes(fn, "numpy") and _takes(fn, "torch") else "numpy"
    check_library(library)
    subject = Subject(name, fn, library, frozenset(), device=device or "cpu", strict=strict)
    subject.two_axes = _answers(fn, library) or not _answers(fn, library, (2, 3))
    subject.features, subject.found_by = _known(features) if features else _found(subject)
    return subject


def _rung_behind(fn: Any) -> Rung | None:
    """Find the rung whose function this is."""
    for rung in LADDER:
        if fn is rung.function:
            return rung
    return None


def _rung_subject(
    rung: Rung, features: Iterable[str] | None, device: str | None, strict: bool
) -> Subject:
    check_library(rung.library)
    limits = rung.limits
    extras = {"scale"} | _HALF | ({"grad_twice"} if rung.grad_twice else set())
    declared = rung.features | extras
    return Subject(
        name=rung.name,
        function=partial(attention, rung=rung.name),
        library=rung.library,
        features=_known(features)[0] if features else declared,
        found_by="given" if features else "declared in LADDER",
        device=device or limits.device,
        dtypes=limits.dtypes,
        max_scores=limits.max_scores,
        max_gradcheck=limits.max_gradcheck,
        strict=strict,
        flaws=flaws_of(rung.name),
    )


def _known(features: Iterable[str]) -> tuple[frozenset[str], str]:
    if isinstance(features, str):
        features = features.split(",")
    given = frozenset(name.strip() for name in features)
    if unknown := sorted(given - FEATURES.keys() - EXTRAS.keys()):
        raise ValueError(f"no feature is called {unknown}; there are {[*FEATURES, *EXTRAS]}")
    return given, "given"


def arguments_of(fn: Callable[..., Any]) -> list[str]:
    """Name a function's arguments; none where Python cannot tell, as of some builtins."""
    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []


def _found(subject: Subject) -> tuple[frozenset[str], str]:
    """Infer features from the arguments' names and from a trial call."""
    arguments = arguments_of(subject.function)
    known = {**ARGUMENTS, "scale": ("scale",)}
    named = [name for name in known if name in arguments]
    features = {feature for name in named for feature in known[name]} | _HALF
    how = f"its arguments {', '.join(named)}" if named else "its arguments (query, key, value only)"
    if _answers(subject.function, subject.library, leading=(2, 3)):
        features.add("batch")
    if subject.library == "torch" and _gives_gradients(
        subject.function, () if subject.two_axes else (2, 3)
    ):
        features.add("grad")
    return frozenset(features), f"found by {how} and by trial calls"


def _trial(library: str, leading: tuple[int, ...] = ()) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((*leading, *size)) for size in ((3, 4), (5, 4), (5, 2))]
    if library == "numpy":
        return arrays
    import torch

    return [torch.from_numpy(array) for array in arrays]


def _answers(fn: Callable[..., Any], library: str, leading: tuple[int, ...] = ()) -> bool:
    """Tell whether a trial call returns an array of the library and of the right shape."""
    if library == "torch" and importlib.util.find_spec("torch") is None:
        return False
    inputs = _trial(library, leading)
    try:
        with np.errstate(all="ignore"):
            result = fn(*inputs)
    except (Exception, SystemExit):
        return False
    return isinstance(result, type(inputs[0])) and tuple(result.shape) == (*leading, 3, 2)


def _takes(fn: Callable[..., Any], library: str) -> bool:
    return _answers(fn, library) or _answers(fn, library, (2, 3))


def _gives_gradients(fn: Callable[..., Any], leading: tuple[int, ...]) -> bool:
    try:
        result = fn(*(array.requires_grad_() for array in _trial("torch", leading)))
    except (Exception, SystemExit):
        return False
    return bool(getattr(result, "requires_grad", False))

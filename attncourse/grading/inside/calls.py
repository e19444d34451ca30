"""What a test means when it calls learner code: one implementation for both transports.

The one idea: the instant check in the learner's own process and the sandboxed worker answer calls
with this same class, so a test cannot tell them apart.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attncourse.grading.inside.wire import StudentError, encode, plain

__all__ = ["Calls", "failure"]

TEXT_LIMIT = 600
_KINDS = ("call", "new", "method", "attribute", "grad", "measure", "changed")


def failure(error: BaseException) -> StudentError:
    """Turn an exception of learner code into one that holds text only."""
    try:
        text = str(error)
    except BaseException:
        text = "(its message cannot be printed)"
    name = type(error).__name__
    short = text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + " …"
    return StudentError(f"{name}: {short}" if short else name)


class Calls:
    """Answer calls with a learner's functions and classes.

    Parameters
    ----------
    namespace : mapping of str to object
        The learner's names, live: what is defined later is seen.
    arrays : mapping of str to str
        Name of a function or class -> `numpy` or `torch`: what its arrays are given as.
    """

    def __init__(
        self, namespace: Mapping[str, Any], arrays: Mapping[str, str] | None = None
    ) -> None:
        self.namespace = namespace
        self.arrays = dict(arrays or {})
        self.objects: list[tuple[Any, str]] = []

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Answer one request.

        Parameters
        ----------
        request : mapping
            `do` names one of the methods below; the rest are its arguments, by name.

        Returns
        -------
        object
            Plain, see `attncourse.grading.inside.wire.plain`.

        Raises
        ------
        StudentError
            If the learner's code fails.
        """
        if request["do"] not in _KINDS:
            raise ValueError(f"do must be one of {', '.join(_KINDS)}, got {request['do']!r}")
        given = {key: value for key, value in request.items() if key not in ("do", "id")}
        return getattr(self, request["do"])(**given)

    def call(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function and return what it gave, plain."""
        return self._run(self._named(name), self._library(name), args, kwargs or {})

    def new(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> int:
        """Make an object of a class and return its number."""
        library = self._library(name)
        made = self._run(self._named(name), library, args, kwargs or {}, keep=True)
        self.objects.append((made, library))
        return len(self.objects) - 1

    def method(
        self,
        handle: int,
        name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a method of an object that `new` made."""
        owner, library = self.objects[handle]
        return self._run(self._attribute(owner, name), library, args, kwargs or {})

    def attribute(self, handle: int, name: str) -> Any:
        """Return an attribute of an object that `new` made, plain."""
        return self._cross(self._attribute(self.objects[handle][0], name), f"the attribute {name}")

    def grad(
        self, name: str, wrt: Sequence[str], kwargs: Mapping[str, Any], cotangent: Any = None
    ) -> dict[str, Any]:
        """Return the gradients of a function's result with respect to some of its arguments.

        Parameters
        ----------
        name : str
            A function whose arrays are tensors.
        wrt : sequence of str
            Names in `kwargs`.
        kwargs : mapping
            All arguments, by name.
        cotangent : ndarray, optional
            What the result is multiplied with before it is summed; ones by default.

        Returns
        -------
        dict of str to ndarray or None
            None where the result does not depend on the argument.
        """
        import torch

        function = self._named(name)
        try:
            given = _given(dict(kwargs), "torch")
            inputs = [given[key].requires_grad_() for key in wrt]
            result = function(**given)
            weight = torch.ones_like(result) if cotangent is None else torch.as_tensor(cotangent)
            grads = torch.autograd.grad(result, inputs, weight.to(result.dtype), allow_unused=True)
        except BaseException as error:
            raise failure(error) from None
        return {key: self._cross(grad, "a gradient") for key, grad in zip(wrt, grads, strict=True)}

    def measure(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[Any, int]:
        """Call a function; return its result and the most memory that it took on the way, in bytes.

        Notes
        -----
        For the learner's own process. The grader measures from outside instead, where learner code
        cannot reach.
        """
        tracemalloc.start()
        try:
            value = self.call(name, args, kwargs)
            return value, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def changed(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[Any, list[str]]:
        """Call a function; return its result and which of its arguments it has changed in place.

        An argument is called `argument 1` if it is the first, and by its name if it was given so.
        """
        library = self._library(name)
        before = {f"argument {n}": value for n, value in enumerate(args, start=1)}
        before |= dict(kwargs or {})
        given = _given(before, library)
        own = [value for key, value in given.items() if key not in (kwargs or {})]
        named = {key: given[key] for key in kwargs or {}}
        result = self._run(self._named(name), library, own, named, copy=False)
        after = {key: self._cross(value, "an argument") for key, value in given.items()}
        same = {key: encode(plain(before[key])) == encode(after[key]) for key in before}
        return result, [key for key in before if not same[key]]

    def _named(self, name: str) -> Any:
        """Return what the learner defined under a name."""
        if name not in self.namespace:
            raise StudentError(f"you have not defined {name}")
        return self.namespace[name]

    def _library(self, name: str) -> str:
        """Return which library's arrays a name is given."""
        return self.arrays.get(name, "numpy")

    def _attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute of a learner's object."""
        try:
            return getattr(owner, name)
        except AttributeError:
            raise StudentError(f"{type(owner).__name__} has no {name}") from None
        except BaseException as error:
            raise failure(error) from None

    def _run(
        self,
        function: Any,
        library: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        keep: bool = False,
        copy: bool = True,
    ) -> Any:
        """Call a learner's callable; whatever it raises becomes text."""
        own, named = list(args), dict(kwargs)
        try:
            if copy:
                own, named = _given(own, library), _given(named, library)
            made = function(*own, **named)
        except MemoryError as error:
            raise failure(error) from error
        except BaseException as error:
            raise failure(error) from None
        return made if keep else self._cross(made, "the result")

    def _cross(self, value: Any, what: str) -> Any:
        """Return a learner's value as it crosses, or say what is wrong with it."""
        try:
            return plain(value)
        except BaseException as error:
            raise StudentError(f"{what} cannot be read: {failure(error)}") from None


def _given(value: Any, library: str) -> Any:
    """Copy arguments, so that learner code can never change a test's own arrays."""
    if isinstance(value, np.ndarray):
        copy = value.copy()
        if library != "torch":
            return copy
        import torch

        return torch.from_numpy(copy)
    if isinstance(value, (list, tuple)):
        return [_given(item, library) for item in value]
    if isinstance(value, dict):
        return {key: _given(item, library) for key, item in value.items()}
    if library == "torch" and "torch" in sys.modules and hasattr(value, "detach"):
        return value.detach().clone()
    return value

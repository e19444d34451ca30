"""Read the settings that a file of weights comes with: each is there and makes sense, or is named.

Left out: what the settings mean to a family of models (`attncourse.pretrained.gpt2` and others).
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

MOST_LAYERS = 10_000


def size(
    settings: Mapping[str, Any], name: str, default: int | None = None, *, most: int = 2**31 - 1
) -> int:
    """Return a setting that counts something.

    Parameters
    ----------
    settings : mapping
        The file's configuration.
    name : str
        Of the setting.
    default : int, optional
        What stands for it where it is absent or None; without one it must be there.
    most : int, default 2**31 - 1
        What no honest file exceeds.

    Raises
    ------
    ValueError
        When it is not there, or no whole number from 1 to `most`.

    Examples
    --------
    >>> size({"n_layer": 12}, "n_layer"), size({}, "type_vocab_size", 2)
    (12, 2)
    """
    came = _given(settings, name, default)
    if isinstance(came, bool) or not isinstance(came, Integral) or not 1 <= int(came) <= most:
        got = repr(came) if name in settings else "none"
        raise ValueError(f"the configuration must give {name!r}, 1 to {most:,}, got {got}")
    return int(came)


def tiny(settings: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """Return a setting that keeps a norm from dividing by 0.

    Parameters
    ----------
    settings, name, default
        As in `size`.

    Raises
    ------
    ValueError
        When it is not there, or no number between 0 and 1.
    """
    came = _given(settings, name, default)
    if isinstance(came, bool) or not isinstance(came, int | float) or not 0 < came < 1:
        got = repr(came) if name in settings else "none"
        raise ValueError(f"the configuration must give {name!r}, between 0 and 1, got {got}")
    return float(came)


def base(settings: Mapping[str, Any], name: str, default: float = 10000.0) -> float:
    """Return the base of rotary angles.

    Parameters
    ----------
    settings, name, default
        As in `size`.

    Raises
    ------
    ValueError
        When it is no finite number above 0.
    """
    came = _given(settings, name, default)
    if isinstance(came, bool) or not isinstance(came, int | float) or not 0 < came < 1e30:
        raise ValueError(f"the configuration must give {name!r}, above 0 and finite, got {came!r}")
    return float(came)


def table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a setting that holds settings; an empty one where it is absent or None.

    Raises
    ------
    ValueError
        When it is something else.
    """
    came = settings.get(name)
    if came is not None and not isinstance(came, Mapping):
        raise ValueError(f"the configuration must give {name!r} as a table, got {came!r}")
    return came or {}


def one_of(known: Mapping[str, str], came: Any) -> str:
    """Translate the name of an activation.

    Raises
    ------
    NotImplementedError
        When our models have none of that name.
    """
    if not isinstance(came, str) or came not in known:
        raise NotImplementedError(f"no activation {came!r} here, only {sorted(known)}")
    return known[came]


def refuse(settings: Mapping[str, object], **harmless: object) -> None:
    """Refuse settings that change the computation in a way that our models do not have.

    Parameters
    ----------
    settings : mapping
        The file's configuration.
    **harmless
        For each setting, the only value that our model computes; absent or None is fine too.

    Raises
    ------
    NotImplementedError
        Naming the setting, its value and the value that is known.
    """
    for name, value in harmless.items():
        if settings.get(name) not in (None, value):
            raise NotImplementedError(
                f"the configuration says {name} = {settings[name]!r}; only {value!r} is known here"
            )


def _given(settings: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a setting, or what stands for it where it is absent or None."""
    came = settings.get(name)
    return default if came is None else came

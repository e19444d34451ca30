"""Put the tensors of a file into a model: every one of them, by name, or not at all.

The one idea: a key map is a promise that can be checked. Each tensor of the file goes to named
parameters or is listed as not needed; a parameter without a tensor, or a tensor without a place,
is an error that names it. Left out: reading files (`attncourse.pretrained.files`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Goes:
    """Where one tensor of a file goes.

    Parameters
    ----------
    *names : str
        Parameters of our model. Several share the tensor's rows in equal parts, in this order.
    transposed : bool, default False
        The file keeps it the other way round (GPT-2's maps are written input by output).
    """

    names: tuple[str, ...]
    transposed: bool = False

    def __init__(self, *names: str, transposed: bool = False) -> None:
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "transposed", transposed)

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """Cut a tensor into what each parameter gets."""
        tensor = tensor.T if self.transposed and tensor.ndim == 2 else tensor
        if tensor.ndim == 0 or len(self.names) == 1:
            return [tensor] * len(self.names)
        return list(tensor.tensor_split(len(self.names)))


@dataclass(frozen=True)
class Plan:
    """How a file of one family becomes a model of ours.

    Parameters
    ----------
    make : callable
        Builds the empty model.
    keys : mapping of str to Goes
        For each tensor that the file must have, where it goes.
    prefixes : tuple of str
        What may stand in front of the names, depending on which class saved them.
    renames : mapping of str to str
        Older spellings inside names.
    copies : mapping of str to str
        Tensors that a file may repeat, and the tensor that they must equal.
    flattened : mapping of str to tuple of str
        New names, and the tensors that become their rows: each is flattened to (rows, width), the
        width being that of our parameter, and they are put under each other.
    unused : tuple of str
        Regular expressions of tensors that the model has no use for.
    """

    make: Callable[[], nn.Module]
    keys: Mapping[str, Goes]
    prefixes: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    flattened: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    def plain(self, name: str) -> str:
        """Return a tensor's name without prefix and in today's spelling."""
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        for old, new in self.renames.items():
            name = name.replace(old, new)
        return name


def fill(
    plan: Plan, tensors: Mapping[str, Tensor], *, dtype: torch.dtype = torch.float32
) -> nn.Module:
    """Build the model of a plan and give every parameter its tensor.

    Parameters
    ----------
    plan : Plan
        From a family's module, for instance `attncourse.pretrained.gpt2`.
    tensors : mapping of str to Tensor
        Those of the file.
    dtype : torch.dtype, default torch.float32
        What the model computes in.

    Returns
    -------
    torch.nn.Module
        In evaluation mode.

    Raises
    ------
    ValueError
        When a tensor is missing, left over, or of another shape than its parameter; it is named.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = plan.plain(name)
        if plain in found:
            raise ValueError(f"the file holds tensor {plain!r} twice, once as {name!r}")
        found[plain] = tensor
    _check_names(plan, found)
    with torch.device("meta"):  # no memory, and no random start that nobody would see
        model = plan.make()
    waiting = dict(model.named_parameters())  # a tied parameter once, under its first name
    for name, parts in plan.flattened.items():
        width = waiting[plan.keys[name].names[0]].shape[-1]
        found[name] = torch.cat([_rows(part, found.pop(part), width) for part in parts])
    given: dict[str, Tensor] = {}
    for name, goes in plan.keys.items():
        if not found[name].is_floating_point():
            raise ValueError(
                f"tensor {name!r} must hold floating-point numbers, got {found[name].dtype}"
            )
        for ours, part in zip(goes.names, goes.parts(found[name]), strict=True):
            wanted = waiting.pop(ours)
            if part.shape != wanted.shape:
                raise ValueError(
                    f"tensor {name!r} has shape {tuple(found[name].shape)}; its part for "
                    f"{ours!r} is {tuple(part.shape)}, wanted {tuple(wanted.shape)}"
                )
            # A copy: the file may change later, and numbers at odd addresses are read slowly.
            given[ours] = part.to(dtype, copy=True, memory_format=torch.contiguous_format)
    if waiting:
        raise ValueError(f"the key map has nothing for the parameters {sorted(waiting)}")
    _assign(model, given)
    return model.eval()


def _check_names(plan: Plan, found: Mapping[str, Tensor]) -> None:
    """Compare the names in a file with those that the plan knows."""
    parts = {part for names in plan.flattened.values() for part in names}
    wanted = (set(plan.keys) - set(plan.flattened)) | parts
    missing = sorted(wanted - set(found))
    rest = [
        name
        for name in sorted(set(found) - wanted - set(plan.copies))
        if not any(re.fullmatch(pattern, name) for pattern in plan.unused)
    ]
    if missing:
        instead = f"; it holds {_some(rest)}, which the model has no place for" if rest else ""
        raise ValueError(f"the file lacks {_some(missing)}, which the model needs{instead}")
    if rest:
        raise ValueError(f"the file holds {_some(rest)}, which the model has no place for")
    for copy, original in plan.copies.items():
        if copy in found and not torch.equal(found[copy], found[original]):
            raise ValueError(
                f"tensors {copy!r} and {original!r} differ, but this model uses one for both"
            )


def _rows(name: str, tensor: Tensor, width: int) -> Tensor:
    """Write a tensor as rows of one width."""
    if tensor.numel() % width or not tensor.numel():
        raise ValueError(
            f"tensor {name!r} has shape {tuple(tensor.shape)}, wanted rows of {width} numbers"
        )
    return tensor.reshape(-1, width)


def _some(names: list[str]) -> str:
    """List up to five names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ("tensor " if len(names) == 1 else "tensors ") + ", ".join(map(repr, names[:5])) + more


def _assign(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Replace the empty parameters; those that are tied stay one parameter."""
    every = list(model.named_parameters(remove_duplicate=False))
    fresh = {
        parameter: nn.Parameter(given[name], requires_grad=parameter.requires_grad)
        for name, parameter in every
        if name in given
    }
    for name, parameter in every:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, fresh[parameter])


def in_layers(num_layers: int, keys: Mapping[str, Goes], theirs: str, ours: str) -> dict[str, Goes]:
    """Repeat one layer's key map for all layers.

    Parameters
    ----------
    num_layers : int
        How many.
    keys : mapping of str to Goes
        Names inside one layer.
    theirs, ours : str
        What stands in front of them, with ``{}`` for the layer's number.

    Returns
    -------
    dict of str to Goes
    """
    return {
        f"{theirs.format(number)}.{name}": Goes(
            *(f"{ours.format(number)}.{part}" for part in goes.names), transposed=goes.transposed
        )
        for number in range(num_layers)
        for name, goes in keys.items()
    }


def affine(theirs: str, *ours: str, transposed: bool = False, bias: bool = True) -> dict[str, Goes]:
    """Map the weight and the bias of a linear map or a norm.

    Examples
    --------
    >>> affine("ln_f", "norm")["ln_f.bias"].names
    ('norm.bias',)
    """
    kinds: Iterable[str] = ("weight", "bias") if bias else ("weight",)
    return {
        f"{theirs}.{kind}": Goes(*(f"{name}.{kind}" for name in ours), transposed=transposed)
        for kind in kinds
    }

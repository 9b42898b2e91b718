"""Whether an exported program takes every shape that its model takes, with the same numbers, and no other.

It needs no patch, and works on any ``torch.export.ExportedProgram``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from yobx.helpers.reproducer import compare, leaves
from yobx.torch.draws import Draw, declared, draws

EQUAL = "equal"
DIFFERS = "differs"
REJECTED = "rejected"
ACCEPTED = "accepted"
BOTH_FAIL = "both fail"
WRONG = (DIFFERS, REJECTED, ACCEPTED)


class NarrowProgramError(AssertionError):
    """A program rejects, or gets wrong, shapes that its model takes, or takes some that it does not."""


@dataclass(frozen=True)
class Trial:
    """What happened with one draw of sizes.

    Attributes:
        shapes: of the inputs, such as ``x (2, 5), y (2, 1)``.
        outcome: ``equal``; ``differs`` from eager; ``rejected`` by the program alone; ``accepted`` by the program
            alone; ``both fail``.
        why: by how much it differs, the guard that failed, or eager's error.
    """

    shapes: str
    outcome: str
    why: str = ""


@dataclass
class Report:
    """Every draw and its outcome; printed, a table."""

    trials: list[Trial] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the program did as eager on every draw, and ran on one at least."""
        outcomes = [trial.outcome for trial in self.trials]
        return EQUAL in outcomes and not any(outcome in WRONG for outcome in outcomes)

    def raise_if_narrow(self) -> None:
        """For pipelines: stop when the program is not what the model is.

        Raises:
            NarrowProgramError: its message is the table.
        """
        if not self.ok:
            raise NarrowProgramError(f"the exported program does not do what the model does\n{self}")

    def __str__(self) -> str:
        width = max((len(trial.shapes) for trial in self.trials), default=0)
        rows = [f"{trial.outcome:<9}  {trial.shapes:<{width}}  {trial.why}".rstrip() for trial in self.trials]
        counts = dict.fromkeys((EQUAL, *WRONG, BOTH_FAIL), 0)
        for trial in self.trials:
            counts[trial.outcome] += 1
        summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        return "\n".join([*rows, f"{'general' if self.ok else 'NOT general'}: {summary}"])


def verify(
    ep: torch.export.ExportedProgram,
    model: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    atol: float = 1e-4,
) -> Report:
    """Run program and model on many sizes of the dimensions declared dynamic, and compare.

    Args:
        ep: the program.
        model: the module that it was exported from; a copy of it runs, a new one for every draw.
        args: positional inputs of the sample.
        kwargs: keyword inputs of the sample, caches included.
        dynamic_shapes: as given to ``torch.export.export``: a dict by argument name or a sequence.
        atol: largest absolute difference that counts as equal.

    Raises:
        ValueError: when ``dynamic_shapes`` does not fit the inputs.
    """
    sample = (tuple(args), dict(kwargs or {}))
    flat, spec = pytree.tree_flatten(sample)
    names = _names(model, sample)
    dimensions = declared(flat, _leaf_specs(model, sample, dynamic_shapes))
    program = ep.module()
    generator = torch.Generator().manual_seed(0)
    report = Report()
    for draw in draws(dimensions):
        inputs = [_resized(leaf, position, draw, generator) for position, leaf in enumerate(flat)]
        shapes = ", ".join(
            f"{name} {tuple(leaf.shape)}" for name, leaf in zip(names, inputs, strict=True) if hasattr(leaf, "shape")
        )

        def fresh(inputs: list[Any] = inputs) -> Any:
            return pytree.tree_unflatten([_copied(leaf) for leaf in inputs], spec)

        report.trials.append(_trial(shapes, _fresh(model), program, fresh, atol))
    return report


def _trial(
    shapes: str, model: Callable[..., Any], program: Callable[..., Any], inputs: Callable[[], Any], atol: float
) -> Trial:
    with torch.no_grad():
        expected, eager_error = _outcome(model, inputs())
        got, program_error = _outcome(program, inputs())
    if eager_error and program_error:
        return Trial(shapes, BOTH_FAIL, f"eager: {eager_error}")
    if eager_error:
        return Trial(shapes, ACCEPTED, f"eager: {eager_error}")
    if program_error:
        return Trial(shapes, REJECTED, program_error)
    difference = compare(expected, got, atol)
    return Trial(shapes, DIFFERS if difference else EQUAL, difference or "")


def _outcome(function: Callable[..., Any], inputs: Any) -> tuple[Any, str]:
    args, kwargs = inputs
    try:
        return function(*args, **kwargs), ""
    except Exception as error:
        lines = str(error).strip().splitlines()
        return None, f"{type(error).__name__}: {lines[0] if lines else ''}"


def _fresh(model: torch.nn.Module) -> torch.nn.Module:
    # Some models remember earlier calls (dynamic RoPE); a program does not.
    return copy.deepcopy(model)


def _copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _resized(leaf: Any, position: int, draw: Draw, generator: torch.Generator) -> Any:
    """A tensor of the drawn shape whose values are taken from the sample's: indices and masks stay valid."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    shape = [draw.get((position, axis), size) for axis, size in enumerate(leaf.shape)]
    if shape == list(leaf.shape):
        return leaf
    count = torch.Size(shape).numel()
    if leaf.numel() == 0:
        return torch.zeros(shape, dtype=leaf.dtype)
    if leaf.dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(leaf.dtype)
    chosen = torch.randint(leaf.numel(), (count,), generator=generator)
    return leaf.detach().flatten()[chosen].reshape(shape)


def _names(model: torch.nn.Module, sample: tuple[tuple[Any, ...], dict[str, Any]]) -> list[str]:
    """A name for every leaf: the argument's, numbered where it has several."""
    names = []
    for name, value in _by_name(model, sample).items():
        count = len(pytree.tree_leaves(value))
        names += [name] if count == 1 else [f"{name}[{index}]" for index in range(count)]
    return names


def _by_name(model: torch.nn.Module, sample: tuple[tuple[Any, ...], dict[str, Any]]) -> dict[str, Any]:
    """The inputs by argument name, positional ones first, in the order in which they are flattened."""
    import inspect

    args, kwargs = sample
    parameters = [
        parameter.name
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    names = [*parameters, *(f"args_{index}" for index in range(len(args)))]
    return {**dict(zip(names, args)), **kwargs}


def _leaf_specs(
    model: torch.nn.Module, sample: tuple[tuple[Any, ...], dict[str, Any]], dynamic_shapes: Any
) -> list[Any]:
    """The dynamic shapes of every leaf, ``None`` for a static one."""
    inputs = _by_name(model, sample)
    if isinstance(dynamic_shapes, (list, tuple)):
        dynamic_shapes = dict(zip(inputs, dynamic_shapes))
    shapes = dict(dynamic_shapes or {})
    unknown = [name for name in shapes if name not in inputs]
    for name in unknown:
        # Names that land in `**kwargs` may be nested under the name of that parameter.
        nested = shapes.pop(name)
        if not isinstance(nested, dict) or not all(key in inputs for key in nested):
            if nested is None:
                continue
            raise ValueError(f"dynamic_shapes names {name!r}; the inputs are {', '.join(inputs)}")
        shapes.update(nested)
    return [spec for name, value in inputs.items() for spec in _matched(value, shapes.get(name), name)]


def _matched(value: Any, spec: Any, where: str) -> list[Any]:
    """One spec for every leaf of a value."""
    count = len(pytree.tree_leaves(value))
    if spec is None:
        return [None] * count
    if isinstance(value, torch.Tensor) or count == 0:
        return [spec] * count
    if isinstance(value, dict) and isinstance(spec, dict):
        return [found for key, item in value.items() for found in _matched(item, spec.get(key), f"{where}[{key!r}]")]
    parts: list[Any] = list(spec.values()) if isinstance(spec, dict) else list(spec)
    if isinstance(value, (list, tuple)) and len(parts) == len(value):
        return [
            found for index, item in enumerate(value) for found in _matched(item, parts[index], f"{where}[{index}]")
        ]
    # A class of its own (a cache) is declared leaf by leaf.
    flat = _flat_specs(parts)
    if len(flat) != count:
        raise ValueError(f"dynamic_shapes has {len(flat)} entries for {where!r}, which holds {count} tensors")
    return flat


def _flat_specs(parts: list[Any]) -> list[Any]:
    """Nested lists of per-tensor shapes, flattened; a per-tensor shape is ``None``, or a dict by axis."""
    flat = []
    for part in parts:
        flat += _flat_specs(list(part)) if isinstance(part, (list, tuple)) else [part]
    return flat


__all__ = ["NarrowProgramError", "Report", "Trial", "leaves", "verify"]

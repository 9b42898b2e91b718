"""The smallest export that fails without a patch: shipped with the patch, run by its test and by ``yobx check``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What an export and its program did.

    Attributes:
        stage: ``"general"``; ``"export"``: the export raised; ``"narrow"``: the program rejects, or computes
            otherwise, an input that the eager module takes, or takes one that it rejects.
        problems: each in a line.
    """

    stage: str
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the program does what the eager module does on every input."""
        return self.stage == "general"


@dataclass
class Reproducer:
    """A module, a sample to export it with, and further inputs.

    Attributes:
        model: the module, in eval mode.
        inputs: keyword arguments of the sample.
        dynamic_shapes: for ``torch.export.export``.
        accepts: further inputs on which the program must equal the eager module.
        rejects: inputs on which both must raise.
        atol: largest absolute difference that counts as equal.
        fresh: makes a new module for every eager run, for modules that remember earlier calls.
        strict: whether to export in strict mode.
        counted: whether the patch's runs are counted: not when it runs under Dynamo, or in another process.
    """

    model: Any
    inputs: dict[str, Any]
    dynamic_shapes: Any
    accepts: Sequence[dict[str, Any]] = ()
    rejects: Sequence[dict[str, Any]] = ()
    atol: float = 1e-5
    fresh: Callable[[], Any] | None = None
    strict: bool = False
    counted: bool = True
    export: Callable[..., Any] | None = field(default=None)

    def run(self) -> Outcome:
        """Export the module and compare the program with it on every input, under the patches active now."""
        import torch

        model = self.model.eval()
        try:
            export = self.export or torch.export.export
            program = export(
                model,
                (),
                kwargs=copy.deepcopy(self.inputs),
                dynamic_shapes=self.dynamic_shapes,
                strict=self.strict,
            ).module()
        except Exception as error:
            return Outcome("export", (f"{type(error).__name__}: {error}",))
        problems = []
        for inputs in (self.inputs, *self.accepts):
            expected = (self.fresh or (lambda: model))().eval()(**copy.deepcopy(inputs))
            try:
                got = program(**copy.deepcopy(inputs))
            except Exception as error:
                problems.append(f"{describe(inputs)}: {type(error).__name__}: {error}")
            else:
                difference = compare(expected, got, self.atol)
                if difference is not None:
                    problems.append(f"{describe(inputs)}: {difference}")
        for inputs in self.rejects:
            try:
                program(**copy.deepcopy(inputs))
            except Exception:
                continue
            problems.append(f"{describe(inputs)}: accepted, the eager module raises")
        return Outcome("narrow" if problems else "general", tuple(problems))


def leaves(value: Any) -> list[Any]:
    """The tensors of a result in order: of containers, of dataclasses, and of caches by their layers."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    layers = getattr(value, "layers", None)
    if layers is not None:
        return [
            leaf for layer in layers for leaf in leaves([getattr(layer, "keys", None), getattr(layer, "values", None)])
        ]
    parts = [getattr(value, name, None) for name in ("self_attention_cache", "cross_attention_cache")]
    return [leaf for part in parts for leaf in (leaves(part) if part is not None else [])]


def compare(expected: Any, got: Any, atol: float) -> str | None:
    """How two results differ, in words; ``None`` when they are equal."""
    import torch

    wanted, found = leaves(expected), leaves(got)
    if len(wanted) != len(found):
        return f"{len(found)} tensors, eager gives {len(wanted)}"
    for left, right in zip(wanted, found):
        if left.shape != right.shape or left.dtype != right.dtype:
            return f"{tuple(right.shape)} {right.dtype}, eager gives {tuple(left.shape)} {left.dtype}"
        if not torch.allclose(left, right, atol=atol, rtol=1e-4, equal_nan=True):
            return f"differs by {(left.float() - right.float()).abs().max().item():.2g}"
    return None


def describe(inputs: dict[str, Any]) -> str:
    """The shapes of some inputs: ``x (2, 5), y (2, 1)``."""
    parts = []
    for name, value in inputs.items():
        shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves(value))
        parts.append(f"{name} {shapes or repr(value)}")
    return ", ".join(parts)

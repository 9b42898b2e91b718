"""Whether a replacement can be called in every way in which the original is called."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from yobx.autopatch.patches import Patch


class SignatureMismatch(NamedTuple):
    """A way to call the original in which the replacement cannot be called."""

    replacement: str
    signature: str
    original: str
    parameter: str

    def __str__(self) -> str:
        return (
            f"{self.replacement}{self.signature} cannot stand in for {self.original}: "
            f"parameter {self.parameter} does not fit"
        )


def mismatch(patch: Patch, original: Callable[..., Any]) -> SignatureMismatch | None:
    """The first parameter of the original that the replacement does not take, or ``None``.

    A replacement may take more, with defaults. Functions whose signature is not known (builtins), or says nothing
    (``*args, **kwargs`` of a wrapper), are not judged.
    """
    try:
        theirs = list(inspect.signature(original).parameters.values())
        signature = inspect.signature(patch.replacement)
    except (TypeError, ValueError):
        return None
    if {p.kind for p in theirs} == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    ours = list(signature.parameters.values())[1 if patch.around else 0 :]
    wrong = _first_misfit(ours, theirs)
    if wrong is None:
        return None
    name = getattr(patch.replacement, "__qualname__", patch.name)
    return SignatureMismatch(name, str(signature), f"{patch.target}{inspect.signature(original)}", wrong)


def _first_misfit(ours: list[inspect.Parameter], theirs: list[inspect.Parameter]) -> str | None:
    kinds = inspect.Parameter
    has = {parameter.kind for parameter in ours}
    places = iter([p for p in ours if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)])
    by_name = {p.name: p for p in ours if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    names = {p.name for p in theirs if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    any_name = any(p.kind is kinds.VAR_KEYWORD for p in theirs)
    filled: set[str] = set()
    for parameter in theirs:
        kind = parameter.kind
        if kind is kinds.VAR_POSITIONAL or kind is kinds.VAR_KEYWORD:
            # A place of ours that is left would take what is meant for `*args`.
            if kind not in has or (kind is kinds.VAR_POSITIONAL and next(places, None) is not None):
                return str(parameter)
            continue
        # A method's object comes by position, whatever it is called.
        receiver = parameter is theirs[0] and parameter.name in ("self", "cls")
        here = named = None
        if kind is not kinds.KEYWORD_ONLY:
            here = next(places, None)
            if here is None and kinds.VAR_POSITIONAL not in has:
                return str(parameter)
        if kind is not kinds.POSITIONAL_ONLY and not receiver:
            named = by_name.get(parameter.name)
            if named is None and kinds.VAR_KEYWORD not in has:
                return str(parameter)
        if kind is kinds.POSITIONAL_OR_KEYWORD and not receiver and here is not named:
            return str(parameter)
        if here is not None and named is None and here.kind is kinds.POSITIONAL_OR_KEYWORD:
            # What comes by the name of this place, for another parameter or for `**kwargs`, finds it taken.
            others = names - {parameter.name}
            if here.name in others or (any_name and kind is kinds.POSITIONAL_ONLY):
                return str(parameter)
        mine = here or named
        if mine is not None:
            filled.add(mine.name)
            if mine.default is kinds.empty and parameter.default is not kinds.empty:
                return f"{parameter} (which has no default there)"
    for parameter in ours:
        variadic = parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        if parameter.name not in filled and parameter.default is kinds.empty and not variadic:
            return f"{parameter} (which the original has not)"
    return None

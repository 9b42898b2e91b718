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
    by_name = {parameter.name: parameter for parameter in ours}
    places = iter([p for p in ours if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)])
    any_place = any(p.kind is kinds.VAR_POSITIONAL for p in ours)
    any_name = any(p.kind is kinds.VAR_KEYWORD for p in ours)
    names = {p.name for p in theirs}
    more_names = any(p.kind is kinds.VAR_KEYWORD for p in theirs)
    filled: set[str] = set()
    for parameter in theirs:
        if parameter.kind is kinds.VAR_POSITIONAL or parameter.kind is kinds.VAR_KEYWORD:
            if not (any_place if parameter.kind is kinds.VAR_POSITIONAL else any_name):
                return str(parameter)
            if parameter.kind is kinds.VAR_POSITIONAL and next(places, None) is not None:
                return str(parameter)
            continue
        mine = by_name.get(parameter.name)
        receiver = parameter is theirs[0] and parameter.name in ("self", "cls")
        if parameter.kind is not kinds.KEYWORD_ONLY:
            here = next(places, None)
            if here is None and not any_place:
                return str(parameter)
            if here is not None:
                # Another parameter of the original stands where this one arrives by position.
                if here.name != parameter.name and (mine is not None or here.name in names):
                    return str(parameter)
                # It cannot arrive by its own name; or what arrives among `**kwargs` there has its name here.
                unnamed = here.name != parameter.name and parameter.kind is not kinds.POSITIONAL_ONLY
                collides = more_names and parameter.kind is kinds.POSITIONAL_ONLY and here.kind is not parameter.kind
                if (unnamed or collides) and not receiver:
                    return str(parameter)
                filled.add(here.name)
                mine = here if mine is None else mine
        named = by_name.get(parameter.name)
        by_keyword = named is not None and named.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        if parameter.kind is not kinds.POSITIONAL_ONLY and not (by_keyword or any_name or receiver):
            return str(parameter)
        if mine is not None:
            filled.add(mine.name)
            if (
                mine.default is kinds.empty
                and parameter.default is not kinds.empty
                and mine.kind
                not in (
                    kinds.VAR_POSITIONAL,
                    kinds.VAR_KEYWORD,
                )
            ):
                return f"{parameter} (which has no default there)"
    for parameter in ours:
        variadic = parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        if parameter.name not in filled and parameter.default is kinds.empty and not variadic:
            return f"{parameter} (which the original has not)"
    return None

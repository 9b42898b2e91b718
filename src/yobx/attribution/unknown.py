"""A patch of which only its mark is known: another program declared it."""

from __future__ import annotations

from typing import Any

from yobx.autopatch.patches import Patch
from yobx.helpers.patch_helper import PatchInfo


def _not_here(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("the replacement is in the program that declared the patch")


class UnknownPatch(PatchInfo):
    """Stands for a patch of a program's own in another one, which has neither its code nor its reason."""

    def __init__(self, refid: str, target: str) -> None:
        _, family, name = (refid.split("-", 2) + ["", ""])[:3]
        # A stand-in for a target that may be anything: it is never put anywhere.
        super().__init__(Patch(target, _not_here, family=family, name=name, effect=True))
        self.core.reason = "declared by another program"
        self._refid = refid

    @property
    def refid(self) -> str:
        """What the mark says."""
        return self._refid

    def make_diff(self) -> str:
        """That there is none."""
        return f"--- {self.target} (original)\nno source to show: the patch is declared by another program"

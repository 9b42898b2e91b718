"""Lists of patches, and what they did to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yobx.autopatch import activation, control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from yobx.autopatch.patches import Patch
    from yobx.helpers.patch_helper import PatchInfo


class PatchDetails:
    """A list of patches: those of a scope, of the process, or of a program's own choosing."""

    def __init__(self, patches: Iterable[PatchInfo] = ()) -> None:
        # Most scopes never look at theirs: the list is made when it is asked for.
        self._source: Iterable[PatchInfo] = patches
        self._list: list[PatchInfo] | None = None

    @property
    def _patches(self) -> list[PatchInfo]:
        if self._list is None:
            self._list = list(self._source)
        return self._list

    def __iter__(self) -> Iterator[PatchInfo]:
        return iter(self._patches)

    def __len__(self) -> int:
        return len(self._patches)

    def __getitem__(self, index: int) -> PatchInfo:
        return self._patches[index]

    @property
    def n_patches(self) -> int:
        """How many patches there are."""
        return len(self._patches)

    def append(self, info: PatchInfo) -> None:
        """Add a patch at the end."""
        self._patches.append(info)

    def extend(self, infos: Iterable[PatchInfo]) -> None:
        """Add patches at the end."""
        self._patches.extend(infos)

    def find(self, name: str) -> PatchInfo | None:
        """The patch called ``name``, or ``family:name``; ``None`` when there is none."""
        return next((info for info in self if name in (info.name, info.core.full_name)), None)

    def data(self) -> list[dict[str, Any]]:
        """One dict of plain values per patch."""
        return [info.data() for info in self]

    def patches_involved_in_graph(self, graph: Any) -> list[tuple[PatchInfo, list[Any]]]:
        """The patches that made or shaped nodes of a graph, each with its nodes, in the graph's order.

        They are read from the marks that the nodes got while they were traced, here or in another process: also
        patches that are not in this list are found by them. A graph without marks that was not traced here is searched
        for the patches of this list by its nodes' stack traces.

        Args:
            graph: a ``torch.fx.Graph``, whose branches (``cond``, ``while_loop``) are looked into; or anything with
                ``nodes`` whose items have ``meta``.
        """
        from yobx.attribution.involved import involved

        return involved(self, graph)

    def make_report(self, patches: Sequence[tuple[PatchInfo, list[Any]]], format: str = "raw") -> str:
        """A summary of some patches with their nodes and diffs.

        Args:
            patches: what :meth:`patches_involved_in_graph` gave.
            format: ``"raw"`` text, ``"rst"``, ``"html"``: one self-contained file, or ``"json"``, whose schema is in
                :mod:`yobx.attribution.data`.

        Raises:
            ValueError: for another format.
        """
        from yobx.attribution.report import report

        return report(patches, format)

    def draw(self, graph: Any, file: str) -> Any:
        """Write a picture of a graph, the nodes that patches touched in their colours; gives the path.

        Args:
            graph: as for :meth:`patches_involved_in_graph`.
            file: its suffix tells the format: ``.svg``, ``.png``, ``.pdf``; ``.dot`` for graphviz's own text.

        Raises:
            GraphvizMissing: when graphviz is not installed; says how to install it.
            ValueError: for a name without a suffix.
        """
        from yobx.attribution.draw import draw

        return draw(self.patches_involved_in_graph(graph), graph, file)

    def __repr__(self) -> str:
        return f"<PatchDetails of {len(self)} patches>"


def _details(chosen: Sequence[Patch], entry: activation.Activation | None) -> PatchDetails:
    return PatchDetails(core.info.seen_by(entry) if entry is not None else core.info for core in chosen)


control.make_details = _details

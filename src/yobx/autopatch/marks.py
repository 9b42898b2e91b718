"""Which replacement made or shaped a node, noted on the node while it is made.

Every dispatcher puts its patch on this thread's stack of running replacements, and ``None`` for as long as the
replacement calls what it replaces. A node that is made while a patch is on top is *emitted* by it. A replacement that
decides what the original would have guarded on says so by :func:`decided`, and the node whose result is being worked
out is *shaped* by it.

A mark is ``[how, refid, target]`` in ``node.meta["custom"]["yobx"]``: torch keeps ``custom`` when it decomposes, saves
and loads a program.
"""

from __future__ import annotations

import sys

from yobx.autopatch import activation, dispatch, fixtures, notices

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    from yobx.autopatch.patches import Patch

KEY = "yobx"
EMITTED = "emitted"
SHAPED = "shaped"

state = activation.state
default = activation.default


class Settings:
    """Whether nodes are marked at all; ``YOBX_PATCH_MARKS=0`` and :func:`yobx.helpers.marks.switch` change it."""

    on = True


settings = Settings()

# Reads of a size: torch makes such a node when somebody first asks, which says nothing about who needed it.
_ACCESSORS = {"sym_size.int", "sym_stride.int", "sym_storage_offset.default", "sym_numel.default"}
_ACCESSOR_METHODS = {"size", "stride", "storage_offset", "numel"}

# Whether a line of a replacement is its own, rather than one of the original's text; set by who reads sources.
is_own_line: Callable[[Patch, CodeType, int], bool] | None = None

_fake_modes: Any = None


def traced_here(graph: Any) -> bool:
    """Whether nodes were marked while the graph was traced, in this process: what has no mark was not touched."""
    mode = _fake_mode(graph)
    return mode is not None and _fake_modes is not None and mode in _fake_modes


def _fake_mode(graph: Any) -> Any:
    for node in graph.nodes:
        meta = getattr(node, "meta", None) or {}
        mode = getattr(meta.get("val", meta.get("example_value")), "fake_mode", None)
        if mode is not None:
            return mode
    return None


def _remember(graph: Any) -> None:
    global _fake_modes
    mode = _fake_mode(graph)
    if mode is not None:
        if _fake_modes is None:
            import weakref

            _fake_modes = weakref.WeakSet()
        _fake_modes.add(mode)


def put(node: Any, patch: Patch, how: str) -> None:
    """Mark a node, once for each patch and way."""
    mark = [how, patch.refid, patch.target]
    custom = node.meta.get("custom") or {}
    marks = custom.get(KEY, [])
    if mark not in marks:
        # Torch copies the dictionary from node to node, not what it holds.
        node.meta["custom"] = {**custom, KEY: [*marks, mark]}


def decided() -> None:
    """The running replacement decided what its original would have guarded on, or raised on."""
    if not dispatch.tracing() and settings.on and state.running and state.running[-1] is not None:
        node = _node_worked_out(sys._getframe(1))
        if node is not None and not _has_branches(node):
            put(node, state.running[-1], SHAPED)


def passing() -> None:
    """From here on, the running replacement does what its original does: what it makes is not its own."""
    if not dispatch.tracing() and state.running:
        # The dispatcher cuts the stack back when the replacement returns.
        state.running.append(None)


def _node_worked_out(frame: FrameType | None) -> Any:
    """The node whose result is being computed with fake tensors: torch has made it before it begins to."""
    while frame is not None:
        name = frame.f_code.co_name
        if name == "proxy_call":
            return getattr(frame.f_locals.get("proxy_out"), "node", None)
        if name == "get_fake_value":
            return frame.f_locals.get("node")
        frame = frame.f_back
    return None


def _has_branches(node: Any) -> bool:
    """Whether it is a higher-order operator: the nodes of its branches are marked, each for itself."""
    operators = sys.modules.get("torch._ops")
    return operators is not None and isinstance(node.target, operators.HigherOrderOperator)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, type(code)):
            yield from _codes(const)


def codes_of(patch: Patch) -> frozenset[CodeType]:
    """The code of a replacement, and of the functions defined in it."""
    if patch.codes is None:
        code = getattr(patch.replacement, "__code__", None)
        patch.codes = frozenset(_codes(code)) if code is not None else frozenset()
    return patch.codes


def _is_own(patch: Patch, code: CodeType | None, line: int) -> bool:
    return code is None or is_own_line is None or not patch.verbatim or is_own_line(patch, code, line)


def _made_by(frame: FrameType | None) -> Patch | None:
    """The patch on top of the stack, when the line that it is at is its own."""
    patch: Patch | None = state.running[-1]
    if patch is None or not patch.verbatim:
        return patch
    codes = codes_of(patch)
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return patch if frame is None or _is_own(patch, frame.f_code, frame.f_lineno) else None


def _made_under_dynamo(translator: Any) -> tuple[bool, Patch | None]:
    """Whether a replacement, or the original that it calls, is being traced, and the patch whose own node is made.

    Dynamo runs no dispatcher: it keeps a translator for each frame of the program, and a dispatcher's knows its locals.
    """
    inner: list[Any] = []
    while translator is not None:
        code = translator.f_code
        if code is dispatch.THROUGH:
            return True, None
        if code is dispatch.DISPATCHER and inner:
            patch = activation.patch_of(_constant(translator.symbolic_locals.get("number")))
            if patch is not None:
                codes = codes_of(patch)
                if inner[-1].f_code in codes or inner[-1].f_code is dispatch.AROUND:
                    own = next((tx for tx in inner if tx.f_code in codes), None)
                    line = own is None or _is_own(patch, own.f_code, own.lineno)
                    return True, patch if line else None
        inner.append(translator)
        translator = getattr(translator, "parent", None)
    return False, None


def _constant(variable: Any) -> Any:
    realize = getattr(variable, "realize", None)
    variable = realize() if realize is not None else variable
    return getattr(variable, "value", None)


def _is_read(node: Any) -> bool:
    if node.op == "call_method":
        return node.target in _ACCESSOR_METHODS
    return getattr(node.target, "__name__", None) in _ACCESSORS


def _observe(tracer: Any, node: Any) -> None:
    if node.op == "output":
        _remember(node.graph)
        return
    if node.op not in ("call_function", "call_method") or _is_read(node):
        return
    output = getattr(tracer, "output_graph", None)
    found, patch = _made_under_dynamo(output.current_tx) if output is not None else (False, None)
    if not found and state.running:
        patch = _made_by(sys._getframe(2))
    if patch is not None:
        put(node, patch, EMITTED)


def make_create_node(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """``TracerBase.create_node`` that marks what it made, while something is active in this thread."""

    def create_node(*args: Any, **kwargs: Any) -> Any:
        node = original(*args, **kwargs)
        if settings.on and (state.winners or default.winners):
            try:
                _observe(args[0], node)
            except Exception as error:
                # An export does not fail for want of a mark.
                notices.complain(f"a node is not marked: {type(error).__name__}: {error}", cause=error)
        return node

    dispatch.take_names(create_node, original)
    return create_node, []


def make_interpreter(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """``_maybe_run_with_interpreter`` that always does: run as code, a branch loses the marks of its nodes."""

    def maybe_run_with_interpreter(fn: Any) -> Any:
        return _interpreted(fn) if _is_marked(fn) else original(fn)

    dispatch.take_names(maybe_run_with_interpreter, original)
    return maybe_run_with_interpreter, []


def make_wrapper(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """The call of an operator that runs a graph under another mode (``no_grad``, autocast); as above."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*(_interpreted(arg) if _is_marked(arg) else arg for arg in args), **kwargs)

    dispatch.take_names(call, original)
    return call, []


def _is_marked(module: Any) -> bool:
    if not settings.on or not (state.winners or default.winners):
        return False
    graph = getattr(module, "graph", None) if hasattr(module, "recompile") else None
    return graph is not None and any(KEY in (node.meta.get("custom") or ()) for node in graph.nodes)


def _interpreted(module: Any) -> Callable[..., Any]:
    from torch.fx import Interpreter, traceback

    def run(*args: Any) -> Any:
        with traceback.preserve_node_meta():
            return Interpreter(module).run(*args)

    return run


observer = fixtures.Fixtures(
    {
        "torch.fx.proxy": {"TracerBase.create_node": make_create_node},
        "torch._higher_order_ops.utils": {"_maybe_run_with_interpreter": make_interpreter},
        "torch._higher_order_ops.wrap": {
            "WrapWithSetGradEnabled.__call__": make_wrapper,
            "WrapWithAutocast.__call__": make_wrapper,
        },
    },
    "nodes are not marked",
    optional=("WrapWithSetGradEnabled.__call__", "WrapWithAutocast.__call__"),
)

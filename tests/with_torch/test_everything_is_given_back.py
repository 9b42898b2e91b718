"""After the last user of the patches has gone, every place in every loaded module holds the object from before."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import types

import pytest
import torch
import torch.export
import torch.fx.experimental.symbolic_shapes
import torch.onnx

from dispatchers import is_dispatcher
from yobx import autopatch
from yobx.autopatch import activation, imports
from yobx.helpers.patch_helper import PatchInfo
from yobx.torch import apply_patches_for_model, use_dyn_not_str
from yobx.torch.tiny_models import TinyBroadcastAddModel

WATCHED = ("torch", "transformers", "functorch", "torchgen")


def export_tiny():
    return torch.export.export(
        TinyBroadcastAddModel(),
        (),
        kwargs=TinyBroadcastAddModel._export_inputs(),
        dynamic_shapes=use_dyn_not_str(TinyBroadcastAddModel._dynamic_shapes()),
    )


def is_function(value):
    return callable(value) or isinstance(value, (staticmethod, classmethod, property))


def tables():
    """Mappings that hold functions and that no module's globals show at first sight."""
    for module in list(sys.modules.values()):
        namespace = imports.namespace_of(module)
        if namespace is None or str(namespace.get("__name__")).partition(".")[0] not in WATCHED:
            continue
        for name, value in list(namespace.items()):
            if type(value) is dict and any(map(is_function, list(value.values()))):
                yield f"{namespace['__name__']}.{name}", value
    for packet in list(torch.ops.aten.__dict__.values()):
        if isinstance(packet, torch._ops.OpOverloadPacket):
            for overload in packet.overloads():
                operator = getattr(packet, overload)
                yield f"{operator}.py_kernels", operator.py_kernels
                yield f"{operator}", {"prim_meta_impl": getattr(operator, "prim_meta_impl", None)}


def snapshot():
    """Every function that is held by a loaded module of torch or transformers, a class of it, a table or a cell."""
    found = {}

    def note(where, value, depth=0):
        if not is_function(value):
            return
        found[where] = value
        closure = value.__closure__ if isinstance(value, types.FunctionType) and depth < 3 else None
        for cell_index, cell in enumerate(closure or ()):
            try:
                note((*where, cell_index), cell.cell_contents, depth + 1)
            except ValueError:
                continue

    for name, module in list(sys.modules.items()):
        namespace = imports.namespace_of(module)
        if namespace is None or name.partition(".")[0] not in WATCHED:
            continue
        for attribute, value in list(namespace.items()):
            note((name, attribute), value)
            if isinstance(value, type) and value.__module__ == name:
                for member, held in list(vars(value).items()):
                    note((name, attribute, member), held)
    for name, table in tables():
        for key, value in list(table.items()):
            note((name, "[]", str(key)), value)
    return found


def differences(before, after):
    return {where: (before[where], after.get(where)) for where in before if after.get(where) is not before[where]}


def dispatchers(places):
    return {where for where, value in places.items() if is_dispatcher(value)}


@pytest.fixture(scope="module")
def warm():
    """Everything is loaded that an export loads, and what torch fills once is filled."""
    with contextlib.suppress(ImportError):
        importlib.import_module("transformers.models.llama.modeling_llama")
    with apply_patches_for_model(patch_torch=True):
        export_tiny().run_decompositions()
    with contextlib.suppress(Exception):
        export_tiny()


def test_nothing_is_changed_after_a_scope_and_dispatchers_stand_inside(warm):
    before = snapshot()
    assert not dispatchers(before)
    with apply_patches_for_model(patch_torch=True, patch_transformers=True) as details:
        inside = snapshot()
        export_tiny().run_decompositions()
    assert {info.state for info in details} <= {"removed", "skipped", "pending", "installed"}
    assert len(dispatchers(inside)) > 30
    after = snapshot()
    assert differences(before, after) == {}
    assert not dispatchers(after)


def test_nothing_is_changed_after_enable_and_disable(warm):
    before = snapshot()
    autopatch.enable()
    export_tiny().run_decompositions()
    assert len(dispatchers(snapshot())) > 30
    autopatch.disable()
    after = snapshot()
    assert differences(before, after) == {}
    assert not dispatchers(after)


def test_nothing_is_changed_after_enable_always_and_an_error_inside(warm):
    before = snapshot()
    with pytest.raises(ZeroDivisionError), apply_patches_for_model(patch_torch=True, patch_transformers=True):
        raise ZeroDivisionError
    autopatch.enable("torch", scope="always")
    assert autopatch.is_active("torch")
    autopatch.disable("torch")
    assert differences(before, snapshot()) == {}


def test_broadcast_shapes_is_the_object_from_before_wherever_it_was(warm):
    original = torch._refs._broadcast_shapes
    holders = [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in (imports.namespace_of(module) or {}).items()
        if value is original
    ]
    assert len(holders) > 1
    with apply_patches_for_model(patch_torch=True) as details:
        assert torch._refs._broadcast_shapes is not original
        assert details.find("broadcast_shapes") is not None
        assert {getattr(module, name) for module, name in holders} == {torch._refs._broadcast_shapes}
    assert all(getattr(module, name) is original for module, name in holders)
    assert torch._refs._broadcast_shapes.__name__ == "_broadcast_shapes"


def test_the_name_inside_a_scope_is_the_replacements_as_the_seed_shows():
    def my_broadcast_shapes(*_shapes):
        return []

    patch = PatchInfo.make(my_broadcast_shapes, torch._refs, "_broadcast_shapes", family="torch")
    original = torch._refs._broadcast_shapes
    patch.do()
    assert torch._refs._broadcast_shapes.__name__ == "my_broadcast_shapes"
    patch.undo()
    assert torch._refs._broadcast_shapes is original
    assert original.__name__ == "_broadcast_shapes"
    with apply_patches_for_model(extra_patches=[patch]) as details:
        assert torch._refs._broadcast_shapes.__name__ == "my_broadcast_shapes"
        assert [(info.family, info.name) for info in details] == [("torch", "my_broadcast_shapes")]
        with apply_patches_for_model(patch_torch=True):
            assert torch._refs._broadcast_shapes.__name__ != "my_broadcast_shapes"
        assert torch._refs._broadcast_shapes.__name__ == "my_broadcast_shapes"
    assert torch._refs._broadcast_shapes is original


def test_a_module_that_took_a_name_in_between_gives_it_back(sandbox, warm):
    autopatch.enable()
    user = sandbox.load("from torch._refs import _broadcast_shapes\nfrom torch.export._trace import _export\n")
    autopatch.disable()
    assert user._broadcast_shapes is torch._refs._broadcast_shapes
    assert user._export is torch.export._trace._export
    assert not is_dispatcher(user._broadcast_shapes)


def test_objects_made_inside_a_scope_hold_no_dispatcher_of_ours(warm):
    with apply_patches_for_model(patch_torch=True):
        program = export_tiny()
    held = [node.target for node in program.graph.nodes if inspect.isfunction(node.target)]
    assert not any(map(is_dispatcher, held))
    assert program.module()(**TinyBroadcastAddModel._export_inputs()).shape == (2, 5)


def test_models_can_be_copied_saved_and_scripted_while_the_patches_are_enabled(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.nn.functional.relu(self.linear(x)).reshape(x.shape[0], -1)

    autopatch.enable()
    import copy

    model, x = Model(), torch.ones(2, 3)
    expected = model(x)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    torch.save(model.linear, tmp_path / "linear.pt")
    assert torch.equal(torch.load(tmp_path / "linear.pt", weights_only=False)(x), model.linear(x))
    assert torch.equal(torch.jit.script(model)(x), expected)
    assert torch.equal(torch.jit.trace(model, x)(x), expected)
    assert torch.equal(torch.compile(model, backend="eager")(x), expected)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), expected)
    assert torch.equal(torch.func.vmap(model.linear)(x), model.linear(x))


def test_a_patched_function_can_be_scripted(sandbox):
    module = sandbox.load("def scale(x):\n    return x * 2\n")
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="scale")
    assert torch.jit.script(module.scale)(torch.ones(1)).item() == 2
    autopatch.enable(sandbox.family)
    assert torch.jit.script(module.scale)(torch.ones(1)).item() == 2


def test_training_runs_the_originals_while_the_patches_are_enabled(warm):
    autopatch.enable()
    before = {info.name: info.runs for info in autopatch.details()}
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for function in (model, torch.compile(model, backend="eager")):
        function(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert {info.name: info.runs for info in autopatch.details()} == before
    assert activation.state.stack == []


def test_wrapping_torch_functions_by_others_survives_us(warm):
    """Another patcher puts its own function over ours and takes it away, in either order."""
    original = torch._refs._broadcast_shapes

    @functools.wraps(original)
    def theirs(*shapes):
        return original(*shapes)

    autopatch.enable("torch")
    ours = torch._refs._broadcast_shapes
    torch._refs._broadcast_shapes = theirs
    autopatch.disable()
    assert torch._refs._broadcast_shapes is theirs
    torch._refs._broadcast_shapes = ours
    assert torch._refs._broadcast_shapes((2, 1), (1, 3)) == [2, 3]
    with apply_patches_for_model(patch_torch=True):
        pass
    assert torch._refs._broadcast_shapes is original
    assert isinstance(original, types.FunctionType)

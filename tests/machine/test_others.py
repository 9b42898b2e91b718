"""Other patchers on the same place: whoever unwinds first, nobody's work is lost."""

from __future__ import annotations

import importlib
from unittest import mock

import pytest

from dispatchers import is_dispatcher
from yobx import autopatch

SOURCE = """
def scale(x):
    return x * 2

class Model:
    def forward(self, x):
        return x * 2

TABLE = {"scale": scale}
"""


def theirs(*args, **kwargs):
    return "theirs"


@pytest.fixture(params=["scale", "Model.forward", "TABLE[scale]"])
def place(request, sandbox):
    """How to read a place, how another patcher replaces what stands there, and how it is called."""
    module = sandbox.load(SOURCE)
    path = request.param
    sandbox.patch(f"{module.__name__}:{path}", lambda *args, **kwargs: "ours", name="ours")
    owner, name = {
        "scale": (module, "scale"),
        "Model.forward": (module.Model, "forward"),
        "TABLE[scale]": (module.TABLE, "scale"),
    }[path]
    if path.startswith("TABLE"):
        patcher = lambda: mock.patch.dict(owner, {name: theirs})  # noqa: E731
        return lambda: owner[name], patcher, lambda: owner[name](1)
    call = (lambda: owner().forward(1)) if path == "Model.forward" else lambda: module.scale(1)
    return lambda: vars(owner)[name], lambda: mock.patch.object(owner, name, theirs), call


def test_theirs_inside_ours(sandbox, place):
    read, patcher, call = place
    original = read()
    with autopatch.activate(sandbox.family):
        assert call() == "ours"
        with patcher():
            assert call() == "theirs"
        assert call() == "ours"
    assert read() is original


def test_ours_inside_theirs(sandbox, place):
    read, patcher, call = place
    original = read()
    with patcher():
        put = read()
        with autopatch.activate(sandbox.family):
            assert call() == "ours"
        assert call() == "theirs"
        assert read() is put
    assert read() is original
    assert call() == 2
    with autopatch.activate(sandbox.family):
        assert call() == "ours"
    assert read() is original


def test_theirs_begins_inside_ours_and_ends_after_it(sandbox, place):
    read, patcher, call = place
    original = read()
    scope, other = autopatch.activate(sandbox.family), patcher()
    scope.__enter__()
    other.__enter__()
    scope.__exit__(None, None, None)
    assert call() == "theirs"
    other.__exit__(None, None, None)
    # They put our dispatcher back, which is idle: it runs the original, and leaves at the next occasion.
    assert call() == 2
    with autopatch.activate(sandbox.family):
        assert call() == "ours"
    assert read() is original


def test_ours_begins_inside_theirs_and_ends_after_it(sandbox, place):
    read, patcher, call = place
    original = read()
    other, scope = patcher(), autopatch.activate(sandbox.family)
    other.__enter__()
    scope.__enter__()
    assert call() == "ours"
    other.__exit__(None, None, None)
    # They put the original back, over us.
    assert call() == 2
    scope.__exit__(None, None, None)
    assert read() is original
    assert call() == 2
    with autopatch.activate(sandbox.family):
        assert call() == "ours"
    assert read() is original


def test_an_enabled_patch_is_back_after_a_tool_put_the_original_over_it(sandbox):
    """The tool saved what stood there before we came, and restores that, while we are asked to be there."""
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    saved = module.scale
    autopatch.enable(sandbox.family)
    module.scale = theirs
    module.scale = saved
    # An export looks again, and so does whoever asks how things stand.
    autopatch.details()
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    autopatch.disable()
    assert module.scale is saved


def test_theirs_over_ours_is_not_pushed_aside_when_another_name_is_found(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    user = sandbox.load(f"from {module.__name__} import scale\n", "user")
    autopatch.enable(sandbox.family)
    module.scale = theirs
    with autopatch.activate(sandbox.family):
        assert module.scale is theirs
        assert user.scale(1) == 10
    autopatch.details()
    assert module.scale is theirs


def test_theirs_that_calls_through_to_what_it_found(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    autopatch.enable(sandbox.family)
    found = module.scale
    module.scale = lambda x: ["theirs", found(x)]
    assert module.scale(1) == ["theirs", 2]
    with autopatch.activate(sandbox.family):
        assert module.scale(1)[-1] == 10 or module.scale(1) == 10
    autopatch.disable()
    assert module.scale(1) == ["theirs", 2]
    module.scale = found
    assert module.scale(1) == 2


def test_a_hand_made_setattr_stays_after_us(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    with autopatch.activate(sandbox.family):
        module.scale = theirs
    assert module.scale is theirs
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    assert module.scale is theirs


def test_an_attribute_deleted_inside_a_scope_stays_deleted(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    with autopatch.activate(sandbox.family):
        del module.scale
    assert not hasattr(module, "scale")
    with autopatch.activate(sandbox.family) as details:
        assert details.find("ours").state == "missing"
    assert not hasattr(module, "scale")


def test_an_entry_deleted_from_a_table_inside_a_scope_stays_deleted(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:TABLE[scale]", lambda x: x * 10, name="ours")
    with autopatch.activate(sandbox.family):
        module.TABLE.clear()
    assert module.TABLE == {}


def test_a_tool_that_patches_and_restores_like_an_exporter_does(sandbox):
    """It saves what it finds when it is made, and puts that back when it has done, however we came and went."""
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    original = module.scale

    class Exporter:
        def __enter__(self):
            self.saved = module.scale
            module.scale = theirs

        def __exit__(self, *error):
            module.scale = self.saved

    autopatch.enable(sandbox.family)
    with Exporter():
        assert module.scale is theirs
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
        with Exporter():
            pass
        assert module.scale(1) == 10
    exporter = Exporter()
    exporter.__enter__()
    autopatch.disable()
    exporter.__exit__()
    assert module.scale(1) == 2
    with autopatch.activate(sandbox.family):
        pass
    assert module.scale is original


def test_wrapt_around_ours_and_ours_around_wrapt(sandbox):
    import wrapt

    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:Model.forward", lambda self, x: x * 10, name="ours")

    def traced(wrapped, instance, args, kwargs):
        return [type(instance).__name__, wrapped(*args, **kwargs)]

    autopatch.enable(sandbox.family)
    wrapt.wrap_function_wrapper(module, "Model.forward", traced)
    assert module.Model().forward(1) == ["Model", 2]
    autopatch.disable()
    assert module.Model().forward(1) == ["Model", 2]
    with autopatch.activate(sandbox.family):
        assert module.Model().forward(1) == 10
    assert module.Model().forward(1) == ["Model", 2]


def test_the_last_reader_of_a_reloaded_module_sees_no_dispatcher(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="ours")
    user = sandbox.load(f"from {module.__name__} import scale\n", "user")
    autopatch.enable(sandbox.family)
    with autopatch.activate(sandbox.family):
        assert user.scale(1) == 10
        importlib.reload(module)
        assert module.scale(1) == 10
    autopatch.disable()
    assert not is_dispatcher(module.scale)
    assert not is_dispatcher(user.scale)
    assert user.scale(1) == 2

"""The kinds of place, and that each gets its own object back."""

from __future__ import annotations

import abc
import collections
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchers import is_dispatcher
from yobx import autopatch
from yobx.autopatch import slots

SOURCE = """
import functools

def scale(x):
    return x * 2

class Base:
    def method(self, x):
        return x * 2

    @staticmethod
    def static(x):
        return x * 2

    @classmethod
    def on_class(cls, x):
        return cls.__name__, x * 2

    @property
    def value(self):
        "A value."
        return self._value

    @value.setter
    def value(self, value):
        self._value = value

    class Inner:
        def method(self, x):
            return x * 2

class Derived(Base):
    pass

class Instance:
    pass

thing = Instance()
thing.call = scale

TABLE = {"default": scale, "a.b": scale, 1: scale}

def outer():
    def inner(x):
        return x * 2
    def calls(x):
        return inner(x)
    return calls

calls = outer()
"""

TENS = {
    "scale": lambda x: x * 10,
    "Base.method": lambda self, x: x * 10,
    "Base.static": lambda x: x * 10,
    "Base.on_class": lambda cls, x: (cls.__name__, x * 10),
    "Base.value": lambda self: self._value * 10,
    "Base.Inner.method": lambda self, x: x * 10,
    "TABLE[default]": lambda x: x * 10,
    "thing.call": lambda x: x * 10,
}
CALLS = {
    "scale": lambda m: m.scale(1),
    "Base.method": lambda m: m.Base().method(1),
    "Base.static": lambda m: m.Base().static(1),
    "Base.on_class": lambda m: m.Derived.on_class(1)[1],
    "Base.value": lambda m: (setattr(thing := m.Base(), "value", 1), thing.value * (1 if thing.value > 1 else 2))[1],
    "Base.Inner.method": lambda m: m.Base.Inner().method(1),
    "TABLE[default]": lambda m: m.TABLE["default"](1),
    "thing.call": lambda m: m.thing.call(1),
}


@pytest.fixture
def target(sandbox):
    return sandbox.load(SOURCE)


def raw(module, path):
    return slots.find(module, slots.split_target(f"m:{path}")[1]).get()


@pytest.mark.parametrize("path", TENS)
@pytest.mark.parametrize("when", ["before import", "after import"])
def test_every_kind_of_place_is_filled_and_restored(sandbox, path, when):
    name = sandbox.write(SOURCE)
    module = None
    if when == "after import":
        module = __import__(name)
        before = raw(module, path)
    sandbox.patch(f"{name}:{path}", TENS[path], name="tens")
    autopatch.enable(sandbox.family)
    module = module or __import__(name)
    assert autopatch.details().find("tens").state == "installed"
    assert CALLS[path](module) == 2
    with autopatch.activate(sandbox.family):
        assert CALLS[path](module) == 10
    assert CALLS[path](module) == 2
    autopatch.disable()
    assert CALLS[path](module) == 2
    if when == "after import":
        assert raw(module, path) is before
    else:
        assert not is_dispatcher(raw(module, path))


def test_an_inherited_attribute_is_deleted_and_not_copied(sandbox, target):
    for path, function in (("method", TENS["Base.method"]), ("static", TENS["Base.static"])):
        sandbox.patch(f"{target.__name__}:Derived.{path}", function, name=path)
    with autopatch.activate(sandbox.family):
        assert target.Derived().method(1) == 10
        assert target.Derived.static(1) == 10
        assert target.Base().method(1) == 2
        assert "method" in vars(target.Derived)
    assert "method" not in vars(target.Derived)
    assert "static" not in vars(target.Derived)


def test_an_inherited_method_follows_a_later_change_of_its_base(sandbox, target):
    sandbox.patch(f"{target.__name__}:Derived.method", TENS["Base.method"], name="method")
    autopatch.enable(sandbox.family)
    target.Base.method = lambda self, x: "somebody else's"
    assert target.Derived().method(1) == "somebody else's"
    with autopatch.activate(sandbox.family):
        assert target.Derived().method(1) == 10


def test_a_patch_of_the_base_reaches_a_class_whose_own_patch_is_not_active(sandbox, target):
    second = f"{sandbox.family}b"
    sandbox.patch(f"{target.__name__}:Derived.method", TENS["Base.method"], name="derived")
    sandbox.patch(f"{target.__name__}:Base.method", lambda self, x: x * 100, name="base", family=second)
    autopatch.enable(sandbox.family, second)
    with autopatch.activate(second):
        assert target.Derived().method(1) == 100
        with autopatch.activate(sandbox.family):
            assert target.Derived().method(1) == 10


def test_another_name_of_a_base_classs_method_is_not_taken_for_the_derived_ones(sandbox, target):
    target.method = target.Base.method
    sandbox.patch(f"{target.__name__}:Derived.method", TENS["Base.method"], name="method")
    with autopatch.activate(sandbox.family):
        assert target.method(None, 1) == 2


def test_a_property_keeps_its_setter_and_documentation(sandbox, target):
    sandbox.patch(f"{target.__name__}:Base.value", TENS["Base.value"], name="value")
    with autopatch.activate(sandbox.family):
        thing = target.Base()
        thing.value = 3
        assert thing.value == 30
        assert target.Base.value.__doc__ == "A value."
    assert thing.value == 3


def test_a_property_of_a_special_kind_is_refused_rather_than_replaced_by_a_plain_one(sandbox, target):
    class special(property):
        pass

    target.Base.special = special(lambda self: 1)
    sandbox.patch(f"{target.__name__}:Base.special", lambda self: 2, name="special")
    with autopatch.activate(sandbox.family) as details:
        assert target.Base().special == 1
    assert details.find("special").state != "installed"


def test_an_abstract_method_stays_abstract(sandbox):
    module = sandbox.load(
        "import abc\nclass Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self):\n        return 1\n"
    )
    sandbox.patch(f"{module.__name__}:Shape.area", lambda self: 10, name="area")
    autopatch.enable(sandbox.family)

    class Square(module.Shape):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Square()
    abc.update_abstractmethods(Square)
    with pytest.raises(TypeError, match="abstract"):
        Square()


def test_closure_cells_are_filled_and_restored(sandbox, target):
    cell = target.calls.__closure__[0]
    before = cell.cell_contents
    sandbox.patch(f"{target.__name__}:calls", lambda x: x * 10, slots=lambda: [slots.CellSlot(cell)], name="cell")
    with autopatch.activate(sandbox.family):
        assert target.calls(1) == 10
    assert target.calls(1) == 2
    assert cell.cell_contents is before


def test_several_places_keep_an_original_each(sandbox, target):
    target.TABLE["shift"] = shift = lambda x: x + 1
    sandbox.patch(
        f"{target.__name__}:scale",
        lambda original, x: [original(x)],
        name="both",
        around=True,
        also=(f"{target.__name__}:TABLE[shift]",),
    )
    with autopatch.activate(sandbox.family):
        assert (target.scale(5), target.TABLE["shift"](5)) == ([10], [6])
    assert target.TABLE["shift"] is shift


def test_a_place_named_twice_is_filled_once(sandbox, target):
    original = target.scale
    sandbox.patch(
        f"{target.__name__}:scale",
        lambda original, x: [original(x)],
        name="twice",
        around=True,
        also=(f"{target.__name__}:scale",),
    )
    with autopatch.activate(sandbox.family):
        assert target.scale(5) == [10]
    assert target.scale is original


def test_an_entry_that_a_chain_finds_behind_itself_is_deleted_again(sandbox, target):
    chain = target.CHAIN = collections.ChainMap({}, {"f": target.scale})
    sandbox.patch(
        f"{target.__name__}:CHAIN",
        lambda x: x * 10,
        name="chain",
        slots=lambda: [slots.ItemSlot(chain, "f", inherited=True)],
    )
    with autopatch.activate(sandbox.family):
        assert chain["f"](1) == 10
    assert chain.maps[0] == {}
    assert chain["f"] is target.scale


def test_a_key_may_be_a_dotted_path_of_a_loaded_module(sandbox, target):
    target.TABLE[target.thing] = target.scale
    sandbox.patch(f"{target.__name__}:TABLE[{target.__name__}.thing]", lambda x: x * 10, name="by_object")
    with autopatch.activate(sandbox.family):
        assert target.TABLE[target.thing](1) == 10


def test_a_key_with_dots_that_names_no_module_is_a_plain_key(sandbox, target):
    sandbox.patch(f"{target.__name__}:TABLE[a.b]", lambda x: x * 10, name="dotted")
    with autopatch.activate(sandbox.family):
        assert target.TABLE["a.b"](1) == 10


@pytest.mark.parametrize(
    "path", ["nothing", "Base.nothing", "Nothing.method", "TABLE[nothing]", "scale.nothing", "Base.Inner.nothing"]
)
def test_a_target_that_is_not_there_is_named_and_breaks_nothing(sandbox, target, capsys, path):
    sandbox.patch(f"{target.__name__}:{path}", lambda *args: None, name="lost")
    with autopatch.activate(sandbox.family) as details:
        assert target.scale(1) == 2
    assert details.find("lost").state == "missing"
    assert "has no" in details.find("lost").reason
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{sandbox.family}:lost missing: {target.__name__}:{path}" in line
    assert f"-{sandbox.family}:lost" in line


@pytest.mark.parametrize("path", ["Base", "number", "Base.Inner"])
def test_what_cannot_be_called_or_is_a_class_is_not_patched(sandbox, target, path):
    target.number = 3
    sandbox.patch(f"{target.__name__}:{path}", lambda *args: None, name="wrong")
    before = raw(target, path)
    with autopatch.activate(sandbox.family) as details:
        assert raw(target, path) is before
    assert details.find("wrong").state == "missing"
    assert "function was expected" in details.find("wrong").reason


@pytest.mark.parametrize("place", ["number[0]", "LIST[0]", "text.upper[0]"])
def test_a_path_through_something_unfit_breaks_nothing(sandbox, target, place):
    target.number, target.LIST, target.text = 3, [target.scale], "text"
    sandbox.patch(f"{target.__name__}:{place}", lambda *args: None, name="unfit")
    with autopatch.activate(sandbox.family) as details:
        assert target.scale(1) == 2
    assert details.find("unfit").state in ("missing", "failed")
    assert details.find("unfit").reason


@pytest.mark.parametrize(
    "text",
    ["", "m", ":f", "m:[x]", "m:", "m:.f", "m:a..b", "m:a[", "m:a[]", "m:a[key", "m:a.[", "m:a]", "m:a[b]c", "m:a."],
)
def test_text_that_is_no_target_is_refused(text):
    with pytest.raises(ValueError, match="is not a target"):
        slots.split_target(text)


names = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
keys = st.text(st.characters(blacklist_characters="[]"), min_size=1, max_size=8)
paths = st.tuples(
    names, st.lists(st.one_of(names.map(lambda n: ("attribute", n)), keys.map(lambda k: ("key", k))), max_size=4)
)


@given(st.lists(names, min_size=1, max_size=3), paths)
def test_a_target_is_split_into_what_it_was_made_of(module, path):
    first, rest = path
    text = "".join(f".{part}" if kind == "attribute" else f"[{part}]" for kind, part in rest)
    target = f"{'.'.join(module)}:{first}{text}"
    assert slots.split_target(target) == (".".join(module), [("attribute", first), *rest])


def test_a_module_made_by_hand_can_be_patched(sandbox, monkeypatch):
    import sys

    module = types.ModuleType(f"made{sandbox.number}")
    module.f = original = lambda x: x * 2
    monkeypatch.setitem(sys.modules, module.__name__, module)
    sandbox.patch(f"{module.__name__}:f", lambda x: x * 10, name="f")
    with autopatch.activate(sandbox.family):
        assert module.f(1) == 10
    assert module.f is original

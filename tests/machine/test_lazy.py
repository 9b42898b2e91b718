"""Names of a catalogue that are bound when their module has loaded."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from yobx import autopatch
from yobx.helpers import lazy as lazily


@pytest.fixture(autouse=True)
def only_these_names(monkeypatch):
    monkeypatch.setattr(lazily, "_unbound", [])


CATALOGUE = """
from yobx.helpers.lazy import lazy

target = lazy("{0}")
again = lazy("{0}")
scale = lazy("{0}:scale")
nested = lazy("{0}:Thing.value")
lost = lazy("{0}:nothing")

def uses():
    return target.scale(1), scale(1), nested
"""

TARGET = """
def scale(x):
    return x * 2

class Thing:
    value = 3
"""


def test_names_are_replaced_by_the_real_objects_when_an_activation_begins(sandbox):
    name = sandbox.write(TARGET)
    catalogue = sandbox.load(CATALOGUE.format(name), "catalogue")
    with autopatch.activate("0"):
        assert repr(catalogue.target) == f"<lazy {name}>"
    assert name not in sys.modules
    module = importlib.import_module(name)
    with autopatch.activate("0"):
        assert catalogue.target is catalogue.again is module
        assert catalogue.scale is module.scale
        assert catalogue.nested == 3
        assert catalogue.uses() == (2, 2, 3)


def test_a_name_resolves_itself_before_that(sandbox):
    name = sandbox.write(TARGET)
    catalogue = sandbox.load(CATALOGUE.format(name), "catalogue")
    assert catalogue.target.scale(1) == 2
    assert catalogue.scale(1) == 2
    with pytest.raises(AttributeError, match="nothing"):
        catalogue.lost()


def test_a_name_that_this_version_lacks_stays_as_it_is_and_breaks_nothing(sandbox):
    name = sandbox.write(TARGET)
    catalogue = sandbox.load(CATALOGUE.format(name), "catalogue")
    importlib.import_module(name)
    with autopatch.activate("0"):
        assert repr(catalogue.lost) == f"<lazy {name}:nothing>"


def test_a_module_that_is_still_loading_is_waited_for(sandbox):
    name = sandbox.write("")
    catalogue = sandbox.load(CATALOGUE.format(name), "catalogue")
    (sandbox.directory / f"{name}.py").write_text(
        f"import yobx.autopatch, {catalogue.__name__} as catalogue\n"
        f"with yobx.autopatch.activate('0'):\n    early = repr(catalogue.target)\n{TARGET}"
    )
    module = importlib.import_module(name)
    assert module.early == f"<lazy {name}>"
    with autopatch.activate("0"):
        assert catalogue.target is module


def test_a_module_loaded_while_another_is_unloaded_is_noticed(sandbox):
    name = sandbox.write(TARGET)
    catalogue = sandbox.load(CATALOGUE.format(name), "catalogue")
    stray = sandbox.load("", "stray")
    with autopatch.activate("0"):
        pass
    del sys.modules[stray.__name__]
    importlib.import_module(name)
    with autopatch.activate("0"):
        assert isinstance(catalogue.target, types.ModuleType)


def test_a_name_that_was_given_to_another_global_is_left_alone(sandbox):
    name = sandbox.write(TARGET)
    catalogue = sandbox.load(CATALOGUE.format(name), "catalogue")
    catalogue.scale = "somebody else's"
    importlib.import_module(name)
    with autopatch.activate("0"):
        assert catalogue.scale == "somebody else's"

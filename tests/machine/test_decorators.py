"""A patched decorator covers what it made before and what it will make."""

from __future__ import annotations

import importlib

import pytest

from dispatchers import is_dispatcher
from yobx import autopatch

DECORATOR = """
import functools

def updated(forward):
    @functools.wraps(forward)
    def wrapper(self, x):
        return ["original", forward(self, x)]
    return wrapper

def no_grad(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner
"""

CLASSES = """
from {0} import updated, no_grad

class Plain:
    @updated
    def forward(self, x):
        return x

class Covered:
    @no_grad
    @updated
    def forward(self, x):
        return x + 1

class Other:
    def forward(self, x):
        return x
"""


def replacement(forward):
    def wrapper(self, x):
        return ["replacement", forward(self, x)]

    return wrapper


@pytest.fixture
def decorator(sandbox):
    name = sandbox.write(DECORATOR, "package.decorators")
    sandbox.patch(f"{name}:updated", replacement, name="updated", decorator=True)
    return name


def results(module):
    return [cls().forward(1) for cls in (module.Plain, module.Covered, module.Other)]


ORIGINAL = [["original", 1], ["original", 2], 1]
REPLACED = [["replacement", 1], ["replacement", 2], 1]


@pytest.mark.parametrize("when", ["everything before", "classes after enable", "everything after enable"])
@pytest.mark.parametrize("where", ["package.classes", "remote"])
def test_classes_made_before_and_after_are_covered_and_given_back(sandbox, decorator, when, where):
    text = CLASSES.format(decorator)
    module = None
    if when == "everything before":
        module = sandbox.load(text, where)
    elif when == "classes after enable":
        importlib.import_module(decorator)
    autopatch.enable(sandbox.family)
    module = module or sandbox.load(text, where)
    bodies = [vars(module.Plain)["forward"], module.Covered.forward.__closure__]
    assert results(module) == ORIGINAL
    for _ in range(2):
        with autopatch.activate(sandbox.family):
            assert results(module) == REPLACED
        assert results(module) == ORIGINAL
    autopatch.disable()
    assert results(module) == ORIGINAL
    if when == "everything before":
        assert vars(module.Plain)["forward"] is bodies[0]


def test_a_class_made_inside_a_scope_has_the_original_after_it(sandbox, decorator):
    importlib.import_module(decorator)
    with autopatch.activate(sandbox.family):
        module = sandbox.load(CLASSES.format(decorator), "late")
        assert results(module) == REPLACED
    assert results(module) == ORIGINAL
    plain, covered = vars(module.Plain)["forward"], vars(module.Covered)["forward"]
    assert not is_dispatcher(plain)
    assert not any(is_dispatcher(cell.cell_contents) for cell in covered.__closure__)
    with autopatch.activate(sandbox.family):
        assert results(module) == REPLACED
    assert results(module) == ORIGINAL
    assert vars(module.Plain)["forward"] is plain


def test_a_class_that_reaches_the_decorator_through_its_module_is_covered(sandbox, decorator):
    text = CLASSES.format(decorator).replace("@updated", "@decorators.updated")
    text = f"import {decorator} as decorators\n{text.replace('import updated, no_grad', 'import no_grad')}"
    autopatch.enable(sandbox.family)
    module = sandbox.load(text, "remote")
    assert results(module) == ORIGINAL
    with autopatch.activate(sandbox.family):
        assert results(module) == REPLACED


def test_a_class_defined_in_a_function_while_enabled_is_covered(sandbox, decorator):
    autopatch.enable(sandbox.family)
    updated = importlib.import_module(decorator).updated

    class Local:
        @updated
        def forward(self, x):
            return x

    assert Local().forward(1) == ["original", 1]
    with autopatch.activate(sandbox.family):
        assert Local().forward(1) == ["replacement", 1]
    autopatch.disable()
    assert Local().forward(1) == ["original", 1]
    with autopatch.activate(sandbox.family):
        assert Local().forward(1) == ["replacement", 1]


def test_the_decorator_itself_is_given_back(sandbox, decorator):
    module = importlib.import_module(decorator)
    before = module.updated
    user = sandbox.load(f"from {decorator} import updated\n", "package.user")
    with autopatch.activate(sandbox.family):
        pass
    assert module.updated is before
    assert user.updated is before


def test_two_patches_of_one_decorator(sandbox, decorator):
    def second(forward):
        def wrapper(self, x):
            return ["second", forward(self, x)]

        return wrapper

    other = f"{sandbox.family}b"
    sandbox.patch(f"{decorator}:updated", second, decorator=True, family=other)
    module = sandbox.load(CLASSES.format(decorator), "package.classes")
    with autopatch.activate(sandbox.family), autopatch.activate(other):
        assert module.Plain().forward(1) == ["second", 1]
    with autopatch.activate(other), autopatch.activate(sandbox.family):
        assert module.Plain().forward(1) == ["replacement", 1]
        assert module.Covered().forward(1) == ["replacement", 2]
    assert results(module) == ORIGINAL


def test_what_the_decorator_is_given_besides_functions_is_left_to_it(sandbox):
    name = sandbox.write("def keep(thing=None, *, flag=False):\n    return thing\n", "decorators")
    sandbox.patch(f"{name}:keep", lambda thing=None, *, flag=False: thing, name="keep", decorator=True)
    autopatch.enable(sandbox.family)
    keep = importlib.import_module(name).keep
    assert keep(3) == 3
    assert keep() is None
    assert keep(thing=int) is int

"""A dispatcher passes for the function it stands for."""

from __future__ import annotations

import copy
import inspect
import pickle
import traceback
import typing

import pytest

from dispatchers import is_dispatcher
from yobx import autopatch

SOURCE = '''
import functools
import math

def scale(x: int, factor: float = 2, *, shift: int = 0) -> float:
    """Multiply."""
    return x * factor + shift

scale.mark = "kept"

@functools.lru_cache
def remembered(x):
    return x * 2

@functools.singledispatch
def kind(x):
    return "thing"

@kind.register
def _(x: int):
    return "number"

def fails():
    raise KeyError("original")

async def waits():
    return "original"

def counts(n):
    yield from range(n)

class Model:
    root = math.sqrt

    def forward(self, x):
        """One step."""
        return x * 2

    def __call__(self, x):
        return self.forward(x) + 1
'''


@pytest.fixture
def target(sandbox):
    return sandbox.load(SOURCE)


def enable(sandbox, target, name, function=lambda *args, **kwargs: "replacement", **options):
    sandbox.patch(f"{target.__name__}:{name}", function, name=name.replace(".", "_"), **options)
    autopatch.enable(sandbox.family)


def test_name_documentation_signature_source_and_annotations_are_the_originals(sandbox, target):
    enable(sandbox, target, "scale")
    function = target.scale
    assert is_dispatcher(function)
    assert (function.__name__, function.__qualname__, function.__module__) == ("scale", "scale", target.__name__)
    assert function.__doc__ == "Multiply."
    assert str(inspect.signature(function)) == "(x: int, factor: float = 2, *, shift: int = 0) -> float"
    assert inspect.getsource(function).startswith("def scale(x: int")
    assert inspect.getsourcefile(inspect.unwrap(function)) == target.__file__
    assert typing.get_type_hints(function) == {"x": int, "factor": float, "shift": int, "return": float}
    assert inspect.isfunction(function)


def test_only_the_name_changes_inside_an_explicit_scope_and_it_changes_back(sandbox, target):
    def times_ten(x, factor=2, *, shift=0):
        return x * 10

    enable(sandbox, target, "scale", times_ten)
    with autopatch.activate(sandbox.family):
        with autopatch.activate(sandbox.family):
            assert target.scale.__name__ == "times_ten"
        assert target.scale.__name__ == "times_ten"
        assert target.scale.__qualname__ == "scale"
        assert str(inspect.signature(target.scale)).startswith("(x: int")
    assert target.scale.__name__ == "scale"


def test_arguments_arrive_as_they_were_given(sandbox, target):
    enable(sandbox, target, "scale", lambda *args, **kwargs: (args, kwargs))
    assert target.scale(2, factor=3, shift=1) == 7
    with autopatch.activate(sandbox.family):
        assert target.scale(2, factor=3, shift=1) == ((2,), {"factor": 3, "shift": 1})


def test_a_parameter_may_have_any_name(sandbox, target):
    names = sandbox.load("def f(**named):\n    return sorted(named)\n", "names")
    given = dict.fromkeys(["self", "args", "kwargs", "original", "patch", "number", "body"])
    sandbox.patch(f"{names.__name__}:f", lambda original, /, **named: original(**named), name="f", around=True)
    autopatch.enable(sandbox.family)
    assert names.f(**given) == sorted(given)
    with autopatch.activate(sandbox.family):
        assert names.f(**given) == sorted(given)


def test_attributes_of_the_original_can_be_read(sandbox, target):
    enable(sandbox, target, "scale")
    assert target.scale.mark == "kept"


def test_a_cached_function_can_still_be_cleared(sandbox, target):
    enable(sandbox, target, "remembered")
    target.remembered.cache_clear()
    assert target.remembered(1) == target.remembered(1) == 2
    assert target.remembered.cache_info().hits == 1


def test_a_generic_function_still_takes_registrations(sandbox, target):
    enable(sandbox, target, "kind")
    target.kind.register(str, lambda x: "text")
    assert [target.kind(1), target.kind("a"), target.kind(None)] == ["number", "text", "thing"]


def test_dynamos_private_marks_are_not_copied(sandbox, target):
    target.scale._torchdynamo_orig_callable = target.scale
    enable(sandbox, target, "scale")
    assert not hasattr(target.scale, "_torchdynamo_orig_callable")


def test_exceptions_pass_through_with_the_originals_frame(sandbox, target):
    enable(sandbox, target, "fails")
    with pytest.raises(KeyError, match="original") as caught:
        target.fails()
    assert traceback.extract_tb(caught.tb)[-1].filename == target.__file__


def test_coroutine_functions_and_generators_work_behind_a_dispatcher(sandbox, target):
    enable(sandbox, target, "waits", lambda: None)
    autopatch.disable()
    autopatch.enable(sandbox.family)
    coroutine = target.waits()
    with pytest.raises(StopIteration, match="original"):
        coroutine.send(None)
    sandbox.patch(f"{target.__name__}:counts", lambda n: iter("ab"), name="counts")
    autopatch.enable(sandbox.family)
    assert list(target.counts(3)) == [0, 1, 2]
    with autopatch.activate(sandbox.family):
        assert list(target.counts(3)) == ["a", "b"]


def test_functions_can_be_pickled_and_copied_while_a_dispatcher_stands_there(sandbox, target):
    enable(sandbox, target, "scale")
    data = pickle.dumps(target.scale)
    assert pickle.loads(data) is target.scale
    assert copy.deepcopy(target.scale) is target.scale
    autopatch.disable()
    assert pickle.loads(data) is target.scale
    assert target.scale(1) == 2


def test_objects_and_bound_methods_can_be_pickled_and_copied(sandbox, target):
    enable(sandbox, target, "Model.forward", lambda self, x: x * 10)
    model = target.Model()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again(1) == 3
    bound = pickle.loads(pickle.dumps(model.forward))
    assert bound(1) == 2
    with autopatch.activate(sandbox.family):
        assert bound(1) == 10


def test_a_bound_method_taken_before_enable_keeps_the_original(sandbox, target):
    bound = target.Model().forward
    enable(sandbox, target, "Model.forward", lambda self, x: x * 10)
    with autopatch.activate(sandbox.family):
        assert bound(1) == 2


def test_a_bound_method_taken_inside_a_scope_runs_the_original_after_it(sandbox, target):
    sandbox.patch(f"{target.__name__}:Model.forward", lambda self, x: x * 10, name="forward")
    with autopatch.activate(sandbox.family):
        bound = target.Model().forward
        assert bound(1) == 10
    assert bound(1) == 2
    autopatch.enable(sandbox.family)
    assert bound(1) == 2


def test_a_special_method_can_be_patched(sandbox, target):
    enable(sandbox, target, "Model.__call__", lambda self, x: x * 10)
    assert target.Model()(1) == 3
    with autopatch.activate(sandbox.family):
        assert target.Model()(1) == 10


def test_a_builtin_in_a_class_does_not_get_the_object_as_first_argument(sandbox, target):
    enable(sandbox, target, "Model.root", lambda x: "replacement")
    assert target.Model().root(4) == 2
    assert target.Model.root(4) == 2
    with autopatch.activate(sandbox.family):
        assert target.Model().root(4) == "replacement"


def test_a_method_that_wrapt_wrapped_before_still_gets_its_object(sandbox, target):
    import wrapt

    @wrapt.decorator
    def traced(wrapped, instance, args, kwargs):
        return type(instance).__name__, wrapped(*args, **kwargs)

    target.Model.forward = traced(target.Model.forward)
    enable(sandbox, target, "Model.forward", lambda self, x: x * 10)
    assert target.Model().forward(1) == ("Model", 2)
    with autopatch.activate(sandbox.family):
        assert target.Model().forward(1) == 10


def test_around_gives_the_original_of_every_place(sandbox, target):
    def noisy(original, self, x):
        return ["around", original(self, x)]

    enable(sandbox, target, "Model.forward", noisy, around=True)
    with autopatch.activate(sandbox.family):
        assert target.Model().forward(2) == ["around", 4]


def test_a_replacement_that_calls_the_patched_name_calls_itself(sandbox, target):
    calls = []

    def counting(x, factor=2, *, shift=0):
        calls.append(x)
        return target.scale(x - 1) if x else "end"

    enable(sandbox, target, "scale", counting)
    with autopatch.activate(sandbox.family):
        assert target.scale(2) == "end"
    assert calls == [2, 1, 0]

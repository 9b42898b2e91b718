"""When a patch is installed, and that importing is otherwise as if we were not there."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.resources
import importlib.util
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatchers import is_dispatcher, waited_for
from yobx import autopatch
from yobx.autopatch import imports

SOURCE = """
def scale(x):
    return x * 2
"""


def times_ten(x):
    return x * 10


def declare(sandbox, source=SOURCE, name="target", function=times_ten, path="scale", **options):
    module = sandbox.write(source, name)
    options.setdefault("name", "times_ten")
    sandbox.patch(f"{module}:{path}", function, **options)
    return module


def state(name="times_ten"):
    return autopatch.details().find(name).state


def test_the_importer_sees_the_module_patched_already(sandbox):
    name = declare(sandbox)
    autopatch.enable(sandbox.family)
    assert name not in sys.modules
    assert state() == "pending"
    user = sandbox.load(f"from {name} import scale\n", "user")
    assert is_dispatcher(user.scale)
    assert state() == "installed"
    with autopatch.activate(sandbox.family):
        assert user.scale(1) == 10


def test_a_name_imported_before_is_found_and_given_back(sandbox):
    name = declare(sandbox)
    module = importlib.import_module(name)
    original = module.alias = module.scale
    user = sandbox.load(f"from {name} import scale\n", "user")
    with autopatch.activate(sandbox.family):
        assert module.alias(1) == 10
        assert user.scale(1) == 10
    assert module.alias is module.scale is user.scale is original


def test_a_name_imported_while_the_patch_was_there_is_given_back_too(sandbox):
    name = declare(sandbox)
    target = importlib.import_module(name)
    original = target.scale
    autopatch.enable(sandbox.family)
    user = sandbox.load(f"from {name} import scale\nfrom {name} import scale as mine\n", "user")
    autopatch.disable()
    assert user.scale is user.mine is original
    with autopatch.activate(sandbox.family):
        inside = sandbox.load(f"from {name} import scale\n", "inside")
        assert inside.scale(1) == 10
    assert inside.scale is original


def test_a_module_loaded_during_an_activation_is_covered(sandbox):
    name = declare(sandbox)
    with autopatch.activate(sandbox.family) as details:
        assert details.find("times_ten").state == "pending"
        assert importlib.import_module(name).scale(1) == 10
        assert details.find("times_ten").state == "installed"


def test_a_submodule_is_hooked_and_not_its_package(sandbox):
    name = declare(sandbox, name="package.leaf")
    autopatch.enable(sandbox.family)
    importlib.import_module(name.partition(".")[0])
    assert state() == "pending"
    importlib.import_module(name)
    assert state() == "installed"


def test_the_finder_is_there_only_while_a_module_is_waited_for(sandbox):
    declare(sandbox)
    assert waited_for() == []
    autopatch.enable(sandbox.family)
    assert imports._finder in sys.meta_path
    autopatch.disable()
    assert waited_for() == []


def test_loader_spec_and_source_are_those_of_a_plain_import(sandbox):
    name = declare(sandbox)
    plain = importlib.import_module(name)
    loader, spec = plain.__loader__, plain.__spec__
    del sys.modules[name]
    autopatch.enable(sandbox.family)
    hooked = importlib.import_module(name)
    assert type(hooked.__loader__) is type(loader)
    assert hooked.__spec__.loader is hooked.__loader__
    assert hooked.__spec__ == spec
    assert repr(hooked.__loader__).startswith("<_frozen_importlib_external.SourceFileLoader object")
    assert repr(hooked) == repr(plain)
    assert hooked.__loader__.get_code(name).co_filename == plain.__file__
    assert hooked.__loader__.get_source(name) == loader.get_source(name)
    assert (hooked.__file__, hooked.__cached__, hooked.__package__) == (plain.__file__, plain.__cached__, "")


def test_a_spec_that_was_only_looked_up_serves_as_a_plain_one(sandbox):
    name = declare(sandbox)
    plain = importlib.util.find_spec(name)
    autopatch.enable(sandbox.family)
    spec = importlib.util.find_spec(name)
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    assert spec.loader.get_code(name).co_filename == plain.origin
    assert spec.loader.get_source(name) == plain.loader.get_source(name)
    assert spec.loader.is_package(name) is False
    assert spec == plain
    assert name not in sys.modules
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.scale(1) == 2


def test_resources_of_a_hooked_package_can_be_read(sandbox):
    name = declare(sandbox, name="package.leaf")
    package = name.partition(".")[0]
    (sandbox.directory / package / "data.txt").write_text("text")
    sandbox.patch(f"{package}:missing", times_ten, name="on_package")
    autopatch.enable(sandbox.family)
    importlib.import_module(package)
    assert (importlib.resources.files(package) / "data.txt").read_text() == "text"


def test_a_reload_brings_the_patch_back_over_the_new_function(sandbox):
    name = declare(sandbox)
    autopatch.enable(sandbox.family)
    target = importlib.import_module(name)
    first = target.scale
    assert importlib.reload(target) is target
    assert target.scale is not first
    assert target.scale(1) == 2
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10
        importlib.reload(target)
        assert target.scale(1) == 10
    autopatch.disable()
    assert not is_dispatcher(target.scale)
    importlib.reload(target)
    assert not is_dispatcher(target.scale)


def test_a_reload_with_new_source_takes_the_new_original(sandbox, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = declare(sandbox)
    autopatch.enable(sandbox.family)
    target = importlib.import_module(name)
    (sandbox.directory / f"{name}.py").write_text("def scale(x):\n    return x * 3  # new\n")
    importlib.reload(target)
    assert target.scale(1) == 3
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10
    (sandbox.directory / f"{name}.py").write_text("scale = None  # and nothing there any more\n")
    importlib.reload(target)
    assert state() == "missing"
    autopatch.disable()
    assert target.scale is None


@pytest.mark.parametrize("path", ["Model.forward", "TABLE[scale]"])
@pytest.mark.parametrize("how", ["reloaded", "imported anew"])
def test_a_module_that_begins_anew_while_nothing_is_asked_for(sandbox, path, how):
    """Its classes and tables are others then, and the former ones are nobody's."""
    text = "class Model:\n    def forward(self, x):\n        return x * 2\n\nTABLE = {'scale': lambda x: x * 2}\n"
    name = declare(sandbox, text, path=path, function=lambda *args, **kwargs: "ours")
    module = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        pass
    if how == "reloaded":
        importlib.reload(module)
    else:
        del sys.modules[name]
        module = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert (module.Model().forward(1) if path == "Model.forward" else module.TABLE["scale"](1)) == "ours"
    assert (module.Model().forward(1), module.TABLE["scale"](1)) == (2, 2)


def test_a_module_removed_and_imported_again_is_patched_again(sandbox):
    name = declare(sandbox)
    autopatch.enable(sandbox.family)
    importlib.import_module(name)
    del sys.modules[name]
    again = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert again.scale(1) == 10
    autopatch.disable()
    assert not is_dispatcher(again.scale)


def test_a_failed_import_can_be_retried(sandbox):
    name = declare(sandbox, "import os\nif 'FAIL' in os.environ:\n    raise ImportError('not yet')\n" + SOURCE)
    autopatch.enable(sandbox.family)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FAIL", "1")
        for _ in range(2):
            with pytest.raises(ImportError, match="not yet"):
                importlib.import_module(name)
            assert state() == "pending"
    target = importlib.import_module(name)
    assert state() == "installed"
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10


def test_a_module_that_does_not_exist_is_not_found_as_before(sandbox):
    missing = f"missing{sandbox.number}"
    sandbox.patch(f"{missing}:scale", times_ten)
    autopatch.enable(sandbox.family)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(missing)
    assert caught.value.name == missing
    assert importlib.util.find_spec(missing) is None
    assert autopatch.details().find("times_ten").state == "pending"


def test_circular_imports_work_and_both_modules_are_patched(sandbox):
    one = sandbox.write("", "one")
    two = sandbox.write(f"import {one}\ndef scale(x):\n    return {one}.scale(x)\n", "two")
    (sandbox.directory / f"{one}.py").write_text(f"import {two}\ndef scale(x):\n    return x * 2\n")
    sandbox.patch(f"{one}:scale", times_ten, name="one")
    sandbox.patch(f"{two}:scale", lambda original, x: original(x) + 1, name="two", around=True)
    autopatch.enable(sandbox.family)
    importlib.import_module(one)
    assert sys.modules[two].scale(1) == 2
    with autopatch.activate(sandbox.family):
        assert sys.modules[two].scale(1) == 11


def test_enable_from_inside_the_module_that_is_being_imported(sandbox):
    name = declare(sandbox, f"import yobx.autopatch\nyobx.autopatch.enable('{sandbox.family}')\n{SOURCE}")
    target = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10
    assert state() == "installed"


def test_several_modules_that_enable_while_they_are_imported(sandbox):
    text = "import yobx.autopatch\nyobx.autopatch.enable('{0}')\nimport {1}\n" + SOURCE
    inner = sandbox.write(SOURCE, "inner")
    outer = sandbox.write(text.format(sandbox.family, inner), "outer")
    lost = sandbox.write(f"import yobx.autopatch\nyobx.autopatch.enable('{sandbox.family}c')\nraise ImportError\n", "c")
    sandbox.patch(f"{inner}:scale", times_ten, name="inner")
    sandbox.patch(f"{outer}:scale", times_ten, name="outer")
    sandbox.patch(f"{lost}:scale", times_ten, name="lost", family=f"{sandbox.family}c")
    importlib.import_module(outer)
    with pytest.raises(ImportError):
        importlib.import_module(lost)
    with autopatch.activate(sandbox.family):
        assert sys.modules[inner].scale(1) == 10
        assert sys.modules[outer].scale(1) == 10


def lazily(name):
    spec = importlib.util.find_spec(name)
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def is_still_lazy(module):
    return object.__getattribute__(module, "__class__") is not types.ModuleType


def test_a_lazily_loaded_module_is_patched_when_it_loads(sandbox):
    name = declare(sandbox)
    autopatch.enable(sandbox.family)
    module = lazily(name)
    assert is_still_lazy(module)
    assert module.scale(1) == 2
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10


def test_a_lazy_module_is_not_loaded_by_us(sandbox):
    name = declare(sandbox)
    bystander = sandbox.write(SOURCE, "bystander")
    lazy_target, lazy_bystander = lazily(name), lazily(bystander)
    autopatch.enable(sandbox.family)
    with autopatch.activate(sandbox.family):
        assert is_still_lazy(lazy_bystander)
        assert is_still_lazy(lazy_target)
    autopatch.details()
    autopatch.disable()
    assert is_still_lazy(lazy_target)
    assert is_still_lazy(lazy_bystander)


def test_a_lazy_module_that_existed_before_enable_is_patched_once_it_has_loaded(sandbox):
    name = declare(sandbox)
    module = lazily(name)
    autopatch.enable(sandbox.family)
    assert module.scale(1) == 2
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10


def test_names_in_a_lazy_module_are_found_after_it_has_loaded(sandbox):
    name = declare(sandbox)
    importlib.import_module(name)
    bystander = lazily(sandbox.write(f"from {name} import scale\n", "bystander"))
    with autopatch.activate(sandbox.family):
        pass
    assert bystander.scale(1) == 2
    with autopatch.activate(sandbox.family):
        assert bystander.scale(1) == 10


def test_a_namespace_package_can_hold_a_target(sandbox):
    name = f"space{sandbox.number}"
    (sandbox.directory / name).mkdir()
    (sandbox.directory / name / "leaf.py").write_text(SOURCE)
    sandbox.names.append(name)
    sandbox.patch(f"{name}.leaf:scale", times_ten)
    sandbox.patch(f"{name}:nothing", times_ten, name="on_space")
    autopatch.enable(sandbox.family)
    leaf = importlib.import_module(f"{name}.leaf")
    with autopatch.activate(sandbox.family):
        assert leaf.scale(1) == 10


class TextFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds one module, whose text it has in memory; gives the same spec every time."""

    def __init__(self, name):
        self.name = name
        self.spec = importlib.machinery.ModuleSpec(name, self)
        self.asked = 0

    def find_spec(self, fullname, path=None, target=None):
        self.asked += fullname == self.name
        return self.spec if fullname == self.name else None

    def get_source(self, fullname):
        return SOURCE


@pytest.mark.parametrize("where", ["before ours", "after ours"])
def test_a_module_of_another_finder_is_patched(sandbox, monkeypatch, where):
    name = f"text{sandbox.number}"
    sandbox.names.append(name)
    finder = TextFinder(name)
    sandbox.patch(f"{name}:scale", times_ten)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    if where == "after ours":
        sys.meta_path.append(finder)
    autopatch.enable(sandbox.family)
    if where == "before ours":
        sys.meta_path.insert(0, finder)
    module = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    autopatch.disable()
    assert module.__loader__ is finder
    assert not is_dispatcher(module.scale)


def test_a_spec_that_its_finder_gives_again_is_not_hooked_twice(sandbox, monkeypatch):
    name = f"text{sandbox.number}"
    sandbox.names.append(name)
    finder = TextFinder(name)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    sandbox.patch(f"{name}:scale", times_ten)
    autopatch.enable(sandbox.family)
    for _ in range(3):
        importlib.util.find_spec(name)
    importlib.import_module(name)
    assert finder.spec.loader is finder
    autopatch.disable()


def test_a_finder_that_asks_the_whole_machinery_again_does_not_recurse(sandbox, monkeypatch):
    name = declare(sandbox)

    class Nosy:
        def __init__(self):
            self.busy = False

        def find_spec(self, fullname, path=None, target=None):
            if fullname != name or self.busy:
                return None
            self.busy = True
            try:
                return importlib.util.find_spec(fullname)
            finally:
                self.busy = False

    for position in (0, 1):
        monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
        autopatch.enable(sandbox.family)
        sys.meta_path.insert(position, Nosy())
        module = importlib.import_module(name)
        with autopatch.activate(sandbox.family):
            assert module.scale(1) == 10
        autopatch.disable()
        monkeypatch.undo()
        monkeypatch.syspath_prepend(str(sandbox.directory))
        del sys.modules[name]


def test_a_finder_that_raises_is_not_hidden(sandbox, monkeypatch):
    name = declare(sandbox)

    class Broken:
        def find_spec(self, fullname, path=None, target=None):
            if fullname == name:
                raise ImportError("forbidden")

    autopatch.enable(sandbox.family)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path[:1], Broken(), *sys.meta_path[1:]])
    with pytest.raises(ImportError, match="forbidden"):
        importlib.import_module(name)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(sandbox.directory))
    assert imports._finder in sys.meta_path
    importlib.import_module(name)
    assert state() == "installed"


@pytest.mark.parametrize("again", ["details", "enable", "activate"])
def test_our_finder_removed_by_somebody_costs_nothing_but_time(sandbox, again):
    name = declare(sandbox)
    autopatch.enable(sandbox.family)
    sys.meta_path.remove(imports._finder)
    target = importlib.import_module(name)
    assert target.scale(1) == 2
    if again == "details":
        assert state() == "installed"
    elif again == "enable":
        autopatch.enable(sandbox.family)
        assert is_dispatcher(target.scale)
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10


@pytest.mark.parametrize("when", ["before", "after"])
def test_wrapts_own_hooks_on_the_same_module_run_once(sandbox, when):
    import wrapt

    name = declare(sandbox)
    seen = []
    if when == "before":
        wrapt.register_post_import_hook(seen.append, name)
    autopatch.enable(sandbox.family)
    if when == "after":
        wrapt.register_post_import_hook(seen.append, name)
    module = importlib.import_module(name)
    assert seen == [module]
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    autopatch.disable()
    assert not is_dispatcher(module.scale)


def test_what_a_wrapt_hook_puts_there_is_our_original(sandbox):
    import wrapt

    name = declare(sandbox)
    wrapt.register_post_import_hook(lambda module: setattr(module, "scale", lambda x: "theirs"), name)
    autopatch.enable(sandbox.family)
    module = importlib.import_module(name)
    assert module.scale(1) == "theirs"
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    autopatch.disable()
    assert module.scale(1) == "theirs"
    assert not is_dispatcher(module.scale)


def test_what_a_wrapt_hook_raises_is_its_own_affair(sandbox):
    import wrapt

    def raises(module):
        raise ZeroDivisionError("theirs")

    name = declare(sandbox)
    wrapt.register_post_import_hook(raises, name)
    autopatch.enable(sandbox.family)
    with pytest.raises(ZeroDivisionError, match="theirs"):
        importlib.import_module(name)


def test_an_init_that_waits_for_a_thread_importing_a_hooked_submodule_does_not_hang(sandbox, run_python):
    """The deadlock of wrapt's finder: it takes the package's lock to look for the submodule."""
    package = sandbox.write(
        """
        import importlib, threading
        thread = threading.Thread(target=importlib.import_module, args=(f"{__name__}.leaf",), daemon=True)
        thread.start()
        thread.join(20)
        hung = thread.is_alive()
        """,
        "package.__init__",
    ).rpartition(".")[0]
    leaf = sandbox.write(SOURCE, "package.leaf")
    code = f"""
        import sys
        sys.path.insert(0, {str(sandbox.directory)!r})
        import yobx.autopatch
        from yobx.helpers.patch_helper import PatchInfo
        yobx.autopatch.register(PatchInfo.make(lambda x: x * 10, "{leaf}", "scale", family="mine"))
        yobx.autopatch.enable("mine")
        import {package}
        print({package}.hung, [info.state for info in yobx.autopatch.details()])
    """
    assert run_python(code, check=True).stdout.split() == ["False", "['installed']"]


def test_an_import_in_a_thread_while_another_module_is_being_imported(sandbox):
    gate = types.ModuleType(f"gate{sandbox.number}")
    gate.entered, gate.leave = threading.Event(), threading.Event()
    sys.modules[gate.__name__] = gate
    sandbox.names.append(gate.__name__)
    slow = sandbox.write(
        f"import {gate.__name__} as gate\ngate.entered.set()\nassert gate.leave.wait(20)\n{SOURCE}", "slow"
    )
    quick = sandbox.write(SOURCE, "quick")
    sandbox.patch(f"{slow}:scale", times_ten, name="slow")
    sandbox.patch(f"{quick}:scale", times_ten, name="quick")
    autopatch.enable(sandbox.family)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(importlib.import_module, slow)
        assert gate.entered.wait(20)
        with autopatch.activate(sandbox.family):
            assert importlib.import_module(quick).scale(1) == 10
        gate.leave.set()
        module = future.result()
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10


def test_enable_while_another_thread_is_halfway_through_the_module(sandbox):
    gate = types.ModuleType(f"gate{sandbox.number}")
    gate.entered, gate.leave = threading.Event(), threading.Event()
    sys.modules[gate.__name__] = gate
    sandbox.names.append(gate.__name__)
    slow = sandbox.write(
        f"import {gate.__name__} as gate\ngate.entered.set()\nassert gate.leave.wait(20)\n{SOURCE}", "slow"
    )
    sandbox.patch(f"{slow}:scale", times_ten)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(importlib.import_module, slow)
        assert gate.entered.wait(20)
        autopatch.enable(sandbox.family)
        assert state() == "pending"
        gate.leave.set()
        module = future.result()
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    assert state() == "installed"


def test_a_hook_that_raises_never_breaks_the_import(sandbox, capsys):
    name = sandbox.write(SOURCE)

    def broken():
        raise ZeroDivisionError("looking for places")

    sandbox.patch(f"{name}:scale", times_ten, slots=broken)
    sandbox.patch(f"{name}:scale", times_ten, name="sound")
    autopatch.enable(sandbox.family)
    module = importlib.import_module(name)
    broken_one, sound = autopatch.details()
    assert (broken_one.state, sound.state) == ("failed", "installed")
    assert "ZeroDivisionError: looking for places" in broken_one.reason
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{sandbox.family}:times_ten failed" in line


def test_declarations_that_raise_never_break_the_import_of_their_package(sandbox, monkeypatch, capsys):
    from yobx.autopatch import families

    package = sandbox.write("value = 1\n", "package")
    broken = sandbox.write("raise ZeroDivisionError('in a catalogue')\n", "catalogue")
    monkeypatch.setitem(families._families, sandbox.family, families.Family(sandbox.family, broken, package))
    monkeypatch.setattr(families, "BUILT_IN", (*families.BUILT_IN, sandbox.family))
    autopatch.enable(sandbox.family)
    assert importlib.import_module(package).value == 1
    assert "in a catalogue" in capsys.readouterr().err


def test_an_interrupt_in_a_hook_is_not_swallowed(sandbox):
    name = sandbox.write(SOURCE)

    def interrupted():
        raise KeyboardInterrupt

    sandbox.patch(f"{name}:scale", times_ten, slots=interrupted)
    autopatch.enable(sandbox.family)
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module(name)
    assert name not in sys.modules


def test_an_extension_or_builtin_module_can_be_a_target(sandbox):
    sandbox.patch("_json:scanstring", lambda *args: "replacement", name="scanstring")
    import _json

    before = _json.scanstring
    with autopatch.activate(sandbox.family):
        assert _json.scanstring('a"', 0) == "replacement"
    assert _json.scanstring is before


def test_a_module_that_replaces_itself_in_sys_modules_is_patched(sandbox):
    name = declare(
        sandbox,
        f"import sys, types\n{SOURCE}\nnew = types.ModuleType(__name__)\nnew.scale = scale\n"
        "new.__spec__ = __spec__\nsys.modules[__name__] = new\n",
    )
    autopatch.enable(sandbox.family)
    module = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10


def test_a_module_that_changes_its_name_is_patched(sandbox):
    name = declare(sandbox, f"{SOURCE}\n__name__ = 'another'\n")
    autopatch.enable(sandbox.family)
    module = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == 10


def test_odd_things_in_sys_modules_are_passed_over(sandbox):
    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError(f"hands off: {name}")

    class Slotted:
        __slots__ = ()

    name = declare(sandbox)
    odd = {f"odd{sandbox.number}{i}": thing for i, thing in enumerate((None, Hostile(), Slotted(), 3, "text"))}
    sandbox.names += odd
    sys.modules.update(odd)
    target = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10

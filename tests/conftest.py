"""Fixtures for every test: a place for modules that are patched, and a Python that runs a script as a user would."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dispatchers import waited_for
from yobx import autopatch
from yobx.autopatch import activation, claims, families, imports, notices, process
from yobx.helpers.patch_helper import PatchInfo, patch

_numbers = itertools.count()


class Sandbox:
    """Modules of a test's own, written to disk and importable, and a family of patches for them.

    Names are new for every test: neither ``sys.modules`` nor the table of families remembers another one's.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.number = next(_numbers)
        self.family = f"family{self.number}"
        self.names: list[str] = []
        self.families: set[str] = {self.family}

    def write(self, source: str, name: str = "target") -> str:
        """Write a module, or with a dotted name a module of a package, and give its full name."""
        top, *rest = name.split(".")
        full = ".".join([f"{top}{self.number}", *rest])
        path = self.directory.joinpath(*full.split("."))
        for parent in list(path.relative_to(self.directory).parents)[:-1]:
            package = self.directory / parent
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
        if path.is_dir():
            path = path / "__init__"
        path.with_suffix(".py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        self.names.append(full)
        return full

    def load(self, source: str, name: str = "target") -> ModuleType:
        """Write a module and import it."""
        return importlib.import_module(self.write(source, name))

    def patch(self, target: str, function: Callable[..., Any], **options: Any) -> PatchInfo:
        """Declare a patch in the sandbox's family, or in another one."""
        family = options.setdefault("family", self.family)
        self.families.add(family)
        options.setdefault("name", function.__name__)
        patch(target, why="a test", **options)(function)
        return families.get(family).patches[options["name"]].info

    def clean(self) -> None:
        """Forget the modules and the families."""
        for name in self.families:
            families._families.pop(name, None)
        for name in list(sys.modules):
            if name.partition(".")[0] in {full.partition(".")[0] for full in self.names}:
                del sys.modules[name]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """After every test nothing is enabled, active or waited for."""
    yield
    notices._said.clear()
    notices.settings.strict = notices.settings.verbose = False
    autopatch.disable()
    left = {
        "stack": list(activation.state.stack),
        "doors": list(activation.state.doors),
        "winners": activation.state.winners | activation.default.winners,
        "held": list(process._held),
        "wanted": [patch for waiting in claims.wanted.values() for patch in waiting.values()],
        "hooks": waited_for(),
        "finder": imports._finder in sys.meta_path and not imports._before and not imports._after,
    }
    # A test that failed halfway is no reason for the next one to fail.
    activation.state.stack.clear()
    activation.state.doors.clear()
    activation.refresh()
    for wanted in left["wanted"]:
        claims.release([wanted] * wanted.users)
    assert not any(left.values()), left


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A place for modules that a test patches."""
    directory = tmp_path / "modules"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    place = Sandbox(directory)
    yield place
    autopatch.disable()
    place.clean()


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a Python of its own: ``run_python(code, *arguments, flags=(), env={})``."""

    def run(
        code: str,
        *arguments: str,
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        check: bool = False,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(code))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("YOBX_", "PYTHON"))}
        if "PYTHONPATH" in os.environ:
            # What is tested may be found by it.
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        environment |= {"OMP_NUM_THREADS": "1", **(env or {})}
        done = subprocess.run(
            [sys.executable, *flags, *(command or [str(script)]), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=timeout,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    return run

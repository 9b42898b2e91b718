"""The ``YOBX_*`` variables in processes of their own, started in every way that a script is started."""

from __future__ import annotations

import os
import subprocess
import sys
import zipapp

import pytest

NOTHING = "import sys; print('yobx' in sys.modules)"
ENABLED = """
    import sys
    machine = sys.modules.get("yobx.autopatch.process")
    print([name for _, wanted in machine._enabled for name in wanted.families] if machine else "off")
"""

# A family that a distribution would bring, in a file that the script's own directory holds.
FAMILY = """
from yobx.helpers.patch_helper import patch

@patch("victim:scale", family="mine", why="a test", {options})
def scale({parameters}):
    return x * 10
"""
VICTIM = "def scale(x):\n    return x * 2\n"


@pytest.fixture
def plugin(tmp_path):
    """Install, in a directory of its own, a distribution with a family called ``mine``; the variables to use it."""

    def install(parameters="x", options="", victim=VICTIM):
        place = tmp_path / "plugin"
        info = place / "mine-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[yobx.patches]\nmine = mine_patches\n")
        (place / "mine_patches.py").write_text(FAMILY.format(parameters=parameters, options=options))
        (place / "victim.py").write_text(victim)
        return {"PYTHONPATH": str(place), "YOBX_PATCH": "mine", "YOBX_PATCH_SCOPE": "always"}

    return install


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_nothing_of_yobx_is_loaded(run_python, value):
    done = run_python(NOTHING, env={} if value is None else {"YOBX_PATCH": value}, check=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_with_the_variable_only_light_modules_are_loaded(run_python):
    code = """
        import sys
        heavy = {"torch", "transformers", "wrapt", "packaging", "dataclasses", "importlib.metadata", "inspect", "re",
                 "typing", "logging", "argparse", "json", "ast", "difflib"}
        print(sorted(heavy & set(sys.modules)))
    """
    plain = run_python(code, check=True).stdout
    assert run_python(code, env={"YOBX_PATCH": "torch,transformers"}, check=True).stdout == plain


def test_the_variable_enables_the_families(run_python):
    done = run_python(ENABLED, env={"YOBX_PATCH": "torch,transformers"}, check=True)
    assert done.stdout.strip() == "['torch', 'transformers']"
    done = run_python(ENABLED, env={"YOBX_PATCH": "all"}, check=True)
    assert done.stdout.strip() == "['torch', 'transformers']"


def test_zero_enables_nothing_and_leaves_importing_alone(run_python):
    code = "import sys; print([type(finder).__module__ for finder in sys.meta_path if 'yobx' in str(type(finder))])"
    assert run_python(code, env={"YOBX_PATCH": "0"}, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("flag", ["-I", "-E"])
def test_the_variables_are_ignored_where_python_ignores_its_own(run_python, flag):
    code = ENABLED + "\n    from yobx import autopatch; print(len(autopatch.details()))"
    done = run_python(code, flags=[flag], env={"YOBX_PATCH": "trch", "YOBX_PATCH_STRICT": "1"}, check=True)
    assert done.stdout.split() == ["[]", "0"]
    assert done.stderr == ""


def test_without_site_there_is_no_pth_file_and_sitecustomize_does_not_run(run_python):
    assert run_python(NOTHING, flags=["-S"], env={"YOBX_PATCH": "torch"}, check=True).stdout.strip() == "False"


@pytest.mark.parametrize("value", ["trch", "torch,trch", "torch:nothing", "-trch", "torch;transformers", "Torch", "1"])
def test_a_bad_value_is_one_line_with_the_valid_names_and_the_program_runs_on(run_python, value):
    done = run_python(ENABLED + "\n    print('ran')", env={"YOBX_PATCH": value}, check=True)
    assert done.stdout.split() == ["[]", "ran"]
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"yobx: YOBX_PATCH={value}: ")
    assert ("torch, transformers" in line) != ("it has: " in line)
    assert line.endswith("Nothing is patched.")


def test_a_bad_value_under_strict_ends_the_program_before_it_begins(run_python):
    done = run_python("print('ran')", env={"YOBX_PATCH": "trch", "YOBX_PATCH_STRICT": "1"})
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "'trch'; there are: torch, transformers" in line


@pytest.mark.parametrize(("strict", "code"), [("0", 0), ("", 0), ("1", 2)])
def test_a_bad_scope_names_its_variable(run_python, strict, code):
    env = {"YOBX_PATCH": "torch", "YOBX_PATCH_SCOPE": "sometimes", "YOBX_PATCH_STRICT": strict}
    done = run_python("print('ran')", env=env)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert "YOBX_PATCH_SCOPE=sometimes" in line
    assert "'export', 'always'" in line


def test_other_variables_alone_do_nothing(run_python):
    env = {"YOBX_PATCH_STRICT": "1", "YOBX_PATCH_SCOPE": "sometimes", "YOBX_PATCH_VERBOSE": "1"}
    done = run_python(NOTHING, env=env, check=True)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_a_message_never_lands_on_stdout(run_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    env = {**os.environ, "YOBX_PATCH": "trch"}
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env
    )
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_a_family_of_another_distribution_is_found(run_python, plugin):
    done = run_python("import victim; print(victim.scale(1))", env=plugin(), check=True)
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_verbose_says_a_line_for_every_patch(run_python, plugin):
    env = plugin() | {"YOBX_PATCH_VERBOSE": "1"}
    done = run_python("import victim; print(victim.scale(1))", env=env, check=True)
    (line,) = done.stderr.splitlines()
    assert line.startswith("yobx: mine:scale installed: victim:scale (")
    assert done.stdout == "10\n"


def test_verbose_says_why_a_patch_is_skipped(run_python, plugin):
    env = plugin(options="versions='wrapt>=99'") | {"YOBX_PATCH_VERBOSE": "1"}
    done = run_python("import victim; print(victim.scale(1))", env=env, check=True)
    (line,) = done.stderr.splitlines()
    assert line.startswith("yobx: mine:scale skipped: victim:scale (")
    assert "meant for wrapt>=99" in line
    assert done.stdout == "2\n"


@pytest.mark.parametrize(
    ("damage", "state"),
    [({"parameters": "x, y"}, "failed"), ({"victim": "def other(x):\n    return x\n"}, "missing")],
)
def test_a_patch_that_cannot_stand_is_said_once_and_the_import_goes_on(run_python, plugin, damage, state):
    code = "import victim, sys, importlib; importlib.reload(victim); print('ran')"
    env = plugin(**damage)
    done = run_python(code, env=env, check=True)
    assert done.stdout == "ran\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"yobx: mine:scale {state}: victim:scale (")
    assert "YOBX_PATCH=…,-mine:scale" in line
    silent = run_python(code, env=env | {"YOBX_PATCH": "mine,-mine:scale"}, check=True)
    assert silent.stderr == ""


@pytest.mark.parametrize("damage", [{"parameters": "x, y"}, {"victim": "def other(x):\n    return x\n"}])
def test_under_strict_a_patch_that_cannot_stand_ends_the_import(run_python, plugin, damage):
    done = run_python("import victim; print('ran')", env=plugin(**damage) | {"YOBX_PATCH_STRICT": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "PatchError: mine:scale" in done.stderr


def test_a_family_that_cannot_be_read_is_one_line_and_the_program_runs_on(run_python, plugin, tmp_path):
    env = plugin()
    (tmp_path / "plugin" / "mine_patches.py").write_text("raise ZeroDivisionError('in a catalogue')\n")
    done = run_python("print('ran')", env=env, check=True)
    assert done.stdout == "ran\n"
    (line,) = done.stderr.splitlines()
    assert "in a catalogue" in line
    assert run_python("print('ran')", env=env | {"YOBX_PATCH_STRICT": "1"}).returncode == 2


def test_a_bad_word_in_strict_mode_leaves_the_exit_code_of_a_tool_that_starts_python(run_python):
    env = {"YOBX_PATCH": "trch", "YOBX_PATCH_STRICT": "1"}
    assert run_python("", command=["-c", "print('ran')"], env=env).returncode == 2
    assert run_python("", command=["-m", "this"], env=env).returncode == 2


VALUE = "import victim; print(victim.scale(1))"


def test_python_c_and_python_m(run_python, plugin, tmp_path):
    env = plugin()
    assert run_python("", command=["-c", VALUE], env=env, check=True).stdout == "10\n"
    (tmp_path / "tool.py").write_text(VALUE)
    assert run_python("", command=["-m", "tool"], env=env, check=True).stdout == "10\n"


def test_python_m_of_the_patched_module_itself_runs_it_as_it_is(run_python, plugin):
    victim = VICTIM + "if __name__ == '__main__':\n    print(scale(1), type(__loader__).__name__, __spec__.name)\n"
    done = run_python("", command=["-m", "victim"], env=plugin(victim=victim), check=True)
    assert (done.stdout, done.stderr) == ("2 SourceFileLoader victim\n", "")


def test_a_zipapp(run_python, plugin, tmp_path):
    source = tmp_path / "application"
    source.mkdir()
    (source / "__main__.py").write_text("import victim, helper; print(victim.scale(1), helper.double(1))")
    (source / "helper.py").write_text("from victim import scale\ndef double(x):\n    return scale(x) * 2\n")
    zipapp.create_archive(source, tmp_path / "application.pyz")
    done = run_python("", command=[str(tmp_path / "application.pyz")], env=plugin(), check=True)
    assert done.stdout == "10 20\n"


def test_a_target_inside_a_zip_file(run_python, plugin, tmp_path):
    import zipfile

    env = plugin()
    (tmp_path / "plugin" / "victim.py").unlink()
    with zipfile.ZipFile(tmp_path / "victims.zip", "w") as archive:
        archive.writestr("victim.py", VICTIM)
    env["PYTHONPATH"] += os.pathsep + str(tmp_path / "victims.zip")
    code = "import victim; print(victim.scale(1), victim.__loader__.get_source('victim')[:3])"
    assert run_python(code, env=env, check=True).stdout == "10 def\n"


MULTIPROCESSING = """
    import multiprocessing, sys

    def value(_):
        import victim
        return victim.scale(1)

    if __name__ == "__main__":
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.map(value, [0]))
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_workers_of_multiprocessing_are_patched_like_their_parent(run_python, plugin, method):
    assert run_python(MULTIPROCESSING, method, env=plugin(), check=True).stdout == "[10]\n"


@pytest.mark.parametrize(("method", "expected"), [("fork", "[10, 2]"), ("spawn", "[2, 2]")])
def test_a_scope_that_is_open_while_a_process_is_made(run_python, plugin, method, expected):
    """A forked child begins inside the scope, as a copy does; a spawned one begins anew. The parent is not touched."""
    code = """
        import multiprocessing, sys, victim
        from yobx import autopatch

        def value(_):
            return victim.scale(1)

        if __name__ == "__main__":
            with autopatch.activate("mine"):
                process = multiprocessing.get_context(sys.argv[1]).Pool(1)
            with process as pool:
                print([*pool.map(value, [0]), victim.scale(1)])
    """
    env = plugin() | {"YOBX_PATCH": ""}
    assert run_python(code, method, env=env, check=True).stdout.strip() == expected


def test_a_child_forked_inside_a_scope_can_leave_it(run_python, plugin):
    code = """
        import os, victim
        from yobx import autopatch

        with autopatch.activate("mine"):
            child = os.fork()
        print("child" if child == 0 else "parent", victim.scale(1), flush=True)
        if child:
            os.waitpid(child, 0)
    """
    done = run_python(code, env=plugin() | {"YOBX_PATCH": ""}, check=True)
    assert sorted(done.stdout.splitlines()) == ["child 2", "parent 2"]


def test_a_fork_while_another_thread_installs_does_not_hang_the_child(run_python, plugin):
    code = """
        import os, sys, threading, victim
        from yobx import autopatch
        from yobx.autopatch import occupants

        held, done = threading.Event(), threading.Event()
        os.register_at_fork(before=done.set)

        def hold():
            with occupants.lock:
                held.set()
                done.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        child = os.fork()
        if child == 0:
            watchdog = threading.Timer(20, os._exit, [3])
            watchdog.start()
            with autopatch.activate("mine"):
                value = victim.scale(1)
            os._exit(0 if value == 10 else 4)
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = run_python(code, env=plugin() | {"YOBX_PATCH": ""}, check=True)
    assert done.stdout == "0\n"


def test_subprocess_inherits_the_variable_unless_told_otherwise(run_python, plugin):
    code = f"""
        import os, subprocess, sys
        clean = {{name: value for name, value in os.environ.items() if not name.startswith("YOBX_")}}
        for flags, env in (([], None), (["-E"], None), ([], clean)):
            done = subprocess.run([sys.executable, *flags, "-c", "import sys; sys.path.insert(0, sys.argv[1]); {VALUE}",
                                   os.environ["PYTHONPATH"]], env=env, capture_output=True, text=True)
            print(done.stdout.strip(), done.stderr)
    """
    assert run_python(code, env=plugin(), check=True).stdout.split() == ["10", "2", "2"]


def test_a_script_that_yobx_runs_cannot_be_named_by_a_variable(run_python, tmp_path):
    (tmp_path / "evil.py").write_text("print('evil')")
    for value in (str(tmp_path / "evil.py"), "evil", "evil:main", "torch,evil"):
        done = run_python("print('ran')", env={"YOBX_PATCH": value, "PYTHONPATH": str(tmp_path)}, check=True)
        assert done.stdout == "ran\n"


def test_main_called_again_does_nothing(run_python, plugin):
    code = """
        import victim
        from yobx import autopatch
        from yobx.autopatch import startup
        autopatch.disable()
        startup.main()
        print(victim.scale(1))
    """
    assert run_python(code, env=plugin(), check=True).stdout == "2\n"


def test_enable_imports_neither_torch_nor_transformers(run_python):
    code = """
        import sys
        import yobx, yobx.autopatch, yobx.helpers.patch_helper, yobx.torch
        assert not {"torch", "transformers"} & set(sys.modules)
        yobx.autopatch.enable()
        yobx.autopatch.enable("torch:expand") if "expand" in str(yobx.autopatch.details().data()) else None
        with yobx.autopatch.activate(), yobx.autopatch.suspend():
            pass
        yobx.autopatch.disable()
        print({"torch", "transformers"} & set(sys.modules))
    """
    assert run_python(code, check=True).stdout == "set()\n"

"""Sessions for the pairs of torch and transformers, for Python versions, and for the documentation.

nox -l            what there is
nox -s suite      the tests on every pair
nox -s "suite(oldest)"
"""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "suite"]
nox.options.reuse_existing_virtualenvs = True

# The oldest versions that are supported, those that the patches were first written for, and the newest.
PAIRS = {
    "oldest": ("torch==2.9.1", "transformers==4.57.6"),
    "reference": ("torch==2.13.0", "transformers==5.24.0"),
    "newest": ("torch==2.15.0", "transformers"),
}


@nox.session
def lint(session: nox.Session) -> None:
    """Style and types."""
    session.install("ruff", "mypy", "torch==2.13.0")
    session.install("-e", ".")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
@nox.parametrize("pair", [nox.param(pair, id=name) for name, pair in PAIRS.items()])
def suite(session: nox.Session, pair: tuple[str, str]) -> None:
    """The whole test suite on one pair; words after -- go to pytest."""
    session.install(*pair)
    session.install("-e", ".[onnx,report,test]", *pair)
    session.run("python", "-m", "pytest", "-q", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def machine(session: nox.Session) -> None:
    """The machine's own tests, which need no torch."""
    session.install(
        "pytest>=8", "pytest-timeout", "hypothesis", "wrapt>=1.16", "packaging>=22", "hatchling", "editables"
    )
    session.install("--no-deps", "-e", ".")
    session.run("python", "-m", "pytest", "-q", "tests/machine", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation: every snippet is run, a warning is an error."""
    session.install("torch==2.13.0")
    session.install("-e", ".[transformers,onnx,report,test,docs]")
    session.run(
        "sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", env={"OMP_NUM_THREADS": "1"}
    )


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The figures of the benchmarks page."""
    session.install("torch==2.13.0")
    session.install("-e", ".[transformers,benchmarks]")
    session.run("python", "-m", "benchmarks", "--json", "docs/data/benchmarks.json", *session.posargs)

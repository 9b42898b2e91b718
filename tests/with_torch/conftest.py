"""Everything here needs torch; without it nothing of this directory is collected."""

from __future__ import annotations

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def compiled_code_is_forgotten():
    """Compiled code of one test is no other test's affair."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()

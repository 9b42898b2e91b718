"""transformers' own exporter exports under the patches what it exports alone, and what it does not."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("export_with_dynamo_exporter.py")


@pytest.mark.skipif(find_spec("transformers.exporters") is None, reason="transformers 5 has an exporter")
def test_exporter_of_transformers_is_general_under_the_patches(run_python):
    done = run_python("", command=[str(SCRIPT)], env={"YOBX_PATCH": "torch,transformers"}, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found.values()) == {"general"}, found

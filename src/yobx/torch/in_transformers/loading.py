"""Loading a program whose inputs or outputs are classes of transformers.

A saved program names the classes by which its inputs and outputs are taken apart. They are registered when
transformers defines them, or by this family (caches); a process that only loads and runs a program has imported none.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Outcome, Reproducer

torch: Any = lazy("torch")

CLASS_NAME = re.compile(r'"type": "(transformers(?:\.\w+)*)\.\w+"')


class LoadedElsewhere(Reproducer):
    """A reproducer that saves its program, and loads and runs it in a new process."""

    SCRIPT = "import sys, torch; torch.export.load(sys.argv[1]).module()(x=torch.ones(3, 2))"

    def run(self) -> Outcome:
        """Save under the patches active now; load under the same but for those that are not active now."""
        from yobx import autopatch

        name = "transformers:treespec_loads"
        asked = "transformers" if autopatch.is_active(name) else f"transformers,-{name}"
        program = torch.export.export(self.model, (), kwargs=self.inputs, dynamic_shapes=self.dynamic_shapes)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.pt2")
            torch.export.save(program, path)
            code = f"from yobx import autopatch; autopatch.enable({asked!r}); {self.SCRIPT}"
            done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
        return Outcome("general") if done.returncode == 0 else Outcome("export", tuple(done.stderr.splitlines()[-1:]))


def program_that_returns_a_model_output() -> Reproducer:
    from transformers.modeling_outputs import BaseModelOutput

    class Output(torch.nn.Module):
        def forward(self, x):
            return BaseModelOutput(last_hidden_state=x * 2)

    return LoadedElsewhere(
        Output(), inputs=dict(x=torch.ones(2, 2)), dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC}), counted=False
    )


@patch(
    "torch.utils._pytree:treespec_loads",
    family="transformers",
    versions="torch>=2.9",
    why="a class that a saved program names is known only once its module has been imported: it is, first",
    see="https://github.com/pytorch/pytorch/issues/136582",
    obsolete="when torch.export.load imports the classes that a program names",
    reproducer=program_that_returns_a_model_output,
    around=True,
)
def treespec_loads(original: Any, serialized: str) -> Any:
    for module in sorted(set(CLASS_NAME.findall(serialized))):
        importlib.import_module(module)
    return original(serialized)

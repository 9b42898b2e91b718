"""Everything here needs torch and transformers; without them nothing of this directory is collected."""

from __future__ import annotations

import importlib.util

NEEDED = ("torch", "transformers")
collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["test_*.py"]

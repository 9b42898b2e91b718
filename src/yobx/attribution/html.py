"""A report as one HTML file that needs nothing else: a page that shows the JSON form, which it carries."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yobx.attribution.data import Report

_PLACE = "{{report}}"


def page(found: Report) -> str:
    """The page of a report."""
    template = resources.files("yobx.attribution").joinpath("report.html").read_text(encoding="utf-8")
    # Nothing in the data may end the script element that carries it.
    text = json.dumps(found, separators=(",", ":")).replace("<", "\\u003c")
    return template.replace(_PLACE, text)

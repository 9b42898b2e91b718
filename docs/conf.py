"""The documentation's build: every snippet, example and command on its pages is executed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Snippets and commands run in processes of their own, with the interpreter that builds the pages.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["PYTHONWARNINGS"] = "ignore"
os.environ["MPLBACKEND"] = "agg"
# What a reader has set must not show on a page.
for name in [name for name in os.environ if name.startswith("YOBX_")]:
    del os.environ[name]

import yobx  # noqa: E402

project = "yobx"
author = "The yobx authors"
copyright = "The yobx authors"
version = release = yobx.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_runpython.runpython",
    "yobx_pages",
    "yobx_console",
    "yobx_snippets",
]

exclude_patterns = ["_build", "_ext", "examples", "gallery/*", "data", "auto_gallery/*.ipynb"]
templates_path: list[str] = []
html_theme = "furo"
html_title = f"yobx {release}"
html_static_path = ["_static"]
html_css_files = ["yobx.css"]
pygments_style = "default"
pygments_dark_style = "monokai"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10**6,  # how long an example took here is no fact about the library
    "write_computation_times": False,
    "remove_config_comments": True,
}

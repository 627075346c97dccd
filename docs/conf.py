"""Configuration of Sphinx. Build with ``make docs``; warnings are errors."""

import importlib.metadata
import os
from pathlib import Path

project = "sonline"
author = "The sonline developers"
copyright = f"2026, {author}"
release = importlib.metadata.version("sonline")
version = release

extensions = [
    "myst_nb",  # Markdown, and pages whose code runs at build time
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "jupyter_execute", "**.ipynb_checkpoints"]
nitpicky = False  # types of other packages cannot be resolved without their inventories

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Every page with a kernel is run at each build; an exception in a cell fails the build.
nb_execution_mode = "force"  # a cache would not see that the package has changed
nb_execution_raise_on_error = True
nb_merge_streams = True  # what a cell prints is one block, whenever it was flushed
nb_execution_timeout = 60
# The kernels that run the pages listen on the loopback interface and warn about it: errors only.
_ipython = Path(__file__).parent / "_build" / "ipython"
(_ipython / "profile_default").mkdir(parents=True, exist_ok=True)
(_ipython / "profile_default" / "ipython_kernel_config.py").write_text(
    "get_config().IPKernelApp.log_level = 40\n", encoding="utf-8"
)
os.environ["IPYTHONDIR"] = str(_ipython)

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections name the types in words
numpydoc_show_class_members = False  # the template of a module lists its members

html_theme = "pydata_sphinx_theme"
html_title = f"sonline {release}"
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
}


def _skip_requests(app, what, name, *more):
    """Leave out scikit-learn's own set_fit_request and its like, which refer to its glossary."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app):
    app.connect("autodoc-skip-member", _skip_requests)

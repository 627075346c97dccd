"""Configuration of Sphinx. Build with ``make docs``; warnings are errors."""

import importlib.metadata
import os
import re
from pathlib import Path

import latex2mathml.converter
from docutils import nodes

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
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",  # cards and grids
    "sphinx_gallery.gen_gallery",  # examples/, run at each build
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "jupyter_execute", "**.ipynb_checkpoints", "auto_examples/*.ipynb"]
nitpicky = False  # types of other packages cannot be resolved without their inventories

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Every page with a kernel is run at each build; an exception in a cell fails the build.
nb_execution_mode = "force"  # a cache would not see that the package has changed
nb_execution_raise_on_error = True
nb_merge_streams = True  # what a cell prints is one block, whenever it was flushed
nb_execution_timeout = 600  # seconds per cell: enough on a machine that is busy
# The kernels that run the pages listen on the loopback interface and warn about it: errors only.
_ipython = Path(__file__).parent / "_build" / "ipython"
(_ipython / "profile_default").mkdir(parents=True, exist_ok=True)
(_ipython / "profile_default" / "ipython_kernel_config.py").write_text(
    "get_config().IPKernelApp.log_level = 40\n", encoding="utf-8"
)
os.environ["IPYTHONDIR"] = str(_ipython)
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # small matrices: more threads only wait for each other

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",  # those that draw; Spark needs Java and is run by the tests
    "within_subsection_order": "FileNameSortKey",
    "run_stale_examples": True,  # as above: the package may have changed
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib",),
    "min_reported_time": 1e9,  # times of this machine are of no use to readers
    "show_memory": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
}
copybutton_exclude = ".linenos, .gp, .go"

toc_object_entries_show_parents = "hide"  # methods without the class in the side bar
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections name the types in words
numpydoc_show_class_members = False  # the template of a module lists its members

html_math_renderer = "mathml"  # set up below: browsers draw MathML without a script or a network

html_theme = "pydata_sphinx_theme"
html_title = f"sonline {release}"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "changelog": [], "auto_examples/*": []}
html_theme_options = {
    "logo": {"text": "sonline"},
    "github_url": "https://github.com/sonline/sonline",
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    # Older builds of the documentation read the list of versions from the newest one.
    "switcher": {"json_url": "_static/switcher.json", "version_match": release},
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}


def _skip_requests(app, what, name, *more):
    """Leave out scikit-learn's own set_fit_request and its like, which refer to its glossary."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _visit_formula(self, node):
    """Write a formula of the source, which is LaTeX, as MathML."""
    display = "inline" if isinstance(node, nodes.math) else "block"
    formula = latex2mathml.converter.convert(node.astext(), display=display)
    # The bars of |x| and ‖x‖: browsers take them for relations, with space on both sides.
    bars = r'<mo(?: stretchy="false")?>(&#x0007C;|&#x02016;)</mo>'
    tight = r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'
    self.body.append(re.sub(bars, tight, formula))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_visit_formula, None), (_visit_formula, None))
    app.connect("autodoc-skip-member", _skip_requests)

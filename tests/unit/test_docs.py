"""What readers may expect of the documentation, checked on its sources.

The build checks the rest: every code cell runs, and a link to a page that does not exist fails.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if not {"_build", "auto_examples", "jupyter_execute"} & set(page.relative_to(DOCS).parts)
)
NOT_BUILT = sorted([*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")])
# Lines for a cluster, some of them fragments. Tests run those that dask.md and spark.md begin with.
FOR_CLUSTERS = {"dask.md", "distributed.md", "spark.md"}


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", NOT_BUILT, ids=lambda page: page.name)
def test_links_of_pages_that_are_not_built_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read(page))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_python_on_a_page_is_run(page):
    if page.name not in FOR_CLUSTERS:
        assert "```python" not in read(page), "use a {code-cell}, which runs in the build"


def test_readme_describes_the_demonstration():
    report = json.loads(read(DOCS / "_static" / "demo.json"))
    output = f"one pass over {report['rows']:,} rows of {report['features']} features"
    assert output in " ".join(read(ROOT / "README.md").split())


def test_the_version_switch_knows_this_version():
    import sonline  # noqa: PLC0415 - the other tests do not need it

    versions = json.loads(read(DOCS / "_static" / "switcher.json"))
    assert sonline.__version__ in [entry["version"] for entry in versions]

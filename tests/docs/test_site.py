"""The built documentation in a real browser: its search, and widths of a desktop and a phone."""

from pathlib import Path

import pytest

HTML = Path(__file__).parents[2] / "docs" / "_build" / "html"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (HTML / "index.html").exists(), reason="no documentation (make docs)"),
]


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("class_weight", "guide/imbalanced.html"),
        ("missing", "guide/tables.html"),
        ("imbalanced", "guide/imbalanced.html"),
        ("drift", "guide/drift.html"),
        ("calibration", "guide/probabilities.html"),
    ],
)
def test_the_search_leads_to_the_guide(browser, expect, words, page):
    tab = browser.new_page()
    tab.goto(f"{(HTML / 'search.html').as_uri()}?q={words}")
    tab.wait_for_selector("#search-results p.search-summary")
    expect(tab.locator("#search-results p.search-summary")).to_contain_text("found")
    results = tab.locator("#search-results ul.search li > a")
    first = [results.nth(i).get_attribute("href") for i in range(min(3, results.count()))]
    assert any(page in (link or "") for link in first), first
    tab.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_off(browser, width):
    tab = browser.new_page(viewport={"width": width, "height": 844})
    pages = sorted(page for page in HTML.rglob("*.html") if "_modules" not in page.parts)
    assert len(pages) > 80
    cut = []
    for page in pages:
        tab.goto(page.as_uri(), wait_until="domcontentloaded")
        wide = tab.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        code = tab.evaluate(
            "[...document.querySelectorAll('pre')].some(e => e.scrollWidth > e.clientWidth + 1)"
        )
        if wide or code:
            cut.append((page.relative_to(HTML).as_posix(), "page" if wide else "code"))
    assert cut == []
    tab.close()

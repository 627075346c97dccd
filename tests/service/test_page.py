"""The live page in a real browser: desktop, phone and dark, and the login."""

import json
import os

import httpx
import pytest
from helpers_service import served

from sonline.service.tokens import Tokens

pytestmark = pytest.mark.long
SHOTS = os.environ.get("SONLINE_SCREENSHOTS")  # a folder where pictures are to go


@pytest.fixture(scope="module")
def demo():
    with served("--demo") as process:
        yield process.url


def opened(browser, url, **settings):
    page = browser.new_page(**settings)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "console",
        lambda line: line.type == "error" and page.problems.append(f"{line.text} {line.location}"),
    )
    page.goto(url)
    return page


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("desktop", {"viewport": {"width": 1280, "height": 900}}),
        ("phone", {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}),
        ("dark", {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"}),
    ],
)
def test_the_page_is_alive(browser, expect, demo, name, settings):
    page = opened(browser, demo, **settings)
    page.wait_for_selector("#state.good", timeout=10_000)
    page.wait_for_selector("#members .bar:nth-child(2)")
    page.wait_for_selector("#weights tbody tr:nth-child(6)")
    page.wait_for_selector("#versions tbody tr:nth-child(2)")
    first = page.inner_text("#events")
    expect(page.locator("#events")).not_to_have_text(first)
    assert page.locator("#error-chart canvas").count() == 1
    assert page.locator("#calibration circle").count() > 2
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= settings["viewport"]["width"]  # nothing to scroll sideways
    assert page.problems == []
    if SHOTS:
        page.wait_for_timeout(int(os.environ.get("SONLINE_SCREENSHOT_WAIT", "1000")))
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
    page.close()


def test_versions_are_promoted_on_the_page_and_charts_are_marked(browser, expect, demo):
    expect.set_options(timeout=20_000)  # a promotion waits for the engine
    page = opened(browser, demo)
    page.on("dialog", lambda dialog: dialog.accept())
    second = page.locator("#versions tbody tr:nth-child(2)")
    expect(second.locator("td").nth(1)).to_have_text("shadow")
    second.locator("button").click()
    expect(second.locator("td").nth(1)).to_have_text("champion")
    expect(page.locator("#version-answer")).to_have_text("Version 2 is the champion.")
    marks = "marks.map(([, text]) => text)"  # evaluated from outside: the page forbids eval
    for _ in range(200):
        if "2 promoted" in page.evaluate(marks):
            break
        page.wait_for_timeout(100)
    assert "2 promoted" in page.evaluate(marks)
    legend = page.locator("#loss-chart .legend")
    expect(legend).to_contain_text("2: without a sketch (champion)")
    expect(legend).to_contain_text("1: demonstration")
    second.locator("button").click()
    expect(second.locator("td").nth(1)).to_have_text("shadow")
    page.select_option("#range", "60")
    assert page.locator("#calibration svg").count() == 2
    assert page.problems == []
    page.close()


def test_figures_without_a_connection_are_grey_and_have_an_age(browser, expect):
    with served("--demo") as process:
        page = opened(browser, process.url, viewport={"width": 390, "height": 844})
        page.wait_for_selector("#state.good", timeout=10_000)
        page.wait_for_selector("#error-chart canvas")
        tops = [
            page.locator(name).bounding_box()["y"]
            for name in ("#error-section", ".tiles .tile >> nth=0")
        ]
        assert tops[0] < tops[1]  # the error chart comes first on a phone
    expect(page.locator("#state")).to_contain_text("old", timeout=15_000)
    expect(page.locator(".tiles")).to_have_class("tiles stale")
    page.close()


def test_requests_are_tried_out_on_the_page_of_the_interface(browser, expect, demo):
    page = opened(browser, f"{demo}docs")
    card = page.locator(
        "section", has=page.get_by_text("POST /v1/models/{name}/predict", exact=True)
    )
    card.get_by_text("try it out").click()
    card.locator("input").first.fill("demo")
    card.get_by_role("button").click()
    expect(card.locator("form pre")).to_contain_text('"probabilities"')
    assert page.problems == []
    page.close()


def test_a_model_that_is_created_later_can_be_chosen(browser, expect, tmp_path):
    with served("--data", str(tmp_path)) as process:
        httpx.post(f"{process.url}v1/models", json={"name": "first"}).raise_for_status()
        page = opened(browser, process.url)
        expect(page.locator("#model option")).to_have_text(["first"])
        httpx.post(f"{process.url}v1/models", json={"name": "second"}).raise_for_status()
        expect(page.locator("#model option")).to_have_text(["first", "second"])
        assert page.input_value("#model") == "first"
        page.select_option("#model", "second")
        expect(page.locator("#learn-command")).to_contain_text("/v1/models/second/learn")
        assert page.problems == []
        page.close()


def test_the_description_of_the_interface(browser, demo):
    page = opened(browser, f"{demo}docs", viewport={"width": 360, "height": 740})
    page.wait_for_selector("section:nth-child(11)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.problems == []
    page.close()


def test_the_page_needs_a_token(browser, expect, tmp_path):
    tokens = Tokens(tmp_path)
    secret, other = tokens.add(["predict"]), tokens.add(["learn"])
    with served("--data", str(tmp_path)) as process:
        page = opened(browser, process.url)
        page.wait_for_selector("#login:not([hidden])")
        page.fill("#token", other)
        page.click("#login button")
        expect(page.locator("#denied")).to_contain_text("scope")
        page.fill("#token", secret)
        page.click("#login button")
        page.wait_for_selector("#empty:not([hidden])")
        assert "clicks" in page.inner_text("#empty")
        page.close()


def test_curves_move_on_the_page(browser, expect, demo):
    page = opened(browser, demo)
    page.wait_for_selector("#curves polyline.before", timeout=20_000)
    panel = page.locator("#curves > svg").first
    line = panel.locator("polyline").last
    first = line.get_attribute("points")
    assert panel.locator("rect").count() > 5
    expect(line).not_to_have_attribute("points", first, timeout=20_000)
    expect(page.locator("#curves-unit")).to_have_text("in log odds of 1")
    assert page.problems == []
    page.close()


def test_features_and_a_prediction_are_explained_on_the_page(browser, expect, demo):
    page = opened(browser, demo)
    page.wait_for_selector("#columns tbody tr:nth-child(3)")
    page.locator("#explain button").click()
    expect(page.locator("#explain-answer")).to_contain_text("Raw prediction")
    page.wait_for_selector("#parts .bar:nth-child(2)")
    page.fill("#explained", '{"a": [1]}')
    page.locator("#explain button").click()
    expect(page.locator("#explain-answer")).to_contain_text("feature 'a' is an array")
    page.close()


def test_curves_of_columns_are_drawn(browser, expect, tmp_path):
    with served("--data", str(tmp_path)) as process:
        url = f"{process.url}v1/models"
        httpx.post(url, json={"name": "m", "task": "regression"}).raise_for_status()
        rows = [{"x": {"a": n % 41 - 20.0}, "y": (n % 41 - 20.0) ** 2} for n in range(2000)]
        body = "\n".join(map(json.dumps, rows))
        kind = {"content-type": "application/x-ndjson"}
        httpx.post(f"{url}/m/learn", content=body, headers=kind).raise_for_status()
        page = opened(browser, process.url, viewport={"width": 390, "height": 844})
        expect(page.get_by_role("img", name="Curve of a")).to_be_visible(timeout=20_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.problems == []
        page.close()

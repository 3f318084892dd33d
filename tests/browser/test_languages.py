"""A reader chooses the language of a report and of a site, with the keyboard, and nothing is asked for elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.accessible import assert_accessible
from tests.system.test_labels import LABELS, WORDS

import tallyveil
from tallyveil.explore.serving import served
from tallyveil.explore.site import make_site


@pytest.fixture(scope="module")
def folder(make_small_inputs, tmp_path_factory) -> Path:
    """A release with labels in three languages, and its site."""
    folder = tmp_path_factory.mktemp("languages")
    path = make_small_inputs(folder)
    path.write_text(path.read_text().replace("tables = [", 'intervals = "0.95"\ntables = [') + LABELS)
    release = tallyveil.run(path, folder / "release")
    make_site(release.path, folder / "site")
    return folder


@pytest.fixture
def opened(browser, folder) -> Iterator:
    """A function that opens a page of the site or the report. The test fails if anything was wrong in the page."""
    wrong: list[str] = []
    with served(folder / "site") as address:
        context = browser.new_context(locale="en-US")

        def begin(where: str, width: int) -> Page:
            page = context.new_page()
            page.set_viewport_size({"width": width, "height": 900})
            page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            local = (address, "file:", "blob:", "data:")
            page.on("request", lambda asked: None if asked.url.startswith(local) else wrong.append(asked.url))
            page.goto((folder / "release" / "report.html").as_uri() if where == "report" else address + where)
            return page

        yield begin
        context.close()
    assert not wrong


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("tag", ["de", "fr"])
def test_a_site_in_another_language(opened, tag, width):
    title, _, units, age, young, town, _ = WORDS[tag]
    page = opened("index.html#area=1/P01&table=age", width)
    page.wait_for_selector("body[data-settled='true']")
    expect(page.locator("#answer-title")).to_have_text("under 18")
    page.locator("#language").select_option(tag)
    page.wait_for_selector(f"html[lang='{tag}']")
    page.wait_for_selector("body[data-settled='true']")
    expect(page.locator("#release")).to_have_text(title)
    expect(page.locator("#answer-title")).to_have_text(young)
    expect(page.locator(".figure.is-published")).to_contain_text(units)
    expect(page.locator(".area-head")).to_contain_text(town.capitalize())
    expect(page.locator("label.field:has(#factor-0) span")).to_have_text(age.capitalize())
    # What the page says itself is in the language, too: none of these words is left.
    text = page.locator("body").inner_text()
    assert not [
        word for word in ("Published count", "Standard error", "Download as", "Computing") if word in text
    ]
    assert f"language={tag}" in page.url
    assert_accessible(page, width)
    page.get_by_role("link", name="Tab").first.click()
    page.wait_for_selector(f"html[lang='{tag}']")
    assert page.locator("#language").input_value() == tag


@pytest.mark.parametrize("width", [1400, 390])
def test_a_report_in_each_language_by_the_keyboard(opened, width):
    page = opened("report", width)
    headings = {
        "en": "How sure each count is",
        "de": "Wie sicher jede Zahl ist",
        "fr": "Fiabilité de chaque effectif",
    }
    page.locator("#language-en").focus()
    for number, (tag, heading) in enumerate(headings.items()):
        if number:
            page.keyboard.press("ArrowRight")
        shown = page.locator("h2:visible").first
        expect(shown).to_have_text(heading)
        expect(page.locator("h1:visible")).to_have_text(WORDS[tag][0])
        expect(page.locator(".edition:visible")).to_have_count(1)
        assert_accessible(page, width)

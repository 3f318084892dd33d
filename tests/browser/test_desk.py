"""A stranger's path through the desk, from a register to a release file: by mouse, by keyboard, wide and narrow."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.accessible import assert_accessible
from tests.registers import CANARY, write_register

from tallyveil.desk.page import served_desk


@pytest.fixture
def folder(tmp_path) -> Path:
    write_register(tmp_path, 4_000)
    return tmp_path


@pytest.fixture
def desk(browser, folder) -> Iterator:
    """A function that opens the desk of the folder. The test fails if anything was wrong in the page."""
    wrong: list[str] = []
    closing: list = []

    def begin(width: int = 1400, locale: str = "en-US") -> Page:
        end()
        serving = served_desk(folder)
        address = serving.__enter__()
        context = browser.new_context(viewport={"width": width, "height": 900}, locale=locale)
        page = context.new_page()
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url))
        page.on("response", lambda answer: wrong.append(CANARY) if CANARY in answer.text() else None)
        closing.extend([context.close, lambda: serving.__exit__(None, None, None)])
        page.goto(address)
        settled(page)
        return page

    def end() -> None:
        """A folder has one desk at a time."""
        while closing:
            closing.pop(0)()

    yield begin
    end()
    assert not wrong


def settled(page: Page) -> None:
    """Wait until the page shows what was answered last."""
    page.wait_for_timeout(50)
    page.wait_for_selector("body[data-settled='true']", timeout=60_000)


def on(page: Page, title: str) -> None:
    """Go on, and be at the step with this title."""
    page.get_by_role("button", name="Go on").click()
    settled(page)
    expect(page.locator("main h2")).to_have_text(title)


def records_and_areas(page: Page) -> None:
    page.get_by_label("File of the records").fill("persons.csv")
    page.get_by_label("File of the records").press("Tab")
    settled(page)
    expect(page.locator(".shown")).to_contain_text("semicolon between columns, Latin-1")
    on(page, "The areas")
    page.get_by_label("File of the areas").fill("municipalities.csv")
    page.get_by_label("File of the areas").press("Tab")
    settled(page)
    page.get_by_label("Column of the records with the code").select_option("municipality")
    page.get_by_label("Its column of codes").select_option("code")
    page.get_by_label("Its column of names").select_option("name")
    page.get_by_label("What the smallest areas are called").fill("Municipality")
    page.get_by_label("1: What they are called").fill("Country")
    page.get_by_label("1: Where their codes come from").select_option("everything")
    page.get_by_label("2: What they are called").fill("Canton")
    page.get_by_label("2: Where their codes come from").select_option("column:canton")
    on(page, "What the columns mean")


def meaning_to_budget(page: Page) -> None:
    page.get_by_label("Codebook, if there is one").fill("codebook.csv")
    page.get_by_label("Codebook, if there is one").press("Tab")
    settled(page)
    page.get_by_label("age: Released").select_option("ranges")
    page.get_by_label("age: Values or ranges").fill("0-17; 18-64; 65+")
    page.get_by_label("marital status: An empty value means").fill("not asked")
    on(page, "Words for people")
    page.get_by_label("Title of the release").fill("Population 2026")
    page.get_by_label("Languages of readers").fill("de")
    page.get_by_label("Languages of readers").press("Tab")
    settled(page)
    page.get_by_label("Title: Population 2026: Deutsch").fill("Bevölkerung 2026")
    page.get_by_label("sex: m: Deutsch").fill("männlich")
    on(page, "What is published")
    page.get_by_label("sex by age").check()
    page.get_by_role("group", name="Areas whose totals").get_by_label("Canton").check()
    on(page, "How exact it must be")
    page.get_by_label("the total: Municipality").fill("10")
    page.get_by_label("age (3 counts): Municipality").fill("10")
    page.get_by_label("sex by age (6 counts): Canton").fill("10")
    on(page, "What it means for one person")


@pytest.mark.parametrize("width", [1400, 390])
def test_from_a_register_to_a_release_file(desk, folder, width):
    page = desk(width)
    for walk in (records_and_areas, meaning_to_budget):
        walk(page)
        assert_accessible(page, width)
    expect(page.locator("main")).to_contain_text("of their guesses are right")
    before = page.locator(".big").inner_text()
    page.locator("#errors").focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.locator(".big").inner_text() != before
    page.locator("#costs").click()
    settled(page)
    expect(page.locator("main li")).to_have_count(3)
    on(page, "The release file")
    page.get_by_role("button", name="Write the file").click()
    settled(page)
    expect(page.locator(".shown")).to_contain_text("tallyveil run")
    assert_accessible(page, width)
    content = tomllib.loads((folder / "release.toml").read_text(encoding="utf-8"))
    assert content["records"]["encoding"] == "iso-8859-1"
    assert content["records"]["missing"] == {"marital status": "not asked"}
    assert content["outputs"]["tables"] == ["total", "sex", "age", "marital status", "sex*age"]
    assert content["labels"] == {"de": {"title": "Bevölkerung 2026", "levels": {"sex": {"m": "männlich"}}}}


@pytest.mark.parametrize("width", [1400, 390])
def test_in_the_language_of_the_reader(desk, width):
    """The browser's, until another is chosen; what was typed stays, and what has no translation is marked."""
    page = desk(width, "de-CH")
    expect(page.locator("main h2")).to_have_text("Die Datensätze")
    page.get_by_label("Datei der Datensätze").fill("nowhere.csv")
    page.get_by_label("Sprache").select_option("fr")
    settled(page)
    expect(page.locator("main h2")).to_have_text("Les enregistrements")
    expect(page.get_by_label("Fichier des enregistrements")).to_have_value("nowhere.csv")
    expect(page.locator(".problems p")).to_have_attribute("lang", "en")
    assert page.evaluate("document.documentElement.lang") == "fr"
    assert_accessible(page, width)
    page.reload()
    settled(page)
    expect(page.get_by_role("button", name="Continuer")).to_be_visible()


def test_what_was_typed_is_there_again(desk, folder):
    """Also what is wrong, after the desk was ended."""
    page = desk()
    records_and_areas(page)
    page.get_by_label("age: Released").select_option("ranges")
    page.get_by_label("age: Values or ranges").fill("0-17; 17-64")
    page.get_by_role("button", name="Go on").click()
    settled(page)
    expect(page.get_by_role("alert")).to_contain_text("share a number")
    page = desk()
    expect(page.locator("main h2")).to_have_text("What the columns mean")
    expect(page.get_by_label("age: Values or ranges")).to_have_value("0-17; 17-64")
    page.get_by_role("button", name="The areas").click()
    settled(page)
    expect(page.get_by_label("2: What they are called")).to_have_value("Canton")


def test_nothing_of_the_records_is_in_the_page_or_its_storage(desk, folder):
    page = desk()
    records_and_areas(page)
    meaning_to_budget(page)
    stored = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, location.href, history.state])"
    )
    assert CANARY not in page.content() + stored
    for path in folder.iterdir():
        if path.name != "persons.csv":
            assert CANARY.encode() not in path.read_bytes(), path


def test_what_is_typed_while_the_desk_computes_is_not_lost(desk):
    """The answer to an earlier field comes late: later fields, the focus and a pressed button stay as they are."""
    page = desk()
    page.get_by_label("File of the records").fill("persons.csv")
    on(page, "The areas")
    page.route("**/ask", lambda route: (page.wait_for_timeout(400), route.continue_()))
    page.get_by_label("File of the areas").fill("municipalities.csv")
    page.get_by_label("File of the areas").press("Tab")
    page.get_by_label("What the smallest areas are called").fill("Municipality")
    settled(page)
    smallest = page.get_by_label("What the smallest areas are called")
    expect(smallest).to_be_focused()
    expect(smallest).to_have_value("Municipality")
    page.get_by_label("File of the areas").fill("persons.csv")
    page.keyboard.press("Tab")
    page.locator("#go-on").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    settled(page)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("main h2")).to_have_text("The areas")


def to(page: Page, label: str) -> None:
    """Go to the field with this label by the tab key, as somebody without a mouse."""
    for _ in range(80):
        page.keyboard.press("Tab")
        here = "document.activeElement"
        said = page.evaluate(
            f"{here}.getAttribute('aria-label') ?? {here}.labels?.[0]?.textContent ?? {here}.textContent"
        )
        if said.startswith(label):
            return
    raise AssertionError(f"no tab leads to {label}")


def test_by_the_keyboard_alone(desk, folder):
    """Every step, by tab, arrows, typing, space and return; the focus stays where something is said."""
    page = desk()
    keys = page.keyboard

    def typed(label: str, text: str) -> None:
        to(page, label)
        keys.press("Control+A")
        keys.type(text)

    def chosen(label: str, words: str) -> None:
        """By arrows: letters select only while they follow each other quickly, which a busy machine does not."""
        to(page, label)
        keys.press("Home")
        selected = "document.activeElement.selectedOptions[0].text"
        for _ in range(page.evaluate("document.activeElement.length")):
            if page.evaluate(selected).startswith(words):
                return
            keys.press("ArrowDown")
        raise AssertionError(f"{label} offers no {words}")

    def gone_on(title: str) -> None:
        to(page, "Go on")
        keys.press("Enter")
        settled(page)
        expect(page.locator("main h2")).to_have_text(title)
        assert page.evaluate("document.activeElement.id") == "step"

    typed("File of the records", "persons.csv")
    gone_on("The areas")
    typed("File of the areas", "municipalities.csv")
    keys.press("Tab")  # columns of the file are offered once it is known
    settled(page)
    page.evaluate("document.activeElement.blur()")
    chosen("Column of the records", "municipality")
    chosen("Its column of codes", "code")
    typed("What the smallest areas are called", "Municipality")
    typed("1: What they are called", "Canton")
    chosen("1: Where their codes come from", "the column canton")
    gone_on("What the columns mean")
    typed("Codebook", "codebook.csv")
    keys.press("Tab")
    settled(page)
    page.evaluate("document.activeElement.blur()")
    chosen("age: Released", "by ranges")
    typed("age: Values or ranges", "0-17; 18-64; 65+")
    typed("marital status: An empty value means", "not asked")
    gone_on("Words for people")
    gone_on("What is published")
    to(page, "sex by age")
    keys.press("Space")
    gone_on("How exact it must be")
    typed("the total: Municipality", "10")
    gone_on("What it means for one person")
    before = page.locator(".big").inner_text()
    page.locator("#errors").focus()
    keys.press("ArrowRight")
    settled(page)
    assert page.locator(".big").inner_text() != before
    gone_on("The release file")
    to(page, "Write the file")
    keys.press("Enter")
    settled(page)
    content = tomllib.loads((folder / "release.toml").read_text(encoding="utf-8"))
    assert content["outputs"]["tables"] == ["total", "sex", "age", "marital status", "sex*age"]
    assert content["geography"]["geolevels"] == ["Canton", "Municipality"]

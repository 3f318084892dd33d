"""What readers do with the page of tables, served with answers and as files alone."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import expect
from tests.browser.accessible import assert_accessible

import tallyveil
from tallyveil.explore.asking import served_answers

FIRST_ANSWER = 3_000_000  # bytes until the first answer, without the map
SECONDS = 1.0


@pytest.fixture(scope="session")
def answering(releases: Path) -> Iterator[Any]:
    """A function that serves a site with answers and says its address."""
    with ExitStack() as stack:
        addresses: dict[str, str] = {}

        def serve(name: str) -> str:
            if name not in addresses:
                serving = served_answers(releases / f"{name}-site", releases / name)
                addresses[name] = stack.enter_context(serving)
            return addresses[name]

        yield serve


@pytest.fixture
def tables(visit, answering):
    """A function that visits the page of tables of a release, with answers."""

    def begin(name: str = "town", **options: Any) -> Any:
        found = visit(name, served_at=answering(name), **options)
        found.path = "tables.html"
        return found

    return begin


def cells(page, row):
    return page.page.locator("#answer tbody tr").nth(row).locator(".cell-number").all_inner_texts()


def number(text):
    return int(text.replace(",", "").rstrip("†"))


def ask(releases, question, **options):
    return tallyveil.open(releases / "town").ask(question, **options).table


def test_a_table_by_mouse(tables, releases):
    """Fields are dragged to the rows and the columns; the address is the question, and a link to it the same table."""
    page = tables()
    page.open()
    page.page.drag_and_drop(".field-top h3:has-text('Voting age')", "#zone-columns")
    page.settled()
    assert page.state["ask"] == "County by voting_age"
    assert page.state["columns"] == "1"
    wanted = ask(releases, "County by voting_age")
    assert [number(text) for text in cells(page, 0)] == wanted["count"][:2].to_list()
    page.page.drag_and_drop(
        ".field-top h3:has-text('Race')", "#zone-rows .chip", target_position={"x": 4, "y": 10}
    )
    page.settled()
    assert page.state["ask"] == "race_ethnicity by County by voting_age"
    page.page.drag_and_drop("#zone-columns .chip", "#zone-rows h2")
    page.settled()
    assert page.state["ask"] == "voting_age by race_ethnicity by County"
    assert "columns" not in page.state
    before = page.text("#answer table")
    page.page.reload()
    page.settled()
    assert page.text("#answer table") == before
    page.page.go_back()
    page.settled()
    assert page.state["columns"] == "1"


def test_a_table_by_keyboard(tables, releases):
    """Every step has a button; the focus stays where the reader is."""
    page = tables()
    page.open("ask=total+by+County")
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.id") == "skip"
    page.page.focus("#attribute-0-columns")
    page.page.keyboard.press("Enter")
    page.settled()
    assert page.page.evaluate("document.activeElement.id") == "attribute-0-columns"
    assert page.page.get_attribute("#attribute-0-columns", "aria-pressed") == "true"
    page.page.focus("#attribute-1-0-filter")
    page.page.keyboard.press("Enter")
    for place in range(2):
        page.page.focus(f"#attribute-1-0-level-{place}")
        page.page.keyboard.press("Space")
        expect(page.page.locator(f"#attribute-1-0-level-{place}")).not_to_be_checked()
        page.settled()
    levels = ask(releases, "race_ethnicity")["race_ethnicity"].to_list()
    assert page.state["ask"] == f"County by voting_age where race_ethnicity from {levels[2]} to {levels[-1]}"
    wanted = ask(releases, page.state["ask"])
    assert number(cells(page, 0)[0]) == wanted["count"][0]
    expect(page.page.locator("#announcer")).to_contain_text(f"{wanted.height} rows")
    page.page.focus("#sort-1")
    page.page.keyboard.press("Enter")
    page.settled()
    assert page.page.evaluate("document.activeElement.id") == "sort-1"
    assert page.page.locator("th[aria-sort=descending]").count() == 1
    page.page.focus("#columns-0-out")
    page.page.keyboard.press("Enter")  # its button goes with it: the focus stays in the section
    page.settled()
    assert page.page.evaluate("document.activeElement.closest('section').id") == "zones"
    page.page.go_back()
    page.settled()
    numbers = [number(cells(page, row)[0]) for row in range(5)]
    assert numbers == sorted(numbers, reverse=True)


def test_levels_stay_open_that_were_opened_just_before_a_tick(tables):
    """A browser tells that something was opened only after what it was doing: by then the levels stand anew."""
    page = tables()
    page.open("ask=total+by+County")
    page.page.evaluate("""() => {
        document.getElementById("attribute-1-0-filter").click();
        document.getElementById("attribute-1-0-level-0").click();
    }""")
    page.settled()
    expect(page.page.locator("#attribute-1-0-level-0")).to_be_visible()
    expect(page.page.locator("#attribute-1-0-level-0")).not_to_be_checked()


def test_choices_count_that_are_made_before_the_page_shows_the_choice_before(tables, releases):
    page = tables()
    page.open("ask=total+by+County")
    page.page.evaluate("""() => {
        for (const id of ["attribute-1-0-level-0", "attribute-1-0-level-1", "attribute-0-columns"]) {
            document.getElementById(id).click();
        }
    }""")
    page.settled()
    levels = ask(releases, "race_ethnicity")["race_ethnicity"].to_list()
    assert page.state["ask"] == f"County by voting_age where race_ethnicity from {levels[2]} to {levels[-1]}"


def test_the_command_that_is_shown_gives_the_file_that_is_saved(tables, releases, tmp_path):
    page = tables()
    page.open("ask=race_ethnicity+by+Tract+where+voting_age+%3D+18_plus+as+share+of+total&level=0.9")
    command = page.text("#question pre")
    assert command.startswith(
        f"tallyveil ask {releases / 'town'} 'race_ethnicity by Tract where voting_age = 18_plus"
    )
    words = [*shlex.split(command)[1:], "--out", str(tmp_path / "answer.csv"), "--quiet"]
    subprocess.run([sys.executable, "-m", "tallyveil", *words], check=True)
    assert page.saved("#save-csv") == (tmp_path / "answer.csv").read_text(encoding="utf-8")
    with page.page.expect_download() as download:
        page.page.click("#save-parquet")
    assert pl.read_parquet(download.value.path()).equals(
        ask(releases, "race_ethnicity by Tract where voting_age = 18_plus as share of total", level=0.9)
    )


def test_files_that_cannot_be_written(tables):
    """A form that has no place for the answer has no button; what goes wrong later leaves the answer where it is."""
    page = tables()
    page.open("ask=total+by+County")
    shown = page.text("#answer tbody")
    page.page.route("**/ask", lambda route: route.fulfill(json={"problem": "no room left"}))
    page.page.click("#save-px")
    expect(page.page.locator("#save-problem")).to_have_text("no room left")
    assert page.text("#answer tbody") == shown
    page.page.unroute("**/ask")
    page.open("ask=median+of+voting_age+by+County")
    saves = page.page.locator("[id^=save-][type=button]")
    assert [button.get_attribute("id") for button in saves.all()] == ["save-csv", "save-parquet"]


def test_areas_by_list_name_map_and_file(tables, releases, tmp_path):
    page = tables()
    page.open("ask=total+by+County")
    codes = ask(releases, "County")["geocode"].to_list()
    page.page.click("#areas-choose")
    page.page.check("#area-1")
    page.settled()
    assert page.state["ask"] == f"total by County in {codes[1]}"
    page.page.fill("#add-area", codes[3])
    page.page.click("[role=option]")
    page.settled()
    assert page.state["ask"] == f"total by County in {codes[1]}, {codes[3]}"
    page.page.click("#on-map")
    page.page.wait_for_selector(".area-map canvas")
    page.page.wait_for_timeout(1500)
    page.page.focus(".area-map canvas")
    page.page.keyboard.press("Enter")
    page.page.wait_for_function(
        "new URLSearchParams(location.hash.slice(1)).get('ask').split(',').length !== 2"
    )
    page.settled()
    page.page.click("#all-areas")
    page.settled()
    assert page.state["ask"] == "total by County"
    (tmp_path / "codes.csv").write_text("geocode\n" + "\n".join(codes[:2]) + "\n")
    page.page.set_input_files("#areas-file", tmp_path / "codes.csv")
    page.page.wait_for_url(re.compile(r"\+in\+"))
    page.settled()
    assert page.state["ask"] == f"total by County in {codes[0]}, {codes[1]}"
    page.page.select_option("#areas-grouping", label="Tract")
    page.settled()
    assert page.state["ask"] == "total by Tract"  # counties are no tracts
    rows = "".join(f"{code},{'north' if code < codes[2] else 'south'}\n" for code in codes)
    (tmp_path / "groups.csv").write_text(f"geocode,part\n{rows}")
    page.page.set_input_files("#areas-file", tmp_path / "groups.csv")
    page.page.wait_for_url(re.compile("plan="))
    page.settled()
    assert page.text("#answer tbody").split()[0] == "north"
    assert "--district groups.csv" in page.text("#question pre")
    (tmp_path / "wrong.csv").write_text("town,part\n1,2\n3,4\n")
    page.page.set_input_files("#areas-file", tmp_path / "wrong.csv")
    expect(page.page.locator("#fields [role=alert]")).to_contain_text("wrong.csv lacks the column")
    (tmp_path / "quoted.csv").write_text('"geocode";"part"\n"1";"2"\n')
    page.page.set_input_files("#areas-file", tmp_path / "quoted.csv")
    expect(page.page.locator("#fields [role=alert]")).to_contain_text("quoted.csv")


def test_every_number(tables):
    """Shares, deviations, quantiles and indices are chosen without a word of the grammar."""
    page = tables()
    page.open("ask=race_ethnicity+by+County")
    page.page.select_option("#number", "share")
    page.settled()
    assert page.state["ask"] == "race_ethnicity by County as share of total"
    page.page.fill("#threshold", "0.2")
    page.page.press("#threshold", "Tab")
    page.settled()
    expect(page.page.locator("#answer tbody")).to_contain_text("not above")
    page.page.fill("#threshold", "0,2")
    page.page.press("#threshold", "Tab")
    page.settled()
    expect(page.page.locator("#answer [role=alert]")).to_contain_text("wanted a number with a decimal point")
    page.page.select_option("#number", "deviation")
    page.settled()
    assert page.state["ask"] == "race_ethnicity by County as deviation"
    page.page.fill("#threshold", "")
    page.page.press("#threshold", "Tab")
    page.settled()
    page.page.select_option("#number", "entropy")
    page.settled()
    assert page.state["ask"] == "entropy of race_ethnicity by County"
    page.page.select_option("#number", "theil")
    page.settled()
    assert page.state["ask"] == "theil of race_ethnicity by County across Tract"
    page.page.select_option("#number", "quantile")
    page.settled()
    page.page.select_option("#measured", "voting_age")
    page.settled()
    assert page.state["ask"] == "quantile 0.9 of voting_age by County"
    page.page.select_option("#number", "count")
    page.settled()
    assert page.state["ask"] == "County by voting_age"


def test_what_is_wrong_is_said_in_the_words_of_the_command(tables, releases):
    page = tables()
    page.open("ask=seks+by+County")
    expect(page.page.locator("#answer [role=alert]")).to_contain_text("'seks' is no attribute")
    page.page.fill("#words", "race_ethnicity by")
    page.page.press("#words", "Enter")
    page.settled()
    expect(page.page.locator("#answer [role=alert]")).to_contain_text("its end where an attribute")
    page.page.fill("#words", "race_ethnicity by Block")
    page.page.click("#ask")
    page.settled()
    expect(page.page.locator("#answer")).to_contain_text("12,000 rows")
    assert page.page.locator("#answer tbody tr").count() == 50


def test_an_answer_takes_less_than_a_second_and_the_page_is_light(tables):
    page = tables()
    page.open()
    assert sum(size for address, size in page.requests if "maplibre" not in address) < FIRST_ANSWER
    assert not [address for address, _ in page.requests if "maplibre" in address]
    seconds = page.page.evaluate(
        """async () => {
          const begun = performance.now();
          location.hash = 'ask=race_ethnicity+by+voting_age+by+Tract&columns=1&chart=1';
          await new Promise((done) => setTimeout(done, 20));
          while (document.body.dataset.settled !== 'true') await new Promise((done) => setTimeout(done, 10));
          return (performance.now() - begun) / 1000;
        }"""
    )
    assert seconds < SECONDS


STATES = {
    "town": "ask=race_ethnicity+by+Tract+by+voting_age+as+share+of+total&columns=1&chart=1&threshold=0.1",
    "hostile": "ask=sex+by+Town+where+sex+%3D+%22m%3Cscript%3Ealert(3)%3C/script%3E%22&cells=all",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", sorted(STATES))
def test_axe_finds_nothing_and_nothing_sticks_out(tables, name, width, dark):
    page = tables(name, width=width, dark=dark)
    page.open(STATES[name])
    assert page.page.locator("#answer tbody tr").count() > 1
    page.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert_accessible(page.page, width)
    if name == "hostile":
        assert page.page.locator("img, body script, svg[onload]").count() == 0


def test_a_phone_shows_the_answer_before_the_fields(tables):
    page = tables("town", width=390)
    page.open(STATES["town"])
    assert not page.page.is_visible("#fields")
    page.page.click("#fold-title")
    assert page.page.is_visible("#attribute-0-rows")
    page.page.set_viewport_size({"width": 1400, "height": 900})
    assert page.page.is_visible("#fields")
    assert not page.page.is_visible("#fold-title")


def test_print_leaves_the_question_and_the_answer(tables):
    page = tables()
    page.open()
    page.page.emulate_media(media="print")
    assert not page.page.is_visible("#fields")
    assert not page.page.is_visible("#ask")
    assert page.page.is_visible("#answer table")
    expect(page.page.locator(".printed")).to_contain_text("answer to “total by County”")
    assert page.page.is_visible(".printed")


def test_a_site_of_files_says_how_to_get_the_answer(visit):
    page = visit("town")
    page.path = "tables.html"
    page.open("ask=race_ethnicity+by+County&columns=1")
    expect(page.page.locator("#answer")).to_contain_text("tallyveil explore RUN --open")
    page.page.click("#attribute-0-rows")
    page.settled()
    assert page.text("#question pre") == "tallyveil ask RUN 'race_ethnicity by voting_age by County'"
    assert page.page.locator("#areas-file").count() == 0
    assert_accessible(page.page, 1400)


def test_from_page_to_page(tables):
    page = tables()
    page.open()
    page.page.click("#pages a:has-text('Areas')")
    page.page.wait_for_selector("#area .figures")
    page.settled()
    page.page.click("#pages a:has-text('Tables')")
    page.page.wait_for_selector("#answer tbody")
    page.settled()

"""Journeys through the workbench: sliders, the downloaded file, two plans, an area; and axe."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.accessible import assert_accessible
from tests.unit.explore.workbench.in_node import LAPLACE, SMALL
from tests.unit.explore.workbench.test_estimates import geography

from tallyveil.budget.strategy import expected_errors
from tallyveil.explore.serving import served
from tallyveil.explore.workbench import WorkbenchAreas, make_workbench
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import guarantee_of
from tallyveil.products.topdown.run.inputs import read_hierarchies

NATIONAL = Path(__file__).parents[2] / "examples" / "redistricting" / "national.toml"
PUERTO_RICO = NATIONAL.with_name("puerto_rico.toml")
HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def bench(browser, tmp_path) -> Iterator:
    """A function that makes a workbench and opens it. The test fails if anything was wrong in the page."""
    wrong: list[str] = []
    closing = []

    def begin(
        text: str, *, width: int = 1400, dark: bool = False, other: str | None = None, areas: bool = False
    ) -> Page:
        (tmp_path / "given.toml").write_text(text, encoding="utf-8")
        if other is not None:
            (tmp_path / "other.toml").write_text(other, encoding="utf-8")
        known = WorkbenchAreas(read_hierarchies(load_plan(tmp_path / "given.toml"))) if areas else None
        compared = None if other is None else tmp_path / "other.toml"
        make_workbench(tmp_path / "given.toml", tmp_path / "site", compared=compared, areas=known)
        serving = served(tmp_path / "site")
        address = serving.__enter__()
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", locale="en-US"
        )
        page = context.new_page()
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith((address, "blob:")) else wrong.append(asked.url),
        )
        closing.extend([context.close, lambda: serving.__exit__(None, None, None)])
        page.goto(address)
        settled(page)
        return page

    yield begin
    for close in closing:
        close()
    assert not wrong


def settled(page: Page) -> None:
    """Wait until the page shows all numbers of its plan."""
    page.wait_for_timeout(50)
    page.wait_for_selector("body[data-settled='true']", timeout=60_000)
    assert not page.locator("[role=alert]").count()


def saved(page: Page) -> str:
    with page.expect_download() as download:
        page.click("#save")
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_a_moved_slider_changes_the_numbers_and_the_file(bench, tmp_path):
    page = bench(NATIONAL.read_text(encoding="utf-8"))
    before = page.inner_text("#accuracy table")
    assert page.inner_text("#epsilon-bounded") == "epsilon ≤ 16.466"
    page.get_by_label("State", exact=True).first.focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    page.get_by_label("Total rho", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    settled(page)
    assert page.inner_text("#accuracy table") != before
    page.click("#noise summary")
    page.locator("#noise tbody").wait_for()  # it is filled when it opens
    shown = page.locator("#noise tbody tr td:nth-child(6)").all_inner_texts()
    (tmp_path / "saved.toml").write_text(saved(page), encoding="utf-8")
    plan = load_plan(tmp_path / "saved.toml")
    assert shown == [f"{one.standard_deviation:,.2f}" for one in expected_errors(plan.strategy)]
    epsilon = page.inner_text("#epsilon-bounded").removeprefix("epsilon ≤ ")
    assert f"epsilon <= {epsilon} at" in guarantee_of(plan)["statement"]
    page.click("#reset")
    settled(page)
    assert page.inner_text("#epsilon-bounded") == "epsilon ≤ 16.466"


def test_a_number_field_and_a_target(bench):
    page = bench(NATIONAL.read_text(encoding="utf-8"))
    field = page.get_by_label("Share of US of the budget, in per cent")
    field.fill("12.5")
    field.press("Tab")
    settled(page)
    assert field.input_value() == "12.500"
    page.fill("#target", "10")
    page.get_by_role("button", name="Set", exact=True).click()
    page.wait_for_timeout(500)
    settled(page)
    shown = float(page.inner_text("#epsilon-bounded").removeprefix("epsilon ≤ "))
    assert 9.9 < shown <= 10.0
    page.fill("#budget-exact", "nonsense")
    page.press("#budget-exact", "Enter")
    assert page.get_attribute("#budget-exact", "aria-invalid") == "true"
    page.fill("#budget-exact", "7/2")
    page.press("#budget-exact", "Enter")
    settled(page)
    assert "More than the file declares" in page.inner_text("#controls")


def test_two_plans_stand_side_by_side(bench):
    other = SMALL.replace('"9/10"', '"9/40"').replace('"small"', '"cheaper"')
    page = bench(SMALL, other=other)
    assert re.search(r"cheaper: ≤ \d+\.\d{3} \(now \+", page.inner_text("#cost"))
    assert page.locator("#accuracy .moved.better").count()
    assert "cheaper" in page.inner_text("#accuracy")
    assert page.locator("#frontier circle").count() == 2


def test_plans_with_other_geolevels(bench):
    page = bench(PUERTO_RICO.read_text(encoding="utf-8"), other=NATIONAL.read_text(encoding="utf-8"))
    page.click("#levels summary")
    rows = [row.split("\t") for row in page.locator("#levels tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == ["US", "State", "County", "Tract", "Block_Group", "Block"]
    assert (rows[0][1], rows[0][3]) == ("–", "–")  # only the second plan has it
    assert rows[2][3].startswith("−")


def test_plans_with_other_noise(bench):
    page = bench(LAPLACE, other=SMALL)
    assert "not the same measure" in page.inner_text("#cost")
    assert "(now" not in page.inner_text("#cost")
    assert "other.toml" in page.inner_text("#levels")  # both plans have the same name


def test_an_area_shows_both_plans(bench, tmp_path):
    geography(tmp_path, [3, 2, 4])
    page = bench(SMALL, areas=True, other=SMALL.replace('"9/10"', '"9/40"').replace('"small"', '"cheaper"'))
    assert page.locator("#area thead th").all_inner_texts() == ["answer", "now", "cheaper", "change"]
    page.select_option("#area-kind", label="Block")
    settled(page)
    now, was, change = page.locator("#area tbody td").all_inner_texts()[:3]
    assert float(was) == pytest.approx(2 * float(now), rel=0.01)
    assert change == "−50 %"


def test_one_area(bench, tmp_path):
    geography(tmp_path, [3, 2, 4])
    page = bench(SMALL, areas=True)
    page.select_option("#area-kind", label="County")
    page.select_option("#area-code", label="01001")
    settled(page)
    assert "County 01001" in page.inner_text("#area caption")
    assert re.fullmatch(r"\d+\.\d\d", page.locator("#area tbody td").first.inner_text())


def test_a_link_carries_the_position_and_back_goes_back(bench):
    page = bench(NATIONAL.read_text(encoding="utf-8"))
    assert "#" not in page.url
    epsilon = page.locator("#epsilon-bounded")
    visited = [(page.url, epsilon.inner_text())]

    def changed(part: str) -> None:
        """Wait until the address has a part: each change is a step back, however slow the machine is."""
        expect(page).to_have_url(re.compile(part))
        settled(page)
        visited.append((page.url, epsilon.inner_text()))

    page.fill("#budget-exact", "7/3")
    page.press("#budget-exact", "Enter")
    changed("total=7/3")
    page.get_by_label("State", exact=True).first.focus()
    page.keyboard.press("PageDown")
    changed("geolevels=")
    page.locator("button.count").nth(20).click()
    changed("count=")
    assert len({text for _, text in visited}) == 2
    shown, table, link = saved(page), page.inner_text("#accuracy table"), page.url
    page.goto("about:blank")
    page.goto(link)
    settled(page)
    assert (saved(page), page.inner_text("#accuracy table"), page.url) == (shown, table, link)
    assert page.inner_text("#address-note") == ""
    page.go_back()
    for address, text in reversed(visited):
        page.go_back()
        expect(page).to_have_url(address)
        expect(epsilon).to_have_text(text)


def test_garbage_in_the_address_is_ignored_with_a_sentence(bench):
    page = bench(NATIONAL.read_text(encoding="utf-8"))
    address = page.url
    page.goto("about:blank")
    page.goto(address + "#total=7/3&geolevels=1/2&area=x&%3Cimg%3E=1")
    settled(page)
    assert "geolevels, <img>, area. They were ignored" in page.inner_text("#address-note")
    assert page.input_value("#budget-exact") == "7/3"
    page.click("a:has-text('Download')")
    assert page.url == address + "#total=7/3"
    page.click("#reset")
    settled(page)
    assert page.inner_text("#address-note") == ""


def test_a_locked_share_stays_and_a_group_is_reset(bench):
    page = bench(NATIONAL.read_text(encoding="utf-8"))
    lock = page.get_by_label("Keep the share of County of the budget while others move")
    lock.focus()
    page.keyboard.press("Space")
    county = page.get_by_label("Share of County of the budget, in per cent")
    before = county.input_value()
    assert lock.get_attribute("aria-pressed") == "true"
    assert county.is_disabled()
    page.get_by_label("State", exact=True).first.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    settled(page)
    assert county.input_value() == before
    tract = page.get_by_label("Share of Tract of the budget, in per cent")
    assert float(tract.input_value()) > 17
    page.get_by_label("Reset the shares of geolevels").click()
    settled(page)
    assert tract.input_value() == "16.760"
    assert county.is_enabled()


def test_laplace_noise(bench):
    page = bench(LAPLACE)
    assert page.inner_text("#epsilon-bounded") == "epsilon ≤ 0.9"
    assert page.inner_text("#epsilon-unbounded") == "epsilon ≤ 0.45"
    assert "Pure differential privacy" in page.inner_text("#cost")


def test_names_are_shown_and_not_obeyed(bench):
    page = bench(SMALL.replace('name = "small"', f"name = {json.dumps(HOSTILE)}"))
    assert HOSTILE in page.inner_text("#title")
    assert not page.locator("#title img").count()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing_and_nothing_sticks_out(bench, width, dark):
    page = bench(NATIONAL.read_text(encoding="utf-8"), width=width, dark=dark)
    for summary in page.locator("summary").all():
        summary.click()
    page.get_by_label("County", exact=True).first.focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert_accessible(page, width)


def test_print_has_the_numbers(bench):
    page = bench(SMALL)
    page.emulate_media(media="print")
    assert page.is_visible("#epsilon-bounded")
    assert page.is_visible("#accuracy table .value")
    assert not page.is_visible("#reset")

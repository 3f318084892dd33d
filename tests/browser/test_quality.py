"""Accessibility by axe, widths, weight, and the time to the first count."""

import json
import time

import pytest
from tests.browser.accessible import assert_accessible

FIRST_COUNT = 3_000_000  # bytes until the first count
STATES = {
    "town": "area=2/99001010100&table=detailed&with=2/99001010200&district=0-40,77",
    "plain": "table=race_ethnicity",
    "hostile": "table=sex",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("site", sorted(STATES))
def test_axe_finds_nothing_and_nothing_sticks_out(visit, site, width, dark):
    page = visit(site, width=width, dark=dark)
    page.open(STATES[site])
    page.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert_accessible(page.page, width)


def test_the_first_count_is_light_and_quick(visit, record_property):
    page = visit("town")
    page.page.goto("about:blank")
    begun = time.perf_counter()
    page.page.goto(page.address)
    page.page.wait_for_selector("#area .figures")
    seconds = time.perf_counter() - begun
    before = sum(size for address, size in page.requests if "maplibre" not in address)
    assert not [address for address, _ in page.requests if "maplibre-gl.mjs" in address]
    record_property("first_count", json.dumps({"bytes": before, "seconds": round(seconds, 2)}))
    assert before < FIRST_COUNT
    page.settled()


def test_the_switch_of_colours_is_remembered(visit):
    page = visit("plain")
    page.open()
    page.page.select_option("#theme", "dark")
    dark = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.page.reload()
    page.settled()
    assert page.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert page.page.input_value("#theme") == "dark"


def test_print_leaves_controls_out(visit):
    page = visit("plain")
    page.open()
    page.page.emulate_media(media="print")
    assert not page.page.is_visible("#find")
    assert not page.page.is_visible("#district")
    assert page.page.is_visible("#area .figures")


def test_print_names_every_row_and_what_is_chosen(visit):
    page = visit("town")
    page.open("table=detailed")
    page.page.emulate_media(media="print")
    heads = page.page.locator("tbody th[scope=row] > *:not(svg)")
    assert heads.count() > 16
    assert [place for place in range(heads.count()) if not heads.nth(place).is_visible()] == []
    assert page.page.is_visible("#table")
    assert not page.page.is_visible("#area-actions")


def test_a_phone_shows_that_a_table_goes_on(visit):
    """The shadow at the right edge is there until the end of the table is reached."""
    page = visit("town", width=390)
    page.open("table=voting_age")
    tables = page.page.locator("#answers .scroll, #inside .scroll")
    assert tables.count() == 2
    for place in range(2):
        table = tables.nth(place)
        assert table.evaluate("(one) => one.scrollWidth > one.clientWidth")
        table.scroll_into_view_if_needed()
        before = table.screenshot()
        table.evaluate("(one) => { one.style.backgroundImage = 'none'; }")
        assert table.screenshot() != before
        table.evaluate("(one) => { one.style.backgroundImage = ''; one.scrollLeft = one.scrollWidth; }")
        shadow = table.evaluate("(one) => getComputedStyle(one).backgroundAttachment")
        assert shadow == "local, local, scroll, scroll"


def test_many_areas_are_called_by_their_plural(visit):
    page = visit("town")

    def renamed(route):
        site = route.fetch().json()
        site["kinds"][site["finest"]] |= {"name": "municipality", "many": "municipalities"}
        route.fulfill(json=site)

    page.page.route("**/data/site.json", renamed)
    page.open()
    text = page.text("body")
    assert "1,500 municipalities" in text
    assert "Other areas that share municipalities with this one" in text
    assert "Put together any municipalities" in text
    assert "municipalitys" not in text


def test_a_browser_that_remembers_nothing(visit):
    page = visit("plain")
    page.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', "
        "{ get() { throw new DOMException('The operation is insecure.', 'SecurityError'); } });"
    )
    page.open()
    page.page.select_option("#theme", "dark")
    assert page.page.evaluate("document.documentElement.dataset.theme") == "dark"

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
    assert page.page.is_visible("#area .figures")


def test_a_browser_that_remembers_nothing(visit):
    page = visit("plain")
    page.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', "
        "{ get() { throw new DOMException('The operation is insecure.', 'SecurityError'); } });"
    )
    page.open()
    page.page.select_option("#theme", "dark")
    assert page.page.evaluate("document.documentElement.dataset.theme") == "dark"

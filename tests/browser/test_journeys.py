"""What readers do with the explorer of a release."""

import csv
import io
import json
import re
import subprocess
import sys

import polars as pl
import pytest

PRINTED = 1e-6  # the command line prints six decimals
DISTRICT = 9  # one block in so many belongs to the district of the file


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def published(releases, kind, query):
    """A table of the release, as it was published."""
    return pl.read_parquet(releases / "town" / "tables" / f"geolevel={kind}" / f"query={query}" / "*.parquet")


def by_command(releases, *options):
    """What the command line says of districts."""
    command = [sys.executable, "-m", "tallyveil", "intervals", str(releases / "town"), *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def district_file(releases, tmp_path):
    codes = (
        pl.read_parquet(releases / "population" / "geography.parquet")
        .select("geocode")
        .gather_every(DISTRICT)
    )
    codes.write_csv(tmp_path / "district.csv")
    return tmp_path / "district.csv"


def test_a_town_is_found_by_name_with_the_keyboard(visit, releases):
    page = visit("town")
    page.open()
    page.page.keyboard.press("Tab")  # the link past the head
    page.page.focus("#find")
    page.page.keyboard.type("emile")  # without its accent
    page.page.wait_for_selector("[role=option]")
    page.page.keyboard.press("ArrowDown")
    assert page.page.get_attribute("#find", "aria-activedescendant") == "find-option-0"
    page.page.keyboard.press("Enter")
    page.shows("#area-title", "Port Émile")
    page.settled()
    assert page.page.evaluate("document.activeElement.id") == "area-title"
    [wanted] = published(releases, "place", "total").head(1).to_dicts()
    said = page.text("#area")
    assert f"{wanted['count']:,}" in said
    assert f"interval of the count before noise is {wanted['lower']:,.0f} to {wanted['upper']:,.0f}" in said


def test_a_block_is_found_by_its_geocode(visit, releases):
    page = visit("town")
    page.open()
    code = published(releases, "Block", "total")["geocode"][1400]
    page.page.fill("#find", code)
    page.page.click("[role=option]")
    page.shows("#area-title", code)
    page.settled()
    assert page.state["area"] == f"4/{code}"


def test_down_the_tree_and_back(visit):
    page = visit("town")
    page.open()
    for geolevel in ("County 9", "Tract 9", "Block Group 9", "Block 9"):
        page.page.click("#inside tbody a >> nth=0")
        page.shows("#area-title", geolevel)
        page.settled()
    assert page.page.locator(".crumbs li").count() == 5
    page.page.go_back()
    page.shows("#area-title", "Block Group 9")
    page.page.click(".crumbs a >> nth=0")
    page.shows("#area-title", "Made-up State")
    page.settled()


def test_children_are_paged(visit):
    page = visit("town")
    page.open("area=3/990010101001")
    assert re.search(r"Rows 1 to 25 of \d+", page.text("#inside"))
    first = page.text("#inside tbody tr >> nth=0")
    page.page.click("#inside .pager button:has-text('Next')")
    page.shows("#inside .pager span", "Rows 26")
    assert page.text("#inside tbody tr >> nth=0") != first


def test_a_district_file_has_the_margin_of_the_command_line(visit, releases, tmp_path):
    file = district_file(releases, tmp_path)
    page = visit("town")
    page.open("table=race_ethnicity")
    page.page.set_input_files("#district-file", file)
    page.page.wait_for_selector("#district .sum")
    found = rows(page.saved("#district button:has-text('Download the sum')"))
    wanted = by_command(releases, "--district", str(file), "--tables", "race_ethnicity")["answers"]
    assert len(found) == len(wanted) == 8
    for mine, other in zip(found, wanted, strict=True):
        assert float(mine["estimate"]) == pytest.approx(other["estimate"], abs=PRINTED)
        assert float(mine["standard_error"]) == pytest.approx(other["standard_error"], abs=PRINTED)
        assert (float(mine["lower"]), float(mine["upper"])) == (other["lower"], other["upper"])


def test_a_file_of_unknown_geocodes_is_refused(visit, tmp_path):
    (tmp_path / "wrong.csv").write_text("geocode\n990010101001000\nnowhere\n")
    page = visit("town")
    page.open()
    page.page.set_input_files("#district-file", tmp_path / "wrong.csv")
    page.page.wait_for_selector("#district [role=alert]")
    assert "1 geocodes that are not in the release, such as nowhere" in page.text("#district")


def test_a_district_is_drawn_and_summed(visit, releases, tmp_path):
    page = visit("town")
    page.open()
    page.page.click("text=Draw a district")
    box = page.page.locator(".lasso").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.page.mouse.move(middle[0] - 60, middle[1] - 60)
    page.page.mouse.down()
    for dx, dy in ((60, -60), (60, 60), (-60, 60)):
        page.page.mouse.move(middle[0] + dx, middle[1] + dy, steps=4)
    page.page.mouse.up()
    page.page.wait_for_selector("#district .sum")
    page.settled()
    (tmp_path / "drawn.csv").write_text(page.saved("#district button:has-text('Download its blocks')"))
    assert 10 < len(rows((tmp_path / "drawn.csv").read_text())) < 1000
    [wanted] = by_command(releases, "--district", str(tmp_path / "drawn.csv"), "--tables", "total")["answers"]
    [found] = rows(page.saved("#district button:has-text('Download the sum')"))
    assert float(found["standard_error"]) == pytest.approx(wanted["standard_error"], abs=PRINTED)
    assert (
        f"interval of the count before noise is {wanted['lower']:,.0f} to {wanted['upper']:,.0f}"
        in page.text("#district")
    )


def test_areas_join_the_district_without_a_map(visit):
    page = visit("plain")
    page.open("area=3/990010101001")
    page.page.click("text=Add to your district")
    page.page.wait_for_selector("#district .sum")
    page.settled()
    counted = page.text("#district-size")
    assert re.fullmatch(r"\d+ blocks chosen\.", counted)
    assert "There is no margin." in page.text("#district")
    page.page.click("text=Take out of your district")
    page.shows("#district-size", "No block is chosen.")
    page.settled()


def test_two_areas_side_by_side(visit, releases, tmp_path):
    page = visit("town")
    page.open("area=3/990010101001")
    page.page.fill("#compare-with", "990010101002")
    page.page.click("#compare [role=option] >> nth=0")
    page.page.wait_for_selector("#compare .sides")
    page.settled()
    geography = pl.read_parquet(releases / "population" / "geography.parquet")
    for name in ("990010101001", "990010101002"):
        geography.filter(block_group=name).select("geocode").write_csv(tmp_path / f"{name}.csv")
    files = [str(tmp_path / f"{name}.csv") for name in ("990010101001", "990010101002")]
    [wanted] = by_command(releases, "--district", files[0], "--minus", files[1], "--tables", "total")[
        "answers"
    ]
    said = page.text("#compare")
    assert f"{wanted['lower']:+,.0f} to {wanted['upper']:+,.0f}" in said.replace("−", "-")


def test_the_file_of_a_card_has_the_published_numbers(visit, releases):
    page = visit("town")
    page.open("area=1/99001&table=detailed")
    found = rows(page.saved("#area button:has-text('Download as CSV')"))
    wanted = published(releases, "County", "detailed").filter(geocode="99001")
    assert [int(row["published"]) for row in found] == wanted["count"].to_list()
    assert [float(row["estimate"]) for row in found] == wanted["estimate"].to_list()
    assert {row["geocode"] for row in found} == {"99001"}


def test_a_link_opens_what_its_sender_saw(visit):
    page = visit("town")
    page.open("area=2/99001010100")
    page.page.select_option("#table", "detailed")
    page.page.wait_for_selector("#factor-1")
    page.settled()
    page.page.select_option("#factor-1", "black")
    page.settled()
    page.page.select_option("#measure", "standard_error")
    page.settled()
    address = page.page.url
    other = visit("town")
    other.open(address.partition("#")[2])
    for selector in ("#area", "#answers", ".legend"):
        assert other.text(selector) == page.text(selector)
    assert "under 18 × black" in other.text("#answer-title")


def test_the_map_shows_every_measure_and_says_it_in_a_table(visit):
    page = visit("town")
    page.open("table=voting_age")
    for measure in ("share", "standard_error", "relative_standard_error", "outside", "published"):
        page.page.select_option("#measure", measure)
        page.settled()
        assert page.page.locator(".legend li").count() >= 2
    page.page.select_option("#map-kind", "3")
    page.settled()
    page.page.click(".map-table summary")
    page.page.wait_for_selector(".map-table tbody tr")
    assert "of 48" in page.text(".map-table")


def test_zero_has_a_class_of_its_own_where_it_is_common(visit):
    page = visit("town")
    page.open("table=detailed&kind=4")
    legend = page.page.locator(".legend li").all_inner_texts()
    assert legend[0].strip() == "0"
    assert legend[1].strip().startswith("1")


@pytest.mark.parametrize("made_from", ["polygons", "points"])
def test_a_map_made_from_points_says_that_its_lines_are_no_borders(visit, made_from):
    page = visit("town")

    def answer(route):
        site = route.fetch().json()
        site["map"]["made_from"] = made_from
        route.fulfill(json=site)

    page.page.route("**/data/site.json", answer)
    page.open()
    assert ("The lines on this map are not borders." in page.text("#map-panel")) == (made_from == "points")


def test_an_area_is_opened_from_the_map_with_the_keyboard(visit):
    page = visit("town")
    page.open("kind=1")
    page.page.focus(".maplibregl-canvas")
    page.page.keyboard.press("Enter")
    page.shows("#area-title", "County")
    page.settled()


def test_without_intervals_and_map_the_page_says_so(visit):
    page = visit("plain")
    page.open()
    assert "The release has no intervals" in page.text("#area")
    assert not page.page.is_visible("#map-panel")
    assert page.page.locator("#measure").count() == 0


def test_a_second_release_is_shown_beside_the_first(visit):
    page = visit("twins")
    page.open("table=voting_age")
    headings = page.page.locator("#answers thead th").all_inner_texts()
    assert headings == ["Answer", "Published", "Published in the other release, population", "Difference"]
    first = page.page.locator("#answers tbody tr >> nth=0 >> td").all_inner_texts()
    assert first[0] == first[1]
    assert first[2] == "0"


def test_an_area_that_does_not_exist_is_named(visit):
    page = visit("town")
    page.open("area=4/nowhere")
    assert "This site has no area 4/nowhere" in page.text("#area")


def test_a_site_of_measurements_shows_estimates_and_no_counts(visit, releases):
    """The card, the map, the list inside, a district and a comparison, each from estimates alone."""
    page = visit("measured")
    page.open()
    parts = releases / "measured/intervals/geolevel=State/query=total/*.parquet"
    (state,) = pl.read_parquet(parts).to_dicts()
    assert f"{state['estimate']:,.0f}" in page.text("#area")
    for measure in ("standard_error", "relative_standard_error", "estimate"):
        page.page.select_option("#measure", measure)
        page.settled()
        assert page.state.get("measure") == measure
    counties = releases / "measured/intervals/geolevel=County/query=total/*.parquet"
    county = pl.read_parquet(counties).to_dicts()[0]
    page.open(f"area=1/{county['geocode']}&with=0/{state['geocode']}")
    assert "estimate of the difference" in page.text("body")
    page.page.click("text=Add to your district")
    page.settled()
    assert f"{county['lower']:,.0f} to {county['upper']:,.0f}" in page.text("#district")
    for said in ("Published count", "published count is", "By published counts"):
        assert said not in page.text("body")
    assert "Published" not in page.page.locator("th").all_inner_texts()

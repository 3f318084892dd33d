"""Every page can be read: its text stands out, and no cell of a table is printed over another."""

import re
from importlib import resources
from pathlib import Path

import pytest

import tallyveil
from tallyveil.report.svg import (
    BAND,
    COLOURS,
    GREY,
    INK,
    LINE,
    MUTED,
    PAPER,
    contrast,
    dot_plot,
    text_colour,
)
from tallyveil.report.wording import unbroken

READABLE = 4.5
VISIBLE = 3.0
"""Least contrast of what is no text, such as the frame around the focus."""
CSS = (resources.files("tallyveil.report") / "templates" / "style.css.j2").read_text()
PAGES = sorted(path for path in Path(tallyveil.__file__).parent.rglob("templates/*.j2"))


MEDIA = r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)[^{}]*\}"
DARK = next(one.group() for one in re.finditer(MEDIA, CSS) if "dark" in one.group())
LIGHT = CSS.replace(DARK, "")


def colour(text: str, style: str) -> str:
    """A colour of the style sheet in six digits, in the light or the dark style."""
    name = re.fullmatch(r"var\((--[a-z]+)\)", text)
    if name:
        text = next(re.finditer(rf"{name.group(1)}: (#[0-9a-f]+)", style + LIGHT)).group(1)
    return text if len(text) == 7 else "#" + "".join(2 * digit for digit in text[1:])


def rules() -> list[tuple[str, dict[str, str]]]:
    """The rules for both styles, which differ in the colours that the names stand for."""
    plain = re.sub(MEDIA, r"\1", LIGHT)
    return [
        (selector.strip(), dict(re.findall(r"([a-z-]+):\s*([^;}]+?)\s*(?:;|$)", body)))
        for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", plain)
    ]


def backgrounds(style: str) -> dict[str, str]:
    found = {}
    for selector, declared in rules():
        value = declared.get("background", "")
        if re.match(r"#|var\(", value) and "bar" not in selector:  # a bar holds no text
            found[selector] = colour(value, style)
    return found


def test_contrast_is_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#8b949e") == pytest.approx(3.08, abs=0.01)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_text_stands_out_on_every_page(style):
    found = backgrounds(style)
    paper = {name: value for name, value in found.items() if contrast(value, found["body"]) < 1.5}
    assert {"body", "tr.total th, tr.total td", ".note"} <= set(paper)
    for selector, declared in rules():
        if "color" in declared:
            own = found.get(selector)
            for behind in [own] if own else paper.values():
                assert contrast(colour(declared["color"], style), behind) >= READABLE, selector


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_of_text_stands_out_on_every_paper(style):
    """Whatever stands on what: text, muted text, links, headings and warnings, on paper, notes and rows of totals."""
    papers = [colour(f"var({name})", style) for name in ("--paper", "--note", "--band")]
    for name in ("--ink", "--muted", "--blue", "--passed"):
        for paper in papers:
            assert contrast(colour(f"var({name})", style), paper) >= READABLE, (name, paper)
    assert contrast("#ffffff", colour("var(--red)", style)) >= READABLE


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_the_focus_can_be_seen(style):
    outline = next(declared["outline"] for selector, declared in rules() if ":focus-visible" in selector)
    mark = colour(re.search(r"var\(--[a-z]+\)", outline).group(), style)
    for paper in ("--paper", "--note", "--band"):
        assert contrast(mark, colour(f"var({paper})", style)) >= VISIBLE


def test_the_dark_style_names_every_colour_anew():
    names = set(re.findall(r"(--[a-z]+): #", LIGHT))
    assert set(re.findall(r"(--[a-z]+): #", DARK)) == names - {"--red"}


def test_figures_take_the_neutral_colours_of_the_page():
    names = {
        re.fullmatch(r"var\((--[a-z]+)\)", neutral).group(1) for neutral in (INK, MUTED, LINE, BAND, PAPER)
    }
    assert all(f"{name}: #" in LIGHT and f"{name}: #" in DARK for name in names)
    picture = dot_plot("dots", ["a"], ["State"], {("a", "State"): 3.0}, axis="error", description="One dot.")
    assert set(re.findall(r"var\((--[a-z]+)\)", picture)) <= names
    assert set(re.findall(r"#[0-9a-f]{6}", picture)) == {COLOURS[0]}


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_the_colours_of_figures_stand_out(style):
    """Light blue and orange are too light on white; dots of them have another shape than their neighbours."""
    paper = colour("var(--paper)", style)
    for series in (*COLOURS, GREY):
        least = 1.9 if series in (COLOURS[1], COLOURS[4], COLOURS[5], GREY) else VISIBLE
        assert contrast(colour(series, style), paper) >= least, series


def test_print_has_no_dark_paper():
    """The dark colours are those of screens, so paper is white. Tables show all their columns there."""
    assert DARK.startswith("@media screen and (prefers-color-scheme: dark)")
    printed = next(one.group() for one in re.finditer(MEDIA, CSS) if "print" in one.group())
    assert ".scroll { overflow: visible; background: none; }" in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_have_no_colours_of_their_own(page):
    if page.name != "style.css.j2":
        assert not re.search(r"(?<![-\w])color\s*:|#[0-9a-f]{6}\b", page.read_text())


def test_text_stands_out_in_figures():
    for style in (LIGHT, DARK):
        for ink in (INK, MUTED):
            for behind in (PAPER, BAND):
                assert contrast(colour(ink, style), colour(behind, style)) >= READABLE
    for behind in (*COLOURS[:-1], GREY):
        assert contrast(text_colour(behind), behind) >= READABLE


def test_no_table_has_a_fixed_layout():
    """Cells that cannot break would be printed over their neighbours there."""
    assert "table-layout" not in CSS


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_wide_tables_scroll_by_themselves(page):
    text = page.read_text()
    assert text.count('<table class="wide') == len(
        re.findall(r'<div class="scroll" tabindex="0">\s*<table class="wide', text)
    )


def test_numbers_stay_with_their_signs():
    assert (
        unbroken("2 groups, ± 8.00 → 5.00, 3 % of") == "2 groups, ±\u00a08.00\u00a0→\u00a05.00, 3\u00a0% of"
    )

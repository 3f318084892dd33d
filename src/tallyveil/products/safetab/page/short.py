"""Tables of population groups in a few sentences, for readers who have never heard of differential privacy."""

from fractions import Fraction
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.files.finished import LEDGER
from tallyveil.products.safetab.public.evaluation import SIZES
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.report.best_guess import NO_SECRET, composed_guess, guess_tile, guess_words
from tallyveil.report.points import NumberTile, SummaryPoint
from tallyveil.report.wording import detail_title, grouped, percent, rounded
from tallyveil.schema.schema import Unit

GEOGRAPHIES: Final = {
    "USA": "nation",
    "STATE": "state",
    "COUNTY": "county",
    "TRACT": "tract",
    "PLACE": "place",
    "AIANNH": "tribal area",
    "PR-STATE": "Puerto Rico",
    "PR-COUNTY": "county of Puerto Rico",
    "PR-TRACT": "tract of Puerto Rico",
    "PR-PLACE": "place of Puerto Rico",
}
"""How the regions of the Census layout are called."""


_LEFT_OUT: Final = (
    " In small areas, small totals were left out: a group without a count may have members there. So the sum of such "
    "totals is no estimate of the total of several areas."
)


def groups_guess(out: Path) -> Fraction:
    """Upper bound of the share of right guesses about one record, from the ledger of a run."""
    declaration, entries = read_ledger(out / LEDGER)
    return composed_guess(entries, declaration)


def group_tiles(
    published: pl.DataFrame, unit: Unit, right: Fraction, *, is_protected: bool
) -> tuple[NumberTile, ...]:
    """The numbers that stand out: how many groups have a count, the typical margins, and the best guess."""
    tiles = [
        NumberTile(
            "Groups with a published count", grouped(published.height), "each with a margin of its own"
        )
    ]
    tiles += [
        NumberTile(
            f"A typical count of {_size(size)}", f"± {_margin(margin)}", f"{unit.many}, in 95 of 100 cases"
        )
        for size, margin in _ends(published)
    ]
    return (*tiles, guess_tile(right, unit, is_protected=is_protected))


def group_points(
    published: pl.DataFrame,
    unit: Unit,
    right: Fraction,
    *,
    chosen_by: str,
    is_protected: bool,
    some_left_out: bool = False,
) -> tuple[SummaryPoint, ...]:
    """What was done, how sure a count is, what may not be concluded, and what it means for one record.

    Args:
        published: Totals of all groups: `COUNT`, `MARGIN` and `SIZE`, the class of the count.
        unit: What a record stands for.
        right: Upper bound of the share of right guesses.
        chosen_by: What decided how much detail a group gets, as the subject of a sentence.
        is_protected: Whether the key of the noise was secret.
        some_left_out: Whether small totals were left out.
    """
    guess = guess_words(right, NEIGHBOURS, unit)
    without_secret = "" if is_protected else NO_SECRET
    return (
        SummaryPoint(
            "What was done",
            "A random whole number, called noise, was added to every count. It may be positive or negative, and it is "
            f"public how large such numbers usually are. {chosen_by} decided how much detail each group gets.",
        ),
        SummaryPoint("How sure a count is", _sure(published, unit)),
        SummaryPoint("What not to conclude", _not(published, unit) + (_LEFT_OUT if some_left_out else "")),
        SummaryPoint(f"What it means for one {unit.one}", without_secret + guess),
    )


def _ends(published: pl.DataFrame) -> list[tuple[str, float]]:
    """The smallest and the largest class of counts that occurs, each with its median margin."""
    medians = dict(published.group_by("SIZE").agg(pl.col("MARGIN").median()).iter_rows())
    present = [size for size in SIZES if size in medians]
    return [(size, medians[size]) for size in dict.fromkeys((*present[:1], *present[-1:]))]


def _margin(value: float) -> str:
    return grouped(int(value)) if value == int(value) else rounded(value)


def _size(size: str) -> str:
    return "0 or less" if size == "0" else size.replace("-", " to ")


def _sure(published: pl.DataFrame, unit: Unit) -> str:
    if published.is_empty():
        return "No group has a published count."
    margins = [
        f"at most {_margin(margin)} {unit.many} for a typical published total of {_size(size)}"
        for size, margin in _ends(published)
    ]
    return (
        f"In 95 of 100 cases the noise is {', and '.join(margins)}. Every published number has its own margin in the "
        "same row."
    )


def _not(published: pl.DataFrame, unit: Unit) -> str:
    within = published.filter(pl.col("COUNT") <= pl.col("MARGIN")).height
    text = "Do not add up the counts of groups: a record may be in several. "
    if not within:
        return f"{text}Two counts that differ by less than their margins may be equal before noise."
    share = percent(within / published.height)
    below = " A count below zero is noise, not a mistake." if (published["COUNT"] < 0).any() else ""
    return (
        f"{text}{grouped(within)} of the {grouped(published.height)} published totals ({share}) are no larger than "
        f"their margins: such a group may have no {unit.many} at all.{below}"
    )


def geography_title(name: str) -> str:
    """How a geography of the Census layout is called; any other text stays as it is."""
    return GEOGRAPHIES.get(name, name)


def value_title(value: str) -> str:
    """A text of a table, as a page shows it."""
    return geography_title(detail_title(value))

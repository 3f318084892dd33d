"""A table with exact sums in a few sentences, for readers who have never heard of differential privacy."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import polars as pl

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.release.manifest import Manifest
from tallyveil.report.best_guess import NO_SECRET, guess_of_pair, guess_words
from tallyveil.report.points import Point
from tallyveil.report.wording import grouped, listed, percent
from tallyveil.universe.unit import Unit

_NAMES_SHOWN: Final = 4

_DONE: Final = {
    "free": "A random whole number, called noise, was added to every count. It may be positive or negative, so a count "
    "may be negative, too. It is too high as often as too low, and by as much.",
    "nonnegative": "A random whole number, called noise, was added to every count. Then the nearest table without "
    "negative counts was taken. So small counts tend to be too large, and large ones too small.",
    "restricted": "The table was drawn at random from all tables without negative counts that have the same exact "
    "sums. Tables near the true one are likelier. So small counts tend to be too large, and large ones too small.",
}


def table_points(
    manifest: Manifest, plan: Mapping[str, Any], counts: pl.DataFrame, unit: Unit
) -> tuple[Point, ...]:
    """What was done, how sure a count is, what may not be concluded, and what it means for one record.

    Args:
        manifest: Of the release.
        plan: Its plan.
        counts: Its table: `count` and, if there are margins, `margin`.
        unit: What a record stands for.
    """
    return (
        Point("What was done", f"{_DONE[plan.get('outputs', 'free')]} {_exact_sums(plan)}"),
        Point("How sure a count is", _sure(manifest, counts, unit)),
        Point("What not to conclude", _not(counts, unit)),
        Point(f"What it means for one {unit.one}", _single_counts(manifest, plan, unit)),
    )


def _exact_sums(plan: Mapping[str, Any]) -> str:
    names = list(plan.get("constraints", ()))
    if not names:
        return "No sum is published exactly."
    more = len(names) - _NAMES_SHOWN
    shown = names[:_NAMES_SHOWN] + ([f"{grouped(more)} more"] if more > 0 else [])
    return f"These sums are published exactly, without noise: {listed(shown)}."


def _sure(manifest: Manifest, counts: pl.DataFrame, unit: Unit) -> str:
    margins = manifest.body.get("margins")
    if margins is None:
        return "This release has no margins of error. How far a count may lie from the true one is not known from it."
    level = percent(float(Fraction(margins["level"])))
    noisy = counts.filter(pl.col("margin") > 0)
    if noisy.is_empty():
        return "All counts follow from sums that are published exactly."
    margin, count = (int(noisy[name].sort()[(noisy.height - 1) // 2]) for name in ("margin", "count"))
    return (
        f"The noise of a typical count (about {grouped(count)}) is at most {grouped(margin)} {unit.many} in {level} of "
        "cases. Typical means that this or better holds for at least half of the counts. Each count has its own margin."
    )


def _not(counts: pl.DataFrame, unit: Unit) -> str:
    text = "Do not take a single small count for the truth, and do not add up margins."
    if "margin" not in counts.columns:
        return text
    within = counts.filter(pl.col("margin") > 0, pl.col("count") <= pl.col("margin")).height
    if not within:
        return text
    return (
        f"{text} {grouped(within)} of the {grouped(counts.height)} counts are no larger than their margins: in truth "
        f"there may be no {unit.many} there."
    )


def _single_counts(manifest: Manifest, plan: Mapping[str, Any], unit: Unit) -> str:
    privacy = manifest.privacy
    if not privacy.get("about_one_record") or "epsilon" not in privacy:
        return (
            "The noise hides which of several tables with the same exact sums is the true one. What this means for "
            f"one {unit.one} depends on these sums; the section on privacy has the exact statement."
        )
    right: Fraction = guess_of_pair(float(privacy["epsilon"]), float(privacy["delta"]))
    words = guess_words(right, Neighbours.of(plan["neighbours"]), unit)
    without_secret = "" if manifest.protected else NO_SECRET
    return f"{without_secret}{words} What the exact sums reveal is not covered."

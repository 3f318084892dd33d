"""What a site says in words: what the release guarantees, and why something is not there."""

from typing import Final

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.budget.strategy import Mechanism
from tallyveil.explore.opened import OpenedRelease
from tallyveil.report.privacy import MECHANISMS, NEIGHBOURS
from tallyveil.report.wording import listed
from tallyveil.storage.json_files import JsonObject

NO_INTERVALS: Final = (
    "The release has no intervals, so only its published counts are shown. If the release keeps its noisy "
    "measurements, `tallyveil intervals` adds them. It reads published files alone and spends nothing."
)


def guarantee_sentences(release: OpenedRelease) -> list[str]:
    """What the release promises, in plain sentences."""
    privacy, unit = release.manifest.privacy, release.schema.unit
    _, neighbours = NEIGHBOURS[Neighbours(privacy["neighbours"])]
    _, mechanism = MECHANISMS[Mechanism(privacy["mechanism"])]
    exact = listed(list(privacy["exact"].get("invariants", privacy.get("invariants", []))))
    return [
        mechanism,
        f"{privacy['statement'][0].upper()}{privacy['statement'][1:]}.",
        neighbours.format(unit=unit.one),
        *([f"Published exactly, without noise: {exact}."] if exact else []),
        privacy["post_processing"],
    ]


def intervals_entry(release: OpenedRelease) -> JsonObject | None:
    """What `site.json` says of the intervals; None if the release has none."""
    intervals = release.intervals
    if intervals is None:
        return None
    return {name: intervals[name] for name in ("level", "kind", "simultaneous", "covers", "bounds_used")}


def left_out(release: OpenedRelease) -> tuple[str, ...]:
    """What the release has and the site does not show, in sentences."""
    known = {kind.name for kind in release.areas.kinds}
    compared = [] if release.intervals is None else release.intervals["compared"]
    others = [name for name in dict.fromkeys(item["area"] for item in compared) if name not in known]
    if not others:
        return ()
    return (
        f"Left out: intervals of {listed(others)}. The release does not say which areas these consist of, because they "
        "were not among its own entities.",
    )

"""How the spine of a release was made, as text for the page."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import grouped, listed, name_title, percent, rounded

EXACT = 0.001
"""Standard deviation of a total below which a total is published exactly."""


@dataclass(frozen=True, slots=True)
class SpineView:
    """The spine of a release that has entities or steps.

    Attributes:
        preset: Name of the production spine whose steps were used; None if no preset was used.
        steps: Each step in words.
        bypassed: Whether geounits were bypassed, so that geounits of one geolevel can have different noise.
        levels: For each spine its title, and for each of its geolevels, as text: name, number of geounits, mean and
            largest number of children.
        distances: For each family: name, number of entities, mean (largest) distance on the geography as given, and
            the same on the spine.
        deviations: For each family or geolevel: name, with a mark if the groups were chosen for its variance; number
            of areas; mean standard deviation of totals on the geography as given, after the steps, and on the spine;
            largest standard deviation on the spine.
        warnings: Sentences about families and geolevels that the spine makes less accurate.
        replaced: Original geolevels that the spine changes or lacks, in words; None if it keeps all.
    """

    preset: str | None
    steps: tuple[str, ...]
    bypassed: bool
    levels: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]
    distances: tuple[tuple[str, str, str, str], ...]
    deviations: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    replaced: str | None


def spine_view(files: ReleaseFiles) -> SpineView | None:
    """The manifest's record of the spine, for reading; None if the geography is used unchanged."""
    record: dict[str, Any] | None = files.manifest.body.get("spine")
    if record is None:
        return None
    steps = tuple(_step(step) for step in record["steps"])
    if "regroup" in record:
        # In the order in which the spine is made: steps, regrouping, bypassing.
        steps += (_regroup(record["regroup"]),)
    if "bypassing" in record:
        steps += (_bypassing(record["bypassing"]),)
    spines = [("geography as given", record["original"])]
    if steps:
        spines.append(("spine of the release", record["made"]))
    distances = (
        (
            name_title(name),
            grouped(item["entities"]),
            # Without steps the spine is the geography as given, and the record has one distance.
            _distance(item, "original_") if "original_mean" in item else _distance(item, ""),
            _distance(item, ""),
        )
        for name, item in record["distances"].items()
    )
    return SpineView(
        record.get("preset"),
        steps,
        "bypassing" in record,
        tuple((title, tuple(_level(item) for item in levels)) for title, levels in spines),
        tuple(distances),
        tuple(_deviations(item) for item in record.get("deviations", ())),
        tuple(name_title(warning) for warning in record.get("warnings", ())),
        listed([name_title(name) for name in record["replaced"]]) if record["replaced"] else None,
    )


def _level(item: dict[str, Any]) -> tuple[str, str, str, str]:
    children = ("", "")
    if "children_mean" in item:
        children = (rounded(item["children_mean"]), grouped(item["children_most"]))
    return (name_title(item["geolevel"]), grouped(item["geounits"]), *children)


def _distance(item: dict[str, Any], which: str) -> str:
    return f"{rounded(item[which + 'mean'])} ({grouped(item[which + 'most'])})"


def _deviations(item: dict[str, Any]) -> tuple[str, ...]:
    values = (item["given"]["mean"], item["steps"]["mean"], item["made"]["mean"], item["made"]["greatest"])
    return (
        name_title(item["name"]) + (" *" if item["aimed"] else ""),
        grouped(item["areas"]),
        *(
            # None: no measurement reaches the area. Below 0.001 it is an invariant.
            "not determined" if value is None else "exact" if value < EXACT else rounded(value)
            for value in values
        ),
    )


def _step(step: dict[str, Any]) -> str:
    level = name_title(step["geolevel"])
    if step["kind"] == "branch":
        entities = "all" if step["entities"] is None else listed(step["entities"])
        where = f"into the new geolevel {name_title(step['parts'])}" if step["parts"] else "in its place"
        return (
            f"Branch {step['name']}: every geounit from {level} down is cut by the entities of "
            f"{name_title(step['family'])} ({entities}), {where}."
        )
    families = listed([name_title(name) for name in step["families"]])
    if step["kind"] == "cut_by_entities":
        where = f"below {level}, which stays whole" if step["keep"] else f"in the place of {level}"
        return (
            f"{name_title(step['name'])}: every geounit from {level} down is cut by the entities of {families}; "
            f"the parts are a geolevel {where}."
        )
    children = name_title(step["children"])
    limit = _limit(step["limit"])
    if step["kind"] == "group_by_membership":
        return f"{level}: groups of {children} geounits that are in the same entities of {families}, {limit}."
    return f"{level}: groups of {children} geounits, merged while no distance of {families} grows, {limit}."


def _limit(limit: dict[str, Any]) -> str:
    text = f"at most int(√n + {limit['cutoff']}) each"
    return text if limit["at_most"] is None else f"{text} and never more than {limit['at_most']}"


def _regroup(record: dict[str, Any]) -> str:
    aim = listed([name_title(name) for name in record["aim"]])
    what = "the sum of mean variances" if record["measure"] == "sum" else "the greatest variance"
    return (
        f"{name_title(record['geolevel'])}: groups chosen anew so that {what} of {aim} falls, "
        f"{_limit(record['limit'])}. {_guarantee_kept_words(record)}"
    )


def _guarantee_kept_words(record: dict[str, Any]) -> str:
    """The limit on what other areas may lose through the groups; "" for older releases, which had no limit."""
    # Releases of earlier versions have no such limit.
    if "most_loss" not in record:
        return ""
    loss = percent(float(Fraction(record["most_loss"])))
    place = "the geography as given" if record["reference"] == "geography" else "the spine before this step"
    free = record["may_worsen"]
    but = f", but for {listed([name_title(name) for name in free])}" if free else ""
    return (
        f"No other family of the entity table and no geolevel of the geography{but} was to lose more than {loss} of "
        f"its mean standard deviation on {place}; the table below says what came of it."
    )


def _bypassing(record: dict[str, Any]) -> str:
    # A bypassed geounit gives its share away and is not measured.
    without = grouped(sum(level["not_measured"] for level in record["geolevels"]))
    if record["rule"] == "single_child":
        return (
            "Bypassing: a geounit with one child is the same area as the child; it is measured once, at the upper "
            f"geolevel, with the shares of both. So {without} geounits have no measurement of their own."
        )
    return (
        "Bypassing: a geounit is left out where its share is small beside its children's, which take its place and its "
        "share. If all geolevels measure the same queries with the same query shares, no query of any geounit has a "
        f"greater variance then. So {without} geounits have no measurement of their own."
    )

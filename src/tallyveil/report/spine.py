"""How the spine of a release was made, arranged for reading."""

from dataclasses import dataclass
from typing import Any

from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import geolevel_title, grouped, listed, rounded


@dataclass(frozen=True, slots=True)
class SpineView:
    """The spine of a release that has entities or steps.

    Attributes:
        steps: Each step in words.
        levels: By spine: title, and for each geolevel its name, geounits, mean and most children, as text.
        distances: Family; number of entities; mean (most) distance on the geography as given, and on the spine.
        replaced: Original geolevels that the spine does not have as they were, in words; None where it has all.
    """

    steps: tuple[str, ...]
    levels: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]
    distances: tuple[tuple[str, str, str, str], ...]
    replaced: str | None


def spine_view(files: ReleaseFiles) -> SpineView | None:
    """The spine's record in the manifest; None for a geography used as it is."""
    record: dict[str, Any] | None = files.manifest.get("spine")
    if record is None:
        return None
    steps = tuple(_step(step) for step in record["steps"])
    spines = [("geography as given", record["original"])]
    if steps:
        spines.append(("spine of the release", record["made"]))
    distances = (
        (
            geolevel_title(name),
            grouped(item["entities"]),
            _distance(item, "original_") if "original_mean" in item else _distance(item, ""),
            _distance(item, ""),
        )
        for name, item in record["distances"].items()
    )
    return SpineView(
        steps,
        tuple((title, tuple(_level(item) for item in levels)) for title, levels in spines),
        tuple(distances),
        listed([geolevel_title(name) for name in record["replaced"]]) if record["replaced"] else None,
    )


def _level(item: dict[str, Any]) -> tuple[str, str, str, str]:
    children = ("", "")
    if "children_mean" in item:
        children = (rounded(item["children_mean"]), grouped(item["children_most"]))
    return (geolevel_title(item["geolevel"]), grouped(item["geounits"]), *children)


def _distance(item: dict[str, Any], which: str) -> str:
    return f"{rounded(item[which + 'mean'])} ({grouped(item[which + 'most'])})"


def _step(step: dict[str, Any]) -> str:
    level = geolevel_title(step["geolevel"])
    if step["kind"] == "branch":
        entities = "all" if step["entities"] is None else listed(step["entities"])
        where = f"into the new geolevel {geolevel_title(step['parts'])}" if step["parts"] else "in its place"
        return (
            f"Branch {step['name']}: every geounit from {level} down is cut by the entities of "
            f"{geolevel_title(step['family'])} ({entities}), {where}."
        )
    families = listed([geolevel_title(name) for name in step["families"]])
    children = geolevel_title(step["children"])
    limit = f"at most int(√n + {step['limit']['cutoff']}) each"
    if step["limit"]["at_most"] is not None:
        limit += f" and never more than {step['limit']['at_most']}"
    if step["kind"] == "group_by_membership":
        return f"{level}: groups of {children} geounits that are in the same entities of {families}, {limit}."
    return f"{level}: groups of {children} geounits, merged while no distance of {families} grows, {limit}."

"""A second release of the same geography and tables, whose counts are shown beside those of the first."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tallyveil.errors import ConfigError
from tallyveil.explore.kinds import Kind
from tallyveil.explore.opened import OpenedRelease, open_for_explorer


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRelease:
    """The release that another one is compared with.

    Attributes:
        release: The release.
        kinds: The kinds of areas that both have: for the number of a kind in the first, its number in this one.
    """

    release: OpenedRelease
    kinds: Mapping[int, int]


def open_compared(release: OpenedRelease, root: Path) -> ComparedRelease:
    """Open the release that another one is compared with.

    The two may have different kinds of areas, such as a root that only one has. Kinds of one name are the same areas.

    Args:
        release: The one that is shown.
        root: Folder of the other.
    Raises:
        StoreError: the folder holds no finished release, or one that was changed.
        ConfigError: they have no kind of areas in common, or the areas of one kind or the answers of a table differ.
    """
    other = open_for_explorer(root, [group.name for group in release.queries])
    numbers = {kind.name: number for number, kind in enumerate(other.areas.kinds)}
    kinds = {
        number: numbers[kind.name] for number, kind in enumerate(release.areas.kinds) if kind.name in numbers
    }
    difference = _difference(release, other, kinds)
    if difference is not None:
        raise ConfigError(
            f"{root} cannot be compared with {release.root}: {difference}. Areas of one geolevel or family, and the "
            "answers of the tables, must be the same. Name a release of the same geography, and with --tables those "
            "queries that both have.",
            code="not-comparable",
        )
    return ComparedRelease(other, kinds)


def _difference(release: OpenedRelease, other: OpenedRelease, kinds: Mapping[int, int]) -> str | None:
    """The first thing in which two releases differ, in words; None if they can be compared."""
    if not kinds:
        first, second = (
            ", ".join(kind.name for kind in first_query.areas.kinds) for first_query in (release, other)
        )
        return f"it has areas of {second}, and the first has {first}"
    for number, its in kinds.items():
        difference = _areas_differ(release.areas.kinds[number], other.areas.kinds[its])
        if difference is not None:
            return difference
    for first_query, second_query in zip(release.queries, other.queries, strict=True):
        if first_query.labels() != second_query.labels():
            return f"its answers of '{first_query.name}' are others"
    return None


def _areas_differ(first: Kind, second: Kind) -> str | None:
    if first.codes.equals(second.codes):
        return None
    if first.codes.sort().equals(second.codes.sort()):
        return f"its areas of {first.name} stand in another order, because they lie in other areas"
    return f"its areas of {first.name} are others"

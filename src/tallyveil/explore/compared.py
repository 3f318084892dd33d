"""A second release of the same areas and tables, whose counts are shown beside those of the first."""

from pathlib import Path

from tallyveil.errors import ConfigError
from tallyveil.explore.opened import OpenedRelease, open_for_explorer


def open_compared(release: OpenedRelease, root: Path) -> OpenedRelease:
    """Open the release that another one is compared with.

    Args:
        release: The one that is shown.
        root: Folder of the other.
    Raises:
        StoreError: the folder holds no finished release, or one that was changed.
        ConfigError: its areas, or the answers of a table, are others.
    """
    other = open_for_explorer(root, [group.name for group in release.queries])
    difference = _difference(release, other)
    if difference is not None:
        raise ConfigError(
            f"{root} cannot be compared with {release.root}: {difference}. The areas and the answers of the tables "
            "must be the same. Name a release of the same geography, and with --tables those queries that both have.",
            code="not-comparable",
        )
    return other


def _difference(release: OpenedRelease, other: OpenedRelease) -> str | None:
    """The first thing in which two releases differ, in words; None if they can be compared."""
    names = [[kind.name for kind in one.areas.kinds] for one in (release, other)]
    if names[0] != names[1]:
        return f"it has {', '.join(names[1])}, and the first has {', '.join(names[0])}"
    for own, its in zip(release.areas.kinds, other.areas.kinds, strict=True):
        if own.n != its.n or not own.codes.equals(its.codes):
            return f"its areas of {own.name} are others"
    for one, two in zip(release.queries, other.queries, strict=True):
        if one.labels() != two.labels():
            return f"its answers of '{one.name}' are others"
    return None

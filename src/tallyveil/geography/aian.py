"""Splits a spine by a set of entities, such as all American Indian and Alaska Native areas."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.respine import DraftLevel, Reshaped, draft_level, respine
from tallyveil.geography.spine import Spine


def branch_spine(
    spine: Spine, inside: NDArray[np.bool_], geolevel: str, name: str, *, parts: str | None = None
) -> Reshaped:
    """Cut every geounit, from a geolevel down, into its part inside an area and its part outside.

    The area's part of a geounit of that geolevel then becomes a geounit of the spine. A geounit that is cut becomes
    two, with geocodes such as `44+AIAN` (inside) and `44-AIAN` (outside). A geounit entirely on one side keeps its
    geocode. The finest geounits are not cut.

    Args:
        spine: The spine to cut.
        inside: Whether each finest geounit is in the area; see `EntityFamily.inside`.
        geolevel: First geolevel to be cut, such as the state's. It must not be the finest.
        name: Name of the branch. It becomes part of the geocodes.
        parts: Name of a new geolevel for the parts of `geolevel`. The geolevel itself then remains whole above the
            parts, so that exactly published counts of it constrain the sum of the parts. With None, the parts replace
            the geolevel.

    Raises:
        GeographyError: the geolevel is unknown or the finest, the name is empty, the geolevel of parts exists already,
            the mask belongs to another spine, the area is the whole spine, or a new geocode exists already. An area
            without finest geounits cuts nothing, and is no error.
    Source: Cumings-Menon et al. 2023, figure 1.
    """
    top = spine.level_index(geolevel)
    n_finest = spine.n_geounits(spine.finest)
    if top == spine.finest:
        raise GeographyError(
            f"a branch is to start at {geolevel}, the finest geolevel, whose geounits cannot be divided. Name one of "
            f"{', '.join(spine.geolevels[:-1]) or 'the geolevels above it, of which there are none'}.",
            code="spine-step",
        )
    if not name:
        raise GeographyError(
            "a branch has no name, and its geocodes begin with that name. Give it one.", code="spine-step"
        )
    if inside.dtype != np.bool_ or inside.shape != (n_finest,):
        raise GeographyError(
            f"a branch is given by an array of shape {inside.shape} and type {inside.dtype}; wanted {n_finest} "
            "booleans, one for each finest geounit of the spine. Use an entity family that was read on this spine.",
            code="spine-step",
        )
    if bool(inside.all()):
        raise GeographyError(
            f"the area of branch {name} is the whole spine, so no geounit would be divided. Name the entities of the "
            "area; a family together with its remainder covers everything.",
            code="spine-step",
        )
    if parts is not None and parts in spine.geolevels:
        raise GeographyError(
            f"the parts of {geolevel} are to form geolevel {parts}, which the spine already has "
            f"({', '.join(spine.geolevels)}). Give them a new name.",
            code="spine-step",
        )
    # Only the geolevels above the finest can be cut; a finest geounit is on one side entirely.
    levels = [draft_level(spine, level) for level in range(spine.finest)]
    cut = [_cut(level, inside, name) for level in levels[top:]]
    # With `parts` None the geolevel keeps its name for its parts, and constraints on it bind sums of parts.
    if parts is None:
        return respine(spine, [*levels[:top], *cut])[0]
    renamed = DraftLevel(parts, cut[0].codes, cut[0].geounit_of)
    return respine(spine, [*levels[: top + 1], renamed, *cut[1:]])[0]


def _cut(level: DraftLevel, inside: NDArray[np.bool_], name: str) -> DraftLevel:
    n = len(level.codes)
    n_inside = np.bincount(level.geounit_of[inside], minlength=n)
    # Strictly between none and all: a geounit on one side keeps its geocode, and published tables still find it.
    is_cut = (n_inside > 0) & (n_inside < np.bincount(level.geounit_of, minlength=n))
    # The parts are numbered in the order of their geounits. A cut geounit has two parts, any other has one.
    first = np.concatenate([[0], np.cumsum(1 + is_cut)]).astype(np.int64)
    # The inside part comes first, so that its number is that of the geounit's first part.
    part_of: Integers = first[level.geounit_of] + (is_cut[level.geounit_of] & ~inside)
    source = np.repeat(np.arange(n, dtype=np.int64), 1 + is_cut)
    is_second = np.arange(len(source)) > first[source]
    ending = np.where(is_cut[source], np.where(is_second, f"-{name}", f"+{name}"), "")
    return DraftLevel(level.name, level.codes.gather(source) + pl.Series(ending), part_of)

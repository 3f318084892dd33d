"""The numbers of an answer from draws of the release (`tallyveil draws`), beside those from the measurements alone.

The statistic that is asked for is computed from each draw. What is shown is its mean and an interval that leaves an
equal share of the draws out on each side.

Draws have counts down to one geolevel, which is the one above the finest unless they are experimental. Areas of a
question are made of finest geounits, so every area must be made of whole geounits of the draws' geolevel. The counts of
such a geounit are then placed in its first finest geounit, which changes no sum.

Rules. Intervals from draws are given for counts, whose coverage was measured on real counts, and for shares, deviations
and quantiles, of which shares and quantiles of areas were measured on made-up states. Indices add up how the shares of
many areas differ, and with them the small errors that the model makes in all areas alike: of 30 indices of the counties
of Rhode Island, intervals of 95 % held 17. So indices are refused. Draws of single finest geounits follow mostly from
how the model says that they resemble each other. From experimental draws, every number but the number of people is
refused for an area that is only a part of a geounit of the geolevel above.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.geography.entities import EntityFamily
from tallyveil.postprocess.derived.asking import Asking, family_of
from tallyveil.postprocess.derived.numbers import SHARE_DECIMALS, Columns, labelled
from tallyveil.postprocess.derived.plain import plain_numbers
from tallyveil.postprocess.derived.question import refused
from tallyveil.postprocess.draws.job import DrawsDescription, read_description, read_draws, require_draws
from tallyveil.postprocess.draws.model import on_given_geography
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.schema.counts import PublicCounts, TripletSum


@dataclass(frozen=True, slots=True)
class OpenedDraws:
    """Draws of a release that answer questions.

    Attributes:
        path: Their folder.
        release: The release.
        description: What they say of themselves.
    """

    path: Path
    release: FinishedRelease
    description: DrawsDescription

    @classmethod
    def of(cls, path: Path, release: FinishedRelease, level: float) -> "OpenedDraws":
        """Open draws; raises StoreError if they are of another release, ConfigError if too few for a level."""
        release = on_given_geography(release)
        description = read_description(path, release)
        require_draws(description.number, level)
        return cls(path, release, description)

    @property
    def statement(self) -> str:
        """What the draws are, and how well their model fits."""
        return f"{self.description.statement} {self.description.misfit}"

    def columns(self, asked: Asking, divisors: Floats | None, level: float) -> Columns:
        """The columns `drawn`, `drawn_lower` and `drawn_upper`.

        Args:
            asked: The question.
            divisors: A public number for each area, by which its counts are divided; None for none.
            level: Share of the draws in each interval.
        Raises:
            ConfigError: draws say nothing of such an area, or nothing that may be believed.
            StoreError: a file is missing or was changed.
        """
        self._refuse(asked)
        numbers = np.stack([_numbers(asked, counts, divisors) for counts in self._counts(asked)])
        # A share of nobody in some draws has no law.
        known = np.isfinite(numbers).all(axis=0)
        numbers = np.where(known, numbers, 0.0)
        tail = (1.0 - level) / 2.0
        low = np.where(known, np.quantile(numbers, tail, axis=0, method="lower"), np.nan)
        high = np.where(known, np.quantile(numbers, 1.0 - tail, axis=0, method="higher"), np.nan)
        measure = asked.question.measure
        if measure is not None and measure.is_quantile:
            labels = asked.axes[asked.measured].labels
            middle = np.where(known, np.quantile(numbers, 0.5, axis=0, method="lower"), np.nan)
            parts = (labelled(part, labels) for part in (middle, low, high))
        else:
            mean = np.where(known, numbers.mean(axis=0), np.nan)
            parts = (pl.Series(part).fill_nan(None).round(SHARE_DECIMALS) for part in (mean, low, high))
        return dict(zip(("drawn", "drawn_lower", "drawn_upper"), parts, strict=True))

    def _counts(self, asked: Asking) -> Iterator[PublicCounts]:
        """The counts of every draw, each in the first finest geounit of its own."""
        _, first = np.unique(self._units(self.description.geolevel), return_index=True)
        for draw in read_draws(self.path, self.release, self.description):
            placed = TripletSum(asked.family.n_finest, self.release.schema.size)
            units, cells, counts = draw.rows(0, draw.n_geounits)
            placed.add(first[units], cells, counts)
            yield PublicCounts(self.release.spine.geolevels[-1], *placed.finish())

    def _units(self, geolevel: str) -> Integers:
        """The geounit of a geolevel of the geography that each finest geounit of the spine lies in."""
        hierarchies = self.release.hierarchies
        return hierarchies.original_ancestors(hierarchies.original.geolevels.index(geolevel))

    def _refuse(self, asked: Asking) -> None:
        """Refuse what draws do not say; raises ConfigError."""
        geolevels = self.release.hierarchies.original.geolevels
        above, finest = geolevels[-2:]
        families = [(asked.family, "an area of the question")]
        if asked.minus is not None:
            families.append((family_of([asked.minus], asked.family.n_finest), "an area that is subtracted"))
        measure = asked.question.measure
        if measure is not None and not measure.is_quantile:
            raise refused(
                f"{measure.kind} is asked for from draws. Intervals of indices from draws were too narrow where they "
                "were compared with real counts. Ask without draws, or take the values of all draws and judge them."
            )
        units, experimental = self._units(above), self.description.geolevel == finest
        is_people = measure is None and asked.base.size == 1
        for family, what in families:
            cut, inside = _cuts(family, units)
            if cut and not experimental:
                raise refused(
                    f"{what} has a part of a geounit of {above}, and the draws in {self.path} have counts of whole "
                    f"ones. Ask for areas that are made of whole geounits of {above}."
                )
            if inside and not is_people:
                raise refused(
                    f"{what} is only a part of a geounit of {above}. Draws say too little of so few {finest}: rare "
                    "groups in them would be wrong without a sign of it. Ask for the number of people alone, for "
                    "larger areas, or without draws."
                )


def _numbers(asked: Asking, counts: PublicCounts, divisors: Floats | None) -> Floats:
    plain = plain_numbers(replace(asked, counts=counts), divisors)
    assert plain is not None
    return plain.number


def _cuts(family: EntityFamily, units: Integers) -> tuple[bool, bool]:
    """Whether some entity has a part of a unit, and whether some entity is nothing but a part of one."""
    sizes, cut, inside = np.bincount(units), False, False
    for number in range(family.n_entities):
        held, times = np.unique(units[family.members_of(number)], return_counts=True)
        if bool((times != sizes[held]).any()):
            cut, inside = True, inside or len(held) == 1
    return cut, inside

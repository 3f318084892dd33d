"""Finished folders that keep noisy measurements, which answer questions with published counts or without."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.api.areas import (
    Area,
    Count,
    DistrictPlan,
    Geocodes,
    answer_named,
    area_of,
    counts_by_name,
    districts_by_name,
    series_of_geocodes,
)
from tallyveil.api.arguments import (
    AnyPath,
    Flag,
    Name,
    Names,
    Number,
    Text,
    Workers,
    as_path,
    checked,
)
from tallyveil.api.opened import Opened
from tallyveil.api.stated import StatedGuarantee
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.manifest_files import written_manifest
from tallyveil.postprocess.derived.question import LIMIT
from tallyveil.storage.system import usable_cores
from tallyveil.storage.write import refuse_unfinished_folder

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.geography.areas import Hierarchies
    from tallyveil.postprocess.derived.answer import Answer
    from tallyveil.postprocess.derived.district import District
    from tallyveil.postprocess.derived.quantities import Quantities
    from tallyveil.postprocess.derived.question import Levels
    from tallyveil.postprocess.intervals.check import Check
    from tallyveil.postprocess.intervals.residuals import QueryResiduals


def check_in(folder: Path, workers: int | None = None) -> "Check":
    """The check of a folder: as `WithMeasurements.residuals`, with its constraints and what was not checked."""
    from tallyveil.postprocess.intervals.check import check_of
    from tallyveil.postprocess.measured import open_measurements

    return check_of(open_measurements(folder), workers or usable_cores())


class WithMeasurements(Opened):
    """A finished folder that states an exact guarantee and may keep noisy measurements."""

    @property
    def guarantee(self) -> StatedGuarantee:
        """What the release or the measurements promise to every person. An estimate costs nothing more."""
        return StatedGuarantee(self.privacy, self.warnings)

    @checked
    def measurements(self, geolevel: Name, query: Name) -> "pl.DataFrame":
        """The noisy answers of a query: the true count plus noise of known variance, possibly negative.

        Args:
            geolevel: A geolevel of the spine that was measured.
            query: A query that was measured there.
        Returns:
            `geocode`; one column for each attribute in the query, with the labels of its groups; `value`, the noisy
            count; `variance` of its noise, in squared counts. A geounit without a share of the budget has no rows. With
            `measurements = "support"`, only answers on the support of the parent's published counts have rows.
            With `measurements = "small"`, large queries have none.
        Raises:
            ConfigError: the query was not measured at this geolevel.
            StoreError: the folder keeps no measurements, or they are damaged.
        """
        from tallyveil.postprocess.exchange.exported import noisy_answers

        return noisy_answers(self.path, self.manifest, geolevel, query)

    @checked
    def residuals(self, *, workers: Workers | None = None) -> "list[QueryResiduals]":
        """How the noisy answers of every query lie around the joint estimate of all measurements.

        Their squares should be about as large as the stated variances say. Where they are not, something is not as
        stated: geocodes, the order of cells, exact counts or variances. So this checks measurements of others.

        Args:
            workers: Number of threads; all cores by default. The numbers do not depend on it.
        Returns:
            One entry for each geolevel and query; `is_as_stated` says whether it is within the limits of chance. With
            more than 65,536 cells, a query of more than 1,024 answers has an entry for each of its attributes, to which
            its answers are summed. A query has none if nothing else says anything of it, or if the covariances of such
            a schema would not fit into memory.
        Raises:
            ConfigError: the noise is not Gaussian.
            SchemaError: the covariances of all cells would not fit into memory.
            StoreError: not all measurements are in the folder, or they are damaged.
        Privacy: computed from noisy measurements; spends nothing.
        """
        from tallyveil.postprocess.intervals.residuals import checked_model, residuals_of
        from tallyveil.postprocess.measured import open_measurements

        measured = open_measurements(self.path)
        return residuals_of(measured, checked_model(measured), workers or usable_cores())[0]

    @checked
    def ask(
        self,
        question: Text | None = None,
        *,
        by: Names = (),
        where: "Mapping[str, Levels] | None" = None,
        areas: "Sequence[str] | Mapping[str, Sequence[str]] | DistrictPlan | None" = None,
        minus: Names = (),
        share_of: Names | None = None,
        deviation: Flag = False,
        measure: Text | None = None,
        across: Name | None = None,
        per: "Mapping[str, float] | None" = None,
        threshold: Number | None = None,
        draws: AnyPath | None = None,
        level: Number = 0.95,
        limit: Number = LIMIT,
        workers: Workers | None = None,
    ) -> "Answer":
        """Answer a question about any counts, in words or as arguments.

        Args:
            question: Such as "sex by age5 by Town where citizenship = foreign" (docs/ask.md); None if the
                arguments that follow give it.
            by: Attributes, recodes, and at most one geolevel or family of entities, which make the rows.
            where: Levels of attributes, or groups of recodes, that are counted: one, a list, or a slice from one to
                another.
            areas: Areas to which rows are restricted; without a geolevel in `by`, their union, or unions by name, or
                the districts of a plan. Districts go with a question in words, too.
            minus: Areas whose counts are subtracted from every row.
            share_of: Attributes and recodes that the denominator keeps, with their conditions; None for counts.
            deviation: Whether each count is compared with the mean of all areas: divided by it, less 1.
            measure: "median", "quantile 0.9" or another number, "entropy", "dissimilarity", "gini" or "theil": what is
                asked of the first of `by`.
            across: Geolevel whose areas an index compares.
            per: A public number for each area, by which its counts are divided.
            threshold: A count, a share, or a deviation without its sign, to which every row is held.
            draws: Folder with draws of this release (`make_draws`), from which each number is computed, too. They
                assume a model of blocks, which `Answer.of_draws` states.
            level: Coverage of every interval.
            limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
            workers: Number of threads; None for one per core.
        Returns:
            The answer: a table with the estimate, standard error and interval of every row, and with the published
            count unless these are measurements alone.
        Raises:
            ConfigError: the question names something that the release does not have, or has no answer.
            GeographyError: an area does not exist.
            StoreError: the release lacks measurements, or a file was changed.
        Privacy: post-processing. It reads published files alone, spends nothing and writes nothing.
        """
        from tallyveil.postprocess.derived.ask import Terms, answer_question
        from tallyveil.postprocess.derived.question import question_of, read_question, refused

        self._read_again()
        districts = districts_by_name(areas, self) if isinstance(areas, DistrictPlan) else None
        named = None if isinstance(areas, DistrictPlan) else areas
        if question is None:
            understood = question_of(
                by, where, named, minus, share_of, is_deviation=deviation, measure=measure, across=across
            )
        elif by or where or named or minus or share_of is not None or deviation or measure or across:
            raise refused("the question is given as a text and by arguments. Give one of them.")
        else:
            understood = read_question(question)
        terms = Terms(level, limit, threshold, None if draws is None else Path(draws), workers)
        return answer_question(self.path, understood, districts=districts, per=per, terms=terms)

    @checked
    def area(self, code: str, geolevel: Name | None = None) -> Area:
        """A geounit or an entity, whose counts can be estimated and compared.

        Args:
            code: Geocode of a geounit, name of an entity, or else a name in the release's table of names.
            geolevel: Its geolevel, or its family of entities; None if only one of these has the code or name.
        Returns:
            The area.
        Raises:
            GeographyError: nothing has this code or name, or several areas have it.
        """
        from tallyveil.postprocess.derived.district import finest_geocodes

        # As a set of finest geounits, so that geounits, entities and districts are estimated in one way.
        return Area(self, finest_geocodes(self._hierarchies, code, geolevel))

    def district(self, geocodes: Geocodes | Path) -> Area:
        """Any set of finest geounits, whose counts can be estimated.

        Args:
            geocodes: Geocodes of the finest geounits, each once; or the Path of a file of them.
        Returns:
            The area.
        Raises:
            GeographyError: there are no geocodes, or they are not text, unknown or given twice.
            ConfigError, StoreError: the file cannot be read, or is a districting plan, which `districts` reads.
        """
        from tallyveil.postprocess.derived.district import area_family

        if isinstance(geocodes, Path):
            from tallyveil.geography.tables import read_districts

            read = read_districts(as_path(geocodes, "geocodes"), None, "districts(..., column=NAME)")
            geocodes = read.only("district")
        codes = series_of_geocodes(geocodes)
        # Only built and thrown away: what could not be estimated is refused here and not at the first use.
        area_family(self._hierarchies.spine, {"the district": codes})
        return Area(self, codes)

    @checked
    def districts(self, plan: AnyPath, column: Name | None = None) -> DistrictPlan:
        """All districts of a plan: a file that says the district of each finest geounit.

        Args:
            plan: A block assignment file, or another file with a column geocode, BLOCKID, GEOID or GEOID20.
            column: Column of the districts; None for the only other column whose values differ.
        Returns:
            The districts, and the finest geounits that are in none.
        Raises:
            ConfigError: there is no such column, or it is not clear which column names the districts.
            GeographyError: a finest geounit is listed twice, or none has a district.
            StoreError: the file is missing or unreadable.
        """
        from tallyveil.geography.tables import read_districts

        read = read_districts(Path(plan), column, "column=NAME")
        if read.column is None:
            raise ConfigError(
                f"{read.path} names no districts: it lists the finest geounits of one. Give "
                "release.district(Path(...)), or a file with a column of districts.",
                code="district-plan",
            )
        return DistrictPlan(
            self, read.column, {name: Area(self, part) for name, part in read.geocodes.items()}
        )

    @checked
    def quantities(
        self,
        counts: Mapping[str, Count],
        *,
        level: Number = 0.95,
        with_bounds: bool = True,
        workers: Workers | None = None,
    ) -> "Quantities":
        """Chosen counts together, with the exact covariances of their estimates.

        Sums, differences, shares, ratios, tests of equality and the probability that one is greater than another follow
        from them. Covariances follow from the plan. Estimates of a release are sums of those in `intervals/`, which
        `add_intervals` makes; those of measurements alone, and of a release with a model for each table, are made of
        the noisy answers.

        Args:
            counts: The counts that `Area.count` gives, by names of your choice.
            level: Coverage of every interval.
            with_bounds: Whether the zeros of the release's public bounds are used.
            workers: Number of threads; None for one per core.
        Returns:
            The counts, and methods for what follows from them.
        Raises:
            ConfigError: no counts are given, or counts of another release, or the level is out of range, or the counts
                tell too many cells apart for one model.
            SchemaError: there is no such query or label, or covariances would not fit into memory.
            StoreError: noisy answers are needed, and are not in the folder or damaged.
        """
        from tallyveil.postprocess.derived.quantities import ChosenCount, quantities_of

        # What is computed below must be of the release that was opened.
        self._read_again()
        chosen = []
        for name, count in counts_by_name(counts).items():
            geocodes = area_of(count.area, self).geocodes
            chosen.append(ChosenCount(name, geocodes, *answer_named(self, count.query, count.labels)))
        return quantities_of(
            self.path,
            chosen,
            level=level,
            with_bounds=with_bounds,
            workers=workers,
        )

    def difference(
        self,
        first: Area | Geocodes,
        second: Area | Geocodes | None = None,
        *,
        queries: Sequence[str] | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
        with_bounds: bool = True,
        workers: int | None = None,
    ) -> "District":
        """Counts of the first area minus those of the second, with their exact standard errors.

        Args:
            first, second: Areas, or geocodes of their finest geounits. Both must be given.
            queries, level, simultaneous, with_bounds, workers: As for `Area.estimate`.
        Returns:
            The differences; `to_frame()` makes a table of them.
        Raises:
            GeographyError: a geocode is unknown or given twice.
            ConfigError: an area is missing, is of another release, or is a release; else as `Area.estimate`.
        """
        area = area_of(first, self)
        if second is None:  # somebody may think of a release as the other side of a difference
            raise ConfigError(
                "difference has one area, wanted two of this release: release.difference(first, second). Give the area "
                "to subtract, too.",
                code="bad-argument",
            )
        return area.estimate(
            queries,
            minus=second,
            level=level,
            simultaneous=simultaneous,
            with_bounds=with_bounds,
            workers=workers,
        )

    @cached_property
    def _hierarchies(self) -> "Hierarchies":
        from tallyveil.files.geography import read_hierarchies

        return read_hierarchies(self.path)

    def _read_again(self) -> None:
        """Read the manifest again, because the folder may be gone.

        Raises:
            StoreError: it is gone or is being written, or it holds something else than what was opened.
        """
        # First, whether the folder is complete: its old manifest may still be there while files change.
        refuse_unfinished_folder(self.path)
        manifest = written_manifest(self.path, self.manifest.kind)
        # A folder can be filled anew under the same name; mixing two releases would be silent.
        if manifest.run != self.manifest.run:
            raise StoreError(
                f"{self.path} holds run {manifest.run}, but run {self.manifest.run} was opened. Open the folder again.",
                code="release-damaged",
            )
        self.manifest = manifest


class Measurements(WithMeasurements):
    """The noisy measurements of a release, without its counts; made by `measure`."""

    @property
    def _instead(self) -> str:
        return "ask() answers questions. Make a release of it with tallyveil.estimate, which spends nothing."

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
    Progress,
    Text,
    Workers,
    as_path,
    checked,
    fixed,
)
from tallyveil.api.clusters import Cluster
from tallyveil.api.opened import Opened
from tallyveil.api.stated import StatedGuarantee
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import MAIN_PRODUCT, written_manifest
from tallyveil.postprocess.derived.question import LIMIT
from tallyveil.storage.system import usable_cores
from tallyveil.storage.write import refuse_unfinished_folder

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.explore.site import ExplorerSite
    from tallyveil.geography.areas import Hierarchies
    from tallyveil.postprocess.derived.answer import Answer
    from tallyveil.postprocess.derived.district import District
    from tallyveil.postprocess.derived.quantities import Quantities
    from tallyveil.postprocess.derived.question import Levels
    from tallyveil.postprocess.intervals.check import Check
    from tallyveil.postprocess.intervals.job import IntervalsOutcome
    from tallyveil.postprocess.intervals.residuals import QueryResiduals
    from tallyveil.runs.executors import Where
    from tallyveil.runs.observer import Observer


def check_in(folder: Path, workers: int | None = None) -> "Check":
    """The check of a folder: as `WithMeasurements.residuals`, with its constraints and what was not checked."""
    from tallyveil.postprocess.intervals.check import check_of
    from tallyveil.postprocess.measured import open_measurements

    return check_of(open_measurements(folder), workers or usable_cores())


@checked
def add_intervals(
    release: AnyPath,
    *,
    queries: Names | None = None,
    entities: AnyPath | None = None,
    families: Names | None = None,
    level: Number = 0.95,
    simultaneous: Flag = False,
    with_bounds: bool = True,
    in_tables: bool = True,
    workers: Workers | None = None,
    cluster: Cluster = None,
    observer: Progress | None = None,
) -> "IntervalsOutcome":
    """Write `intervals/` into the folder of a release, add columns to its tables, and write its page again.

    A folder of measurements has no tables, and gets estimates without counts. Its page says nothing of them.

    Args:
        release: Folder of a finished release, with all its measurements; or of measurements.
        queries: Queries, measured or not; None for those of the release's tables.
        entities: Public table with a column `geocode` of finest geocodes and a column for each family of entities.
        families: Columns of `entities` to read; None for every other text column.
        level: Coverage of each interval.
        simultaneous: Whether all intervals of a table together have that coverage.
        with_bounds: Whether the zeros of the release's public bounds are used.
        in_tables: Whether the tables of the release get the same columns.
        workers: Number of threads; None for one per core.
        cluster: As for `run`; None for threads of this machine.
        observer: Is told of progress.
    Raises:
        ConfigError: queries or families are no lists of names, families are named without a table of entities, or the
            level or the number of threads is out of range.
        StoreError: the release is not finished, does not hold all its measurements, or cannot be written to.
        SchemaError, GeographyError, ConstraintError: queries, entities or zeros do not fit the release.
    Privacy: post-processing. It reads published files alone and spends nothing.
    """
    from tallyveil.postprocess.intervals.areas import read_entity_table
    from tallyveil.postprocess.intervals.job import make_intervals
    from tallyveil.products.topdown.page.release import write_report
    from tallyveil.runs.executors import executors_of
    from tallyveil.storage.write import is_unfinished

    folder = Path(release)
    if families is not None and entities is None:
        raise ConfigError(
            "families names columns of a table of entities, which is not given. Give entities as well.",
            code="bad-argument",
        )
    table = None if entities is None else read_entity_table(Path(entities), families)
    alone = written_manifest(folder, *MAIN_PRODUCT).kind is ReleaseKind.MEASUREMENTS
    # If the report cannot be made, this fails before anything else is written into the release.
    if not alone and not is_unfinished(folder):
        write_report(folder)
    outcome = make_intervals(
        folder,
        tables=queries,
        entities=table,
        families=families,
        level=level,
        simultaneous=simultaneous,
        with_bounds=with_bounds,
        in_tables=in_tables,
        observer=observer,
        workers=workers,
        executors=executors_of(cluster, None, workers, observer),
        # None means threads of this machine; an executor is made only for a cluster.
    )
    # Again, because the page tells of intervals now.
    if not alone:
        write_report(folder)
    return outcome


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
        groups: "Mapping[str, Mapping[str, Levels]] | None" = None,
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
            groups: New groups of levels of attributes or recodes in `by`: for each name, a mapping from labels to
                levels, given as in `where`. No level may be in two groups; levels in no group are not counted.
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
                by,
                where,
                named,
                minus,
                share_of,
                is_deviation=deviation,
                measure=measure,
                across=across,
                groups=groups,
            )
        elif any((by, where, named, minus, share_of is not None, deviation, measure, across, groups)):
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

    def add_intervals(
        self,
        queries: Sequence[str] | None = None,
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        entities: str | Path | None = None,
        families: Sequence[str] | None = None,
        workers: int | None = None,
        cluster: "Where" = None,
        observer: "Observer | None" = None,
    ) -> None:
        """Put an unbiased estimate, its standard error and an interval beside every published count.

        Of measurements, which have no counts, these stand alone.

        Args:
            queries: Queries; None for those of the release's tables.
            level: Coverage of each interval.
            simultaneous: Whether all intervals of a table together have that coverage.
            entities: Public table with a column `geocode` of finest geocodes and a column for each family of entities.
            families: Columns of `entities` to read; None for every other text column.
            workers: Number of threads, or of worker processes; None for one per core.
            cluster: As for `run`; None for threads of this machine.
            observer: Is told of progress.
        Raises:
            TallyveilError: as `add_intervals`.
        Privacy: post-processing. It reads published files alone and spends nothing.
        """
        # By the function that the command uses, so that both write the same files.
        add_intervals(
            self.path,
            queries=queries,
            level=level,
            simultaneous=simultaneous,
            entities=entities,
            families=families,
            workers=workers,
            cluster=cluster,
            observer=observer,
        )
        self._read_again()

    @checked
    def explore(
        self,
        out: AnyPath,
        *,
        queries: Names | None = None,
        compared_with: "WithMeasurements | str | Path | None" = None,
    ) -> "ExplorerSite":
        """Make a site of this release, to look at in a browser: its areas, tables and intervals.

        A site of measurements has the estimates that `add_intervals` made, and no counts.

        Args:
            out: Folder of the site: new, empty, or with an earlier site, which is replaced.
            queries: Queries; None for those of the release's tables and of its intervals.
            compared_with: A second release of the same geography, or its folder. Its counts are shown beside these, for
                the geolevels and families that both have.
        Returns:
            Where the site is, and how large.
        Raises:
            StoreError: a file of the release was changed, or `out` holds something else.
            ConfigError: the release has no such table, or the second release has other areas of a geolevel, or other
                tables.
        Privacy: post-processing. It reads published files alone and spends nothing.
        """
        from tallyveil.explore.site import make_site

        other = compared_with.path if isinstance(compared_with, WithMeasurements) else compared_with
        return make_site(
            self.path,
            fixed(out),
            tables=queries,
            compared=None if other is None else as_path(other, "compared_with"),
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
        return (
            "ask() answers questions, and add_intervals() estimates tables. Make a release of it with "
            "tallyveil.estimate, which spends nothing."
        )

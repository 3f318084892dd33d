"""The tables of a release of counts as data cubes: a cube for each geolevel, or family of entities, and each query."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.files.cubes.cube import (
    COUNT,
    ESTIMATE,
    LOWER,
    PLACE,
    STANDARD_ERROR,
    UPPER,
    Cube,
    Dimension,
    Measure,
    Texts,
    status_of,
)
from tallyveil.files.cubes.publication import Published
from tallyveil.files.cubes.words import titled, word
from tallyveil.files.finished import PLAN
from tallyveil.files.geography import GEOGRAPHY, NAMES, read_hierarchies
from tallyveil.files.intervals import refuse_earlier_tables
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.files.tables import TABLES
from tallyveil.files.whole_tables import whole_table
from tallyveil.geography.areas import Hierarchies, names_in
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.release import StatedPlan
from tallyveil.report.stated import stated_in
from tallyveil.schema.labels import Labels
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import published_tags
from tallyveil.words.language import language_of

GEOCODE: Final = "geocode"
_INTERVALS: Final = (COUNT, ESTIMATE, STANDARD_ERROR, LOWER, UPPER)


def cubes_of_release(root: Path, manifest: Manifest) -> Published:
    """The tables of a finished release.

    Args:
        root: Its folder.
        manifest: Content of its `manifest.json`.
    Raises:
        StoreError: a file is missing or was changed, or an earlier version wrote the tables.
    """
    refuse_earlier_tables(root, "Read them as they are")
    plan = stated_plan(root / PLAN, manifest.body["plan"])
    for name in (GEOGRAPHY, NAMES):
        if name in manifest.digests:
            require_unchanged(root, manifest, root / name)
    release = LabelledRelease.of(root, manifest, plan, read_hierarchies(root))
    parts: dict[Path, Path] = {}
    for file in manifest.files:
        if file.path.startswith(f"{TABLES}/"):
            # The first part of each table says what all of them are of.
            parts.setdefault((root / file.path).parent, root / file.path)
    return Published(
        release.title(),
        tuple(sorted((release.cube(part) for part in parts.values()), key=release.order)),
        licence=plan.licence,
        citation=plan.citation,
    )


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRelease:
    """A release whose tables become cubes.

    Attributes:
        root: Its folder.
        manifest: Content of its `manifest.json`.
        plan: Its plan.
        hierarchies: Its areas.
        languages: Those of its labels, or English.
    """

    root: Path
    manifest: Manifest
    plan: StatedPlan
    hierarchies: Hierarchies
    languages: tuple[str, ...]

    @classmethod
    def of(
        cls, root: Path, manifest: Manifest, plan: StatedPlan, hierarchies: Hierarchies
    ) -> "LabelledRelease":
        """A release in all languages that it has labels in."""
        return cls(root, manifest, plan, hierarchies, plan.languages or ("en",))

    def title(self) -> Texts:
        """What the release is called."""
        return self.texts(lambda _, labels: labels.title or self.plan.name)

    @property
    def labels(self) -> dict[str, Labels]:
        """The labels in each language; a release without labels has names in one."""
        return {
            language: self.plan.labels_in(language if self.plan.languages else None)
            for language in self.languages
        }

    def texts(self, text: Callable[[str, Labels], str]) -> Texts:
        """A text in each language."""
        return {language: text(language, labels) for language, labels in self.labels.items()}

    def order(self, cube: Cube) -> tuple[int, int]:
        """The place of a table among all: large areas first, and queries as the release file lists them."""
        return len(cube.dimensions[0].codes), self.plan.tables.index(cube.table)

    def cube(self, part: Path) -> Cube:
        """The table whose first file is given."""
        require_unchanged(self.root, self.manifest, part)
        tags = published_tags(part)
        area, group = tags["tallyveil.geolevel"], self.plan.query(tags["tallyveil.query"])
        # A table may have the columns of intervals without any, where only other tables have intervals.
        measures = _INTERVALS if "tallyveil.level" in tags else (COUNT,)
        dimensions = (
            self.areas(area, self.hierarchies.codes_of(area)),
            *(
                self.levels(factor.name, pl.Series(factor.labels, dtype=pl.String))
                for factor in group.factors
                if factor.name
            ),
        )
        codes = dimensions[0].codes
        return Cube(
            geolevel=area,
            table=group.name,
            key=(area, *group.factor_names),
            titles=self.texts(partial(self._title, area, group, dimensions)),
            unit=self.plan.schema.unit.many,
            units=self.texts(self.units),
            notes={language: self._notes(language, tags, labels) for language, labels in self.labels.items()},
            dimensions=dimensions,
            measures=measures,
            n_rows=len(codes) * group.size,
            read=partial(self._read, area, group, codes, measures),
        )

    def areas(self, area: str | None, codes: pl.Series) -> Dimension:
        """Areas of a geolevel or family, by their codes; None for unions of areas, which have no other names."""
        names = self.hierarchies.names
        labels = dict.fromkeys(self.languages, codes)
        if names is not None and area is not None:
            for language in self.languages:
                here = names_in(names, language).filter(pl.col("geolevel") == area).select(GEOCODE, "name")
                joined = pl.DataFrame([codes.alias(GEOCODE)]).join(
                    here, on=GEOCODE, how="left", maintain_order="left"
                )
                # An area without a name is shown by its code.
                labels[language] = joined.select(pl.coalesce("name", GEOCODE)).to_series()
        return Dimension(
            GEOCODE,
            area or GEOCODE,
            codes,
            self.texts(
                lambda language, given: word(language, "area") if area is None else given.geolevel(area).one
            ),
            labels,
            "geo",
        )

    def levels(self, name: str, codes: pl.Series) -> Dimension:
        """Levels of an attribute, or groups of a recode."""
        return Dimension(
            name,
            name,
            codes,
            self.texts(lambda _, given: given.attribute(name)),
            {
                language: pl.Series([given.level(name, level) for level in codes], dtype=pl.String)
                for language, given in self.labels.items()
            },
        )

    def units(self, _: str, labels: Labels) -> str:
        """What is counted, in the plural."""
        return self.plan.schema.unit.many if labels.unit is None else labels.unit.other

    def _title(
        self, area: str, group: QueryGroup, dimensions: Sequence[Dimension], language: str, labels: Labels
    ) -> str:
        title = labels.table(group.name)
        if title is not None:
            return word(language, "of", title=title, geolevel=labels.geolevel(area).one)
        names = [dimension.titles[language] for dimension in dimensions]
        return titled(language, self.units(language, labels), names)

    def _notes(self, language: str, tags: Mapping[str, str], labels: Labels) -> tuple[str, ...]:
        sentences = [
            word(language, "noise", units=self.units(language, labels)),
            word(language, "consistent"),
        ]
        if "tallyveil.level" in tags:
            sentences.append(word(language, "estimates"))
            sentences.append(stated_in(language_of(language), tags["tallyveil.covers"]))
        else:
            sentences.append(word(language, "no intervals"))
        return tuple(sentences)

    def _read(
        self, area: str, group: QueryGroup, codes: pl.Series, measures: Sequence[Measure]
    ) -> Iterator[pl.DataFrame]:
        is_exact = any(
            group.name == invariant.query and area in invariant.geolevels
            for invariant in self.plan.invariants
        )
        begin = 0
        for frame in whole_table(self.root, self.manifest, area, group):
            places = pl.int_range(begin, begin + frame.height, dtype=pl.Int64, eager=True).alias(PLACE)
            begin += frame.height
            # Whole tables have all answers of one area after those of another, in the order of the areas.
            if begin > len(codes) * group.size or not codes.gather(places // group.size).equals(
                frame[GEOCODE], check_names=False
            ):
                raise StoreError(
                    f"the table of {group.name!r} for {area!r} in {self.root} does not have its areas in order. "
                    "Restore its files from a copy of the release.",
                    code="release-damaged",
                )
            measured = [measure.name for measure in _INTERVALS if measure.name in frame.columns]
            error = (
                pl.col(STANDARD_ERROR.name) if STANDARD_ERROR.name in measured else pl.lit(None, pl.Float64)
            )
            status = status_of(error, is_exact=is_exact)
            yield frame.select(places, *measured, status)

"""The published files of one release, read for its report: titles of its queries, and errors to expect.

Queries are called by words, and not by the names of variables.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration, LedgerEntry
from tallyveil.budget.strategy import ExpectedError, Strategy, expected_errors
from tallyveil.files.finished import PLAN
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_plan
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.plans.release import StatedPlan
from tallyveil.report.page import anchor_suffix
from tallyveil.report.wording import name_title, percent, rounded, signed
from tallyveil.schema.labels import NO_LABELS, Forms, Labels
from tallyveil.schema.presets import titles_of
from tallyveil.schema.schema import Schema, Unit
from tallyveil.words.language import ENGLISH, Language, language_of, phrase
from tallyveil.words.listing import listed


@dataclass(frozen=True, slots=True)
class Titles:
    """How a release and its parts are called in a language; titles of queries are all different.

    Attributes:
        unit: What a record stands for.
        factors: Titles of attributes and recodes by name.
        labels: What else has a label.
        language: In which everything is said.
        suffix: What follows the ids of places on a page, which may have several languages.
    """

    unit: Unit
    factors: Mapping[str, str]
    labels: Labels = NO_LABELS
    language: Language = ENGLISH
    suffix: str = ""

    def say(self, sentence: str, /, **values: Any) -> str:
        """A sentence of the code in the language, as `Language.say`."""
        return self.language.say(sentence, **values)

    def listed(self, items: list[str]) -> str:
        """The items in a sentence."""
        return listed(items, self.language)

    def factor(self, name: str) -> str:
        """The title of an attribute or a recode."""
        return self.factors.get(name, name_title(name))

    def geolevel(self, name: str) -> str:
        """What an area of a geolevel or of a family of entities is called."""
        forms = dict(self.labels.geolevels).get(name)
        return name_title(name) if forms is None else forms.one

    def query(self, query: str) -> str:
        """The title of a query: `total` becomes "all people", and `age*cenrace` becomes "age × race"."""
        if (title := self.labels.table(query)) is not None:
            return title
        if query == "total":
            return self.say("all {units}", units=self.unit.many)
        if query == "detailed":
            return self.say("every combination")
        return " × ".join(self.factor(name.strip()) for name in query.split("*"))

    def counts_of(self, query: str) -> str:
        """What the counts of a query are, in a sentence: "the number of people", or "the counts by age × race"."""
        if query == "total":
            return self.say("the number of {units}", units=self.unit.many)
        return self.say("the count of one answer to “{query}”", query=self.query(query))

    def anchor(self, name: str) -> str:
        """The id of a place on the page."""
        return f"{name}{self.suffix}"


def schema_titles(schema: Schema, labels: Labels = NO_LABELS, language: Language = ENGLISH) -> Titles:
    """The titles of a schema. Where two would be the same, both are the names themselves."""
    known = titles_of(schema) | dict(labels.attributes)
    titles = {name: known.get(name, name_title(name)) for name in schema.factor_names}
    # Two factors with one title could not be told apart, so both keep their names.
    often = Counter(titles.values())
    factors = {name: title if often[title] == 1 else name for name, title in titles.items()}
    # The usual unit has words of its own in the languages that come with the product.
    forms = labels.unit or Forms(language.say(schema.unit.one), language.say(schema.unit.many))
    return Titles(Unit(forms.one, forms.other), factors, labels, language)


COMMON_UNITS: Final = tuple(map(phrase, ("person", "people", "household", "households")))
"""Words of units that are translated where a release has no label of its unit."""


@dataclass(frozen=True, slots=True)
class ReleaseFiles:
    """The files of a finished release that its report needs.

    Attributes:
        root: Release folder.
        manifest: Content of `manifest.json`.
        plan: What `plan.json` states.
        declaration: The budget that the ledger declares.
        entries: All later entries of the ledger.
        titles: How it and its parts are called.
        tag: The language of its labels in which it is shown; None without labels.
    """

    root: Path
    manifest: Manifest
    plan: StatedPlan
    declaration: Declaration
    entries: tuple[LedgerEntry, ...]
    titles: Titles
    tag: str | None = None

    @property
    def title(self) -> str:
        """What the release is called."""
        return self.titles.labels.title or str(self.manifest.body["name"])

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Names of the geolevels, root first."""
        return self.plan.geolevels

    @property
    def strategy(self) -> Strategy:
        """The strategy of the plan."""
        return self.plan.strategy_in_passes

    @property
    def unit(self) -> Unit:
        """The unit of record."""
        return self.titles.unit

    @property
    def queries(self) -> tuple[str, ...]:
        """Every measured query, in the order of the geolevel that measures the most queries."""
        # Queries of the richest geolevel first; the others add what it lacks.
        by_level = sorted((self.strategy.queries(level) for level in self.strategy.geolevels), key=len)
        return tuple(dict.fromkeys(chain.from_iterable(reversed(by_level))))

    @property
    def spent(self) -> Fraction:
        """Exact sum of the costs in the ledger, in the declared unit."""
        return sum((entry.cost for entry in self.entries if entry.cost is not None), Fraction(0))

    @property
    def is_protected(self) -> bool:
        """Whether the noise came from a secret key."""
        return self.manifest.protected


def in_language(files: ReleaseFiles, language: str) -> ReleaseFiles:
    """The same release, called as in one of its languages."""
    titles = schema_titles(files.plan.schema, files.plan.labels_in(language), language_of(language))
    suffix = anchor_suffix(language, files.plan.languages[0])
    return replace(files, titles=replace(titles, suffix=suffix), tag=language)


def read_release_files(run_dir: Path) -> ReleaseFiles:
    """Read manifest, plan and ledger of a finished release.

    Raises:
        StoreError: a file is missing or damaged, or the files belong to different releases.
        BudgetError: the plan's shares do not sum to one.
    """
    manifest = with_guarantee(run_dir, read_manifest(run_dir, ReleaseKind.TOPDOWN))
    require_plan(run_dir, manifest)
    stated = stated_plan(run_dir / PLAN, manifest.body["plan"])
    declaration, entries = read_ledger(run_dir / LEDGER)
    return ReleaseFiles(run_dir, manifest, stated, declaration, entries, schema_titles(stated.schema))


CONFIDENCE = Fraction(95, 100)
"""Coverage of the margins on the page. 95 % is what readers of official statistics expect; another value would
need other words in the templates."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of queries by geolevels.

    Attributes:
        geolevels: Column titles, root first.
        rows: Title of each row, and one text for each geolevel; None if the query is not measured there.
    """

    geolevels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """What the plan says about one measurement, as text.

    Attributes:
        geolevel: Title of the geolevel.
        query: Specification of the query.
        budget_share: The measurement's share of the whole budget.
        parameter: Exact parameter of the noise.
        variance, standard_deviation, margin: Of the noise of one measured count.
    """

    geolevel: str
    query: str
    budget_share: str
    parameter: str
    variance: str
    standard_deviation: str
    margin: str


def expected_of(files: ReleaseFiles) -> tuple[ExpectedError, ...]:
    """Expected errors of the release's measurements, with 95 % margins."""
    return expected_errors(files.strategy, CONFIDENCE)


def margin_matrix(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> Matrix:
    """A table of 95 % margins: queries in rows, geolevels in columns."""
    # A query that a geolevel does not measure stays None and gets a dash.
    return _matrix(files, {(item.query, item.geolevel): signed(item.margin) for item in expected})


def share_matrix(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> Matrix:
    """A table of shares of the whole budget: queries in rows, geolevels in columns."""
    total = files.strategy.total
    # Shares are exact fractions; a float is made only for the percentage.
    shares = {(item.query, item.geolevel): percent(float(item.share / total)) for item in expected}
    return _matrix(files, shares)


def error_lines(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> tuple[ErrorLine, ...]:
    """One line for each measurement, with the exact parameter of its noise."""
    return tuple(
        ErrorLine(
            geolevel=files.titles.geolevel(item.geolevel),
            query=item.query,
            budget_share=percent(float(item.share / files.strategy.total)),
            parameter=str(item.parameter),
            variance=rounded(item.variance, 4),
            standard_deviation=rounded(item.standard_deviation),
            margin=signed(item.margin),
        )
        for item in expected
    )


def _matrix(files: ReleaseFiles, texts: dict[tuple[str, str], str]) -> Matrix:
    return Matrix(
        tuple(map(files.titles.geolevel, files.geolevels)),
        tuple(
            (files.titles.query(query), tuple(texts.get((query, level)) for level in files.geolevels))
            for query in files.queries
        ),
    )

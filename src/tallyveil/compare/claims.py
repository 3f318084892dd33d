"""What an outsider claims who has published tables and no records: of single people, of records, and of hidden counts.

He takes what is published for the best there is. His background is the published table of the area below the root. He
knows the law of what was done as far as the office says it: exactly for the noisy answers of a release, by its settings
for cell keys and rounding; else he takes the tables at face value. Three kinds of claims are made:

- *attribute* (attack b): where the tables say that one person of a kind lives in a geounit, the attribute that this
  person has, with a probability by the rule of Bayes.
- *record* (attack d): records that every file has that fits the tables of a geounit. Only from tables that are shown
  as they are, or hidden: a changed count proves nothing.
- *hidden count* (attack f): counts that the tables do not show exactly and that follow from the shown ones, where it is
  known how far a count can be from the truth.

A claim is no fact. How often such claims are right can only be said by those who have the records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Bools
from tallyveil.compare.attacks.attack import Targets
from tallyveil.compare.attacks.rare_attribute import Alone, evidence_of, posterior
from tallyveil.compare.attacks.reconstruction import (
    CELLS_TOGETHER,
    chosen_geounits,
    fitting,
    known_answers,
)
from tallyveil.compare.inputs import SharedInput, TableName
from tallyveil.compare.published import ExactLaw, Law, Limits, Published, PublishedTable

CAUTION: Final = (
    "Claims of an attacker about published numbers. Nobody has checked them against records. A claim may be wrong, "
    "also where it is called probable, and right ones cannot be told from wrong ones without the records."
)

ATTRIBUTE: Final = "attribute"
RECORD: Final = "record"
HIDDEN: Final = "hidden count"

COLUMNS: Final = {
    "claim": pl.String,
    "areas": pl.String,
    "geocode": pl.String,
    "known": pl.String,
    "claimed": pl.String,
    "probability": pl.Float64,
    "surprising": pl.Boolean,
}
"""Columns of the table of claims: the kind; the area; what he knows or asks; what he claims; how probable he takes it
to be; and whether somebody without the tables of small areas would claim another thing."""


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """All claims about one publication.

    Attributes:
        table: With `COLUMNS`, the most probable first.
        answers: For each claim, where its truth stands: the number of the geounit or area, and of what is claimed. The
            judge needs them; they are not written.
        notes: What the outsider could not use, and why.
    """

    table: pl.DataFrame
    answers: tuple["Answer", ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the truth of a claim stands.

    Attributes:
        table: Name of the table of a hidden count; None for claims about people.
        place: Number of the area, or of the finest geounit.
        cells: Cells that a person of the kind could be in, or the cell of a record, or the answer of a hidden count.
        claimed: Position among `cells` of the one that is claimed, or the claimed count.
    """

    table: TableName | None
    place: int
    cells: tuple[int, ...]
    claimed: int

    def is_there(self, truth: SharedInput) -> bool:
        """Whether what a claim takes for granted is true: that exactly one person of the kind is there."""
        if self.table is not None or len(self.cells) == 1:
            return True
        return bool(truth.counts[self.place, list(self.cells)].sum() == 1)

    def is_right(self, truth: SharedInput) -> bool:
        """Whether the claim is true: the attribute of everybody of the kind, so many such records, or this count."""
        if self.table is not None:
            return bool(truth.truth[self.table][self.place, self.cells[0]] == self.claimed)
        counts = truth.counts[self.place, list(self.cells)]
        if len(self.cells) == 1:
            return bool(counts[0] >= self.claimed)
        return bool(counts.sum() == counts[self.claimed] > 0)


def claims_of(targets: Targets, published: Published, law: Law, *, shows_exact: bool) -> Claims:
    """Everything that an outsider claims.

    Args:
        targets: What he takes for the data: published counts, and published counts around.
        published: What was published.
        law: What he knows of its changes.
        shows_exact: Whether he takes shown counts for exact.
    """
    rows: list[tuple[object, ...]] = []
    answers: list[Answer] = []
    notes: list[str] = []
    for part in (
        _attributes(targets, published, law, notes),
        _records(targets, published, law, notes) if shows_exact else [],
        _hidden(published),
    ):
        for row, answer in part:
            rows.append(row)
            answers.append(answer)
    if not shows_exact:
        notes.append("Counts may have been changed, so that no record follows from them.")
    if published.limits is None:
        notes.append(
            "Nothing limits how far counts are from the truth, so that no hidden count follows from them."
        )
    order = sorted(range(len(rows)), key=lambda number: -float(str(rows[number][5])))
    table = pl.DataFrame([rows[number] for number in order], schema=COLUMNS, orient="row")
    return Claims(table, tuple(answers[number] for number in order), tuple(notes))


_Rows = Sequence[tuple[tuple[object, ...], Answer]]


def _attributes(targets: Targets, published: Published, law: Law, notes: list[str]) -> _Rows:
    """The attribute of everybody whom the tables show as alone of a kind."""
    shared = targets.shared
    if shared.detailed is None:
        notes.append(
            "No table of the finest geounits tells all cells apart: nothing is claimed of single people."
        )
        return []
    people = alone_in_tables(targets, published)
    noisy = published.noisy_cells(shared) is not None
    evidence = evidence_of(targets, published, law, people)
    prior = targets.background[people.geounits, people.classes]
    # The whole evidence of the own cells, and none of neighbours: nothing can be tuned without the truth.
    probabilities = posterior(prior, prior, evidence[-1], (1.0, 0.0))
    notes.append(
        "Attributes are claimed from the noisy answers, whose law is known exactly."
        if noisy
        else "Attributes are claimed from the tables of the finest geounits and the table of the area below the root."
    )
    guess, usual = probabilities.argmax(axis=1), prior.argmax(axis=1)
    known = _known_labels(targets)
    levels = shared.schema.attribute(targets.sensitive).levels
    codes = shared.finest.codes
    return [
        (
            (
                ATTRIBUTE,
                shared.finest.name,
                codes[geounit],
                known[kind],
                levels[level],
                float(probabilities[row, level]),
                bool(level != usual[row]),
            ),
            Answer(None, geounit, tuple(targets.cells[kind].tolist()), level),
        )
        for row, (geounit, kind, level) in enumerate(
            zip(people.geounits.tolist(), people.classes.tolist(), guess.tolist(), strict=True)
        )
    ]


def alone_in_tables(targets: Targets, published: Published) -> Alone:
    """People whom the published cells show as alone of what is known about them in their finest geounit.

    Where a count is hidden, the person may be there: a kind with a single cell that is not shown as empty has at least
    one person.
    """
    shared = targets.shared
    detailed = shared.detailed
    assert detailed is not None
    name = shared.finest.name, detailed.name
    table, limits = published.tables[name], published.limits
    answers = detailed.answers_of(np.arange(shared.schema.size))
    shown, counts = table.shown[:, answers], np.maximum(table.counts[:, answers], 0)
    least = 0 if limits is None else limits.support.limits(name, table)[0][:, answers].astype(np.int64)
    by_class = np.where(shown, counts, least)[:, targets.cells]
    alone = by_class.sum(axis=2) == 1
    # With two hidden cells or more there are other people, or there may be.
    alone &= (~shown)[:, targets.cells].sum(axis=2) <= 1
    geounits, classes = np.nonzero(alone)
    return Alone(geounits, classes, by_class[geounits, classes].argmax(axis=1))


def _known_labels(targets: Targets) -> list[str]:
    """What is known of a person of each class, in words."""
    schema = targets.shared.schema
    others = [
        (number, attribute)
        for number, attribute in enumerate(schema.attributes)
        if attribute.name != targets.sensitive
    ]
    levels = schema.decode(targets.cells[:, 0])
    return [
        ", ".join(f"{attribute.name} = {attribute.levels[row[number]]}" for number, attribute in others)
        for row in levels.tolist()
    ]


def _records(targets: Targets, published: Published, law: Law, notes: list[str]) -> _Rows:
    """Records that every file has that fits the tables of a geounit."""
    shared = targets.shared
    if shared.schema.size > CELLS_TOGETHER:
        notes.append("The schema has too many cells for a program of each geounit: no records are rebuilt.")
        return []
    geounits = chosen_geounits(targets, targets.shared.counts.sum(axis=1) > 0)
    notes.append(f"Records are rebuilt in {geounits.size:,} geounits, drawn at random.")
    attributes = shared.schema.attributes
    claims = []
    usual = targets.kinds_around.argmax(axis=1)
    for geounit in geounits.tolist():
        program = fitting(targets, known_answers(shared, published, law, geounit), geounit)
        file, fits = program.likeliest()
        certain = program.certain(file) if fits else np.zeros_like(file)
        for cell in np.flatnonzero(certain).tolist():
            codes = shared.schema.decode(np.array([cell]))[0].tolist()
            kind = ", ".join(
                f"{attribute.name} = {attribute.levels[code]}"
                for attribute, code in zip(attributes, codes, strict=True)
            )
            number = int(certain[cell])
            surprising = bool(cell != usual[targets.around_place[geounit]])
            claims.append(
                (
                    (
                        RECORD,
                        shared.finest.name,
                        shared.finest.codes[geounit],
                        kind,
                        f"{number}",
                        1.0,
                        surprising,
                    ),
                    Answer(None, geounit, (cell,), number),
                )
            )
    return claims


def _hidden(published: Published) -> _Rows:
    """Counts that are not shown exactly and follow from shown ones."""
    limits = published.limits
    if limits is None:
        return []
    low, high = limits.narrowed
    follows = limits.hidden & (low == high)
    shared = limits.shared
    claims = []
    for name in limits.cells.names:
        numbers = limits.cells.numbers(name)
        areas = shared.areas_named(name[0])
        labels = next(query for query in shared.queries if query.name == name[1]).labels()
        for place, answer in np.argwhere(follows[numbers]).tolist():
            count = int(low[numbers[place, answer]])
            claims.append(
                (
                    (HIDDEN, name[0], areas.codes[place], labels[answer], f"{count}", 1.0, True),
                    Answer(name, place, (answer,), count),
                )
            )
    return claims


def seem_exact(shared: SharedInput, tables: Mapping[TableName, PublishedTable]) -> bool:
    """Whether all sums hold among the shown counts, as they do if none was changed."""
    return not Limits(shared, tables, ExactLaw()).contradict


def banded(claims: pl.DataFrame) -> list[tuple[str, Bools]]:
    """Masks of the claims by how probable the outsider takes them to be."""
    probability = claims["probability"].to_numpy()
    edges = (
        ("half or less", 0.0, 0.5),
        ("up to 0.8", 0.5, 0.8),
        ("up to 0.95", 0.8, 0.95),
        ("above 0.95", 0.95, 2.0),
    )
    return [(name, (probability > low) & (probability <= high)) for name, low, high in edges]

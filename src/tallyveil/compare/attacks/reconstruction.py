"""Attack (d): the records of a finest geounit, rebuilt from its tables by an integer program.

`record_files` has the program. The likeliest of the files that fit is taken, under what is known of the area below the
root. Where a method limits how far counts are from the truth, each answer of the geounit has the limits that all tables
of all areas leave, as in attack (f), and in them the count that is most likely under the law of the method is wanted.
Where a method sets no limits, the published counts are wanted. From a release with noisy answers a second attacker
takes the likeliest file for the noisy cells of the geounit.

A record counts as rebuilt if the geounit has it. Each true record counts once.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, mean
from tallyveil.compare.attacks.record_files import FittingFiles, KnownAnswers, likeliest_file
from tallyveil.compare.inputs import SharedInput, TableName, answer_matrix
from tallyveil.compare.published import Law, Published, PublishedTable
from tallyveil.compare.relations import NO_LIMIT

GEOUNITS: Final = 120
"""Finest geounits that are rebuilt; their people give intervals of a few hundredths."""

CELLS_TOGETHER: Final = 4096
"""Largest number of kinds of records. A program of more takes seconds for each geounit."""


class Reconstruction(Attack):
    """Who rebuilds the records of a geounit from its tables."""

    name: ClassVar[str] = "records rebuilt"
    letter: ClassVar[str] = "d"
    who: ClassVar[str] = (
        "Anybody who reads the tables of a finest geounit. Where its detailed table agrees with the others, its "
        "records are read off; else an integer program finds the likeliest file of records that fits best, within the "
        "limits that attack (f) finds. Where noisy answers are published, the likeliest file for these is found as "
        "well."
    )
    prior: ClassVar[str] = "the likeliest file of as many records as the geounit truly has"
    bounded: ClassVar[str] = (
        "None for a share of the records, which follows from how common records are as well. For one person there is "
        "one: somebody who would guess right with probability κ before the release, whatever he knows of others, "
        "guesses right after it with probability 1 − β(κ) at most, where β is the trade-off function of the release "
        "(Balle, Cherubin and Hayes 2022; Hayes, Mahloujifar and Balle 2023). It is not computed here, because κ "
        "differs from person to person."
    )
    reading: ClassVar[str] = (
        "He rebuilds one geounit after the other; of other areas he uses only what they say about the limits of its "
        "counts. Of noisy answers he uses one query. Who uses all of them, and rebuilds all geounits at once, finds "
        "more."
    )
    headline: ClassVar[str] = "share of records rebuilt"
    must: ClassVar[float] = 0.9

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        if targets.shared.schema.size > CELLS_TOGETHER:
            return [Finding(self.name, self.headline, None, None, None, 0)]
        geounits = chosen_geounits(targets, targets.shared.counts.sum(axis=1) > 0)
        true = targets.shared.counts[geounits]
        guessed = np.minimum(_likeliest(targets, geounits), true).sum(axis=1)
        total = true.sum()
        findings = []
        for source, files in sources(targets, published, (tossed or published).law, geounits):
            right = np.minimum(files, true).sum(axis=1)
            # A ratio of sums over geounits; its interval follows from the geounits' own deviations.
            value = float(right.sum() / total)
            spread = mean(
                self.name, self.headline, (right - value * true.sum(axis=1)) * (geounits.size / total)
            )
            reach = 0.0 if spread.high is None or spread.value is None else spread.high - spread.value
            findings.append(
                Finding(
                    self.name,
                    f"{self.headline} {source}",
                    value,
                    max(value - reach, 0.0),
                    min(value + reach, 1.0),
                    int(total),
                    float(guessed.sum() / total),
                )
            )
        return findings


def chosen_geounits(targets: Targets, eligible: Bools) -> Integers:
    """Some of the finest geounits that are eligible."""
    places = np.flatnonzero(eligible)
    generator = targets.draws.generator("reconstruction")
    return np.sort(generator.choice(places, min(GEOUNITS, places.size), replace=False))


def sources(
    targets: Targets, published: Published, law: Law, geounits: Integers
) -> list[tuple[str, Integers]]:
    """Files of records of each geounit, as counts of kinds, (geounits.size, n_cells): from the tables, and from noise.

    Args:
        targets: The input.
        published: What is attacked.
        law: What the attacker knows of its changes.
        geounits: Numbers of finest geounits.
    Raises:
        SolverError: a program ended without an answer.
    """
    files = [("from the tables", rebuilt(targets, published, law, geounits))]
    noisy = published.noisy_cells(targets.shared)
    if noisy is not None:
        values, variance = noisy
        shown = published.tables[targets.shared.finest.name, targets.shared.queries[-1].name]
        people = np.maximum(shown.filled()[geounits].sum(axis=1), 0)
        expected = targets.kinds_around[targets.around_place[geounits]] * np.maximum(people, 1)[:, None]
        files.append(
            (
                "from the noisy answers",
                np.array(
                    [
                        likeliest_file(
                            values[geounit].astype(np.float64),
                            float(variance[geounit]),
                            expected[row],
                            int(people[row]),
                        )
                        for row, geounit in enumerate(geounits.tolist())
                    ]
                ).reshape(geounits.size, -1),
            )
        )
    return files


def rebuilt(targets: Targets, published: Published, law: Law, geounits: Integers) -> Integers:
    """The file of records of each geounit from its tables; as `sources`."""
    shared = targets.shared
    files = np.zeros((geounits.size, shared.schema.size), dtype=np.int64)
    for row, geounit in enumerate(geounits.tolist()):
        known = known_answers(shared, published, law, geounit)
        file = _as_wanted(shared, known)
        files[row] = fitting(targets, known, geounit).likeliest()[0] if file is None else file
    return files


def fitting(targets: Targets, known: KnownAnswers, geounit: int) -> FittingFiles:
    """The program for what is known of one geounit."""
    return FittingFiles(
        sparse.csr_matrix(sparse.vstack([answer_matrix(query).T for query in targets.shared.queries])),
        known,
        -np.log(targets.kinds_around[targets.around_place[geounit]]),
    )


def known_answers(shared: SharedInput, published: Published, law: Law, geounit: int) -> KnownAnswers:
    """What an attacker knows of the answers of one finest geounit."""
    parts = []
    for query in shared.queries:
        name = shared.finest.name, query.name
        table = published.tables[name].at(np.full(query.size, geounit), np.arange(query.size))
        if published.limits is None:
            parts.append(KnownAnswers.without_limits(table.counts, ~table.shown))
        else:
            low, high = published.limits.narrowed_row(name, geounit)
            wanted = most_likely(law, name, table, low, high)
            parts.append(KnownAnswers(wanted, ~table.shown, low, np.where(high < NO_LIMIT, high, np.inf)))
    return KnownAnswers(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def most_likely(law: Law, name: TableName, published: PublishedTable, low: Floats, high: Floats) -> Integers:
    """The most likely true count within limits for each published one, of several the nearest; shape (n_counts,)."""
    width = int(np.max(high - low, where=high < NO_LIMIT, initial=0))
    nearest = np.clip(published.counts, low, high)
    between = np.minimum(low[:, None] + np.arange(width + 1), high[:, None])
    true = np.column_stack([nearest, between]).astype(np.int64)
    likeliest = law.log_likelihood(name, true, published.repeated(true.shape[1])).argmax(axis=1)
    return np.asarray(true[np.arange(likeliest.size), likeliest])


def _as_wanted(shared: SharedInput, known: KnownAnswers) -> Integers | None:
    """The wanted cells, where they are a file with all other wanted answers: no other has them."""
    if shared.detailed is None or known.hidden.any():
        return None
    starts = np.cumsum([0, *(query.size for query in shared.queries)])
    wanted = np.split(known.wanted, starts[1:-1])
    cells = wanted[shared.queries.index(shared.detailed)]
    file = cells[shared.detailed.answers_of(np.arange(shared.schema.size))]
    same = all(
        np.array_equal(file @ answer_matrix(query), part)
        for query, part in zip(shared.queries, wanted, strict=True)
    )
    return np.asarray(file) if same and (file >= 0).all() else None


def _likeliest(targets: Targets, geounits: Integers) -> Integers:
    """The likeliest file of as many records as each geounit truly has: by the mode of a multinomial law, nearly.

    Each kind gets the whole part of its expected number, and the largest remainders fill up.
    """
    shares = targets.kinds_around[targets.around_place[geounits]]
    total = targets.shared.counts[geounits].sum(axis=1)
    expected = shares * total[:, None]
    files = np.floor(expected).astype(np.int64)
    rest = total - files.sum(axis=1)
    order = np.argsort(-(expected - files), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None, :], axis=1)
    return np.asarray(files + (rank < rest[:, None]))

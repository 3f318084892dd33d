"""Attack (g): whether a rare record is in the data, by somebody who does not know the others.

The attacker knows a record, with its finest geounit, and asks whether the data have it. A coin decided: half of these
people have another record in the same geounit instead (`Targets.tossed`), so that nobody comes or goes. The people who
are asked about are those who are most at risk: alone with their record in the geounit, where it is rare around. Where
many have the same, one more or less shows nothing, and nobody would ask.

*Score.* Let y be what was published of the record's cell, and x the number of others in it. Beforehand the mean of x
is the number of people in the geounit times the share of the cell in the geounit above, both as published. The score is
log P(y | x + 1) - log P(y | x), each a mean over x. No other rule for this cell is better if the laws are right (Neyman
and Pearson). The table of the sensitive attribute alone adds a score of its own.

*Tuned* on one half of the people: how many others he believes in, from as many as the tables around say to none; how
much more they vary than a Poisson law says, because people live beside people like themselves; the weight of the
second table; and the threshold. The other half judges. Noisy answers are attacked in the same way.

Source: Homer et al. 2008; Dwork et al. 2015; Carlini et al. 2022 for power at few false alarms.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import numpy as np
from scipy.stats import nbinom, poisson

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, coin_findings, interval
from tallyveil.compare.losses import group_query
from tallyveil.compare.published import FALSE_ALARMS, Certificate, Law, Published
from tallyveil.schema.query_group import QueryGroup

MOST_OTHERS: Final = 80
"""Others in a cell that are considered. Where more are likely, one more or less shows nothing anyway."""

FEWEST: Final = 60
"""People from which the attack is tried: half of them choose a threshold."""

LEAST_VARIANCE: Final = 1e-4
"""Noise of less is as good as none, and would end the arithmetic of likelihoods."""

OTHERS: Final = ((1.0, 0.0), (1.0, 0.5), (1.0, 2.0), (1.0, 8.0), (0.1, 0.0), (1e-6, 0.0))
"""What he believes of the others: a factor of their mean, and how much they vary beyond a Poisson law, by variance =
mean + this * mean^2. The last pair is of somebody who knows that there are none."""

SECOND: Final = (0.0, 0.25, 0.5, 1.0)
"""Weights of the table of the sensitive attribute alone. It counts the same people as the cells, so that at 1 they may
be counted twice."""


class Presence(Attack):
    """Who wants to know whether a rare record is in the data."""

    name: ClassVar[str] = "presence of a rare record"
    letter: ClassVar[str] = "g"
    who: ClassVar[str] = (
        "Knows a whole record with its finest geounit, which is rare around there and which nobody else has there. A "
        "fair coin decided whether the person has this record or one that differs in one attribute. Uses the "
        "likelihood ratio, tuned to the method and to how people live."
    )
    prior: ClassVar[str] = "an even chance"
    bounded: ClassVar[str] = (
        "TopDown, SafeTab and sampling: the bound of (a), which is about a stronger attacker, and one of the share "
        "that is caught. No bound here is about whether a person is counted at all where a total is exact."
    )
    reading: ClassVar[str] = (
        "Whether somebody is counted at all is not asked: the person is in the data either way. Of noisy answers he "
        "uses those of one query in the geounit; who uses all of them finds more."
    )
    headline: ClassVar[str] = "advantage"
    must: ClassVar[float] = 0.8

    def number_at_risk(self, targets: Targets) -> int:
        """As in `Attack`."""
        return int(targets.rare_cells.sum())

    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """As in `Attack`."""
        if tossed is None:
            return []
        people = np.flatnonzero(targets.pairs.rare)
        detailed = targets.tossed.detailed
        if people.size < FEWEST or detailed is None:
            return [Finding(self.name, self.headline, None, None, None, int(people.size), 0.0)]
        findings = self._judged(
            targets, people, tossed, "from the tables", _of_tables(targets, people, published.law, tossed)
        )
        noisy = tossed.noisy_cells(targets.shared)
        if noisy is not None:
            pairs = targets.pairs
            values = noisy[0][pairs.geounits[people], pairs.cells[people]][:, None]
            variance = np.maximum(noisy[1][pairs.geounits[people]], LEAST_VARIANCE)[:, None]

            def of_noise(belief: tuple[float, float]) -> list[Floats]:
                mean = _mean_others(targets, people, tossed, detailed, targets.pairs.cells[people])
                return [
                    presence_scores(
                        lambda counts: -((values - counts) ** 2) / (2 * variance), mean * belief[0], belief[1]
                    )
                ]

            findings += self._judged(targets, people, tossed, "from the noisy answers", of_noise)
        return findings

    def _judged(
        self,
        targets: Targets,
        people: Integers,
        tossed: Published,
        source: str,
        scores: Callable[[tuple[float, float]], list[Floats]],
    ) -> list[Finding]:
        """Tune the attack on one half, and judge it on the other.

        Args:
            targets: Who is attacked.
            people: Numbers of the people among the pairs.
            tossed: The publication that is attacked.
            source: In words.
            scores: Scores of all people by what is believed of the others: of the cells, and of a second table if any.
        """
        present = targets.pairs.unchanged[people]
        halves = targets.half(people.size)
        tuning, judging = halves == 0, halves == 1
        best, most = np.zeros(people.size), -1.0
        for belief in OTHERS:
            parts = scores(belief)
            for weight in SECOND if len(parts) > 1 else SECOND[:1]:
                score = parts[0] + sum(weight * part for part in parts[1:])
                right = _right(
                    score[tuning], present[tuning], _best_threshold(score[tuning], present[tuning])
                )
                if right > most:
                    best, most = score, right
        threshold = _best_threshold(best[tuning], present[tuning])
        right = _right(best[judging], present[judging], threshold)
        certificate = tossed.certificate
        bound = None if certificate is None else certificate.advantage
        return [
            *coin_findings(self.name, source, right, int(judging.sum()), bound),
            self._caught(source, best[tuning & ~present], best[judging & present], certificate),
        ]

    def _caught(
        self, source: str, absent: Floats, inside: Floats, certificate: Certificate | None
    ) -> Finding:
        """Share of those inside who are noticed above the score that one in a hundred of the absent ones exceeds."""
        measure = f"caught at 1 % false alarms {source}"
        bound = None if certificate is None else certificate.power
        # Fewer absent ones than this do not say where the hundredth part of them begins.
        if absent.size < 1 / FALSE_ALARMS or not inside.size:
            return Finding(self.name, measure, None, None, None, int(inside.size), FALSE_ALARMS, bound)
        strict = np.quantile(absent, 1 - FALSE_ALARMS, method="higher")
        noticed = int((inside > strict).sum())
        low, high = interval(noticed, inside.size)
        return Finding(
            self.name, measure, noticed / inside.size, low, high, int(inside.size), FALSE_ALARMS, bound
        )


def _of_tables(
    targets: Targets, people: Integers, law: Law, tossed: Published
) -> Callable[[tuple[float, float]], list[Floats]]:
    """Scores from the table of all cells and, where there is one, from that of the sensitive attribute alone."""
    shared, pairs = targets.tossed, targets.pairs
    cells = pairs.cells[people]
    tables = [shared.detailed, group_query(shared, targets.sensitive)]
    prepared: list[tuple[Callable[[Integers], Floats], Floats]] = []
    for query in tables:
        if query is None:
            continue
        answers = query.answers_of(cells)
        mean = _mean_others(targets, people, tossed, query, cells)
        prepared.append(
            (
                _likelihood(law, tossed, (shared.finest.name, query.name), pairs.geounits[people], answers),
                mean,
            )
        )
    return lambda belief: [
        presence_scores(likelihood, mean * belief[0], belief[1]) for likelihood, mean in prepared
    ]


def _likelihood(
    law: Law, tossed: Published, name: tuple[str, str], geounits: Integers, answers: Integers
) -> Callable[[Integers], Floats]:
    """Logarithms of the probability of what was published, for supposed true counts; shape (n_people, n_supposed)."""
    table = tossed.tables[name].at(geounits, answers)

    def logs(counts: Integers) -> Floats:
        supposed = np.broadcast_to(counts, (answers.size, counts.size))
        return law.log_likelihood(name, supposed, table.repeated(counts.size))

    return logs


def _mean_others(
    targets: Targets, people: Integers, tossed: Published, query: QueryGroup, cells: Integers
) -> Floats:
    """Expected others in an answer: people of the geounit times the share of the answer in the geounit above."""
    shared = targets.tossed
    above = shared.areas[max(shared.n_geolevels - 2, 0)]
    geounits = targets.pairs.geounits[people]
    around = np.maximum(tossed.tables[above.name, query.name].filled()[above.place[geounits]], 0)
    here = np.maximum(tossed.tables[shared.finest.name, query.name].filled()[geounits], 0).sum(axis=1)
    count = around[np.arange(people.size), query.answers_of(cells)]
    # A hundredth of a person: a cell that is published empty above may still have somebody.
    return np.asarray(np.maximum(here, 1) * (count + 0.01) / (around.sum(axis=1) + 1))


def presence_scores(
    log_likelihood: Callable[[Integers], Floats], mean: Floats, clustered: float = 0.0
) -> Floats:
    """Logarithm of the likelihood ratio of one record more, for each person.

    Args:
        log_likelihood: Of supposed true counts (shape (n_supposed,)); shape (n_people, n_supposed).
        mean: Others that each person's attacker expects.
        clustered: The variance of the others is mean + clustered * mean^2.
    """
    others = np.arange(MOST_OTHERS + 1)
    if clustered:
        size = 1 / clustered
        prior = nbinom.logpmf(others[None, :], size, size / (size + mean[:, None]))
    else:
        prior = poisson.logpmf(others[None, :], mean[:, None])
    with_it = prior + log_likelihood(others + 1)
    without = prior + log_likelihood(others)
    return np.asarray(np.logaddexp.reduce(with_it, axis=1) - np.logaddexp.reduce(without, axis=1))


def _right(score: Floats, present: Bools, threshold: float) -> float:
    return float(((score > threshold) == present).sum())


def _best_threshold(score: Floats, present: Bools) -> float:
    """The threshold above which most guesses are right."""
    candidates = np.unique(np.quantile(score, np.linspace(0, 1, 101), method="lower"))
    right = [_right(score, present, threshold) for threshold in candidates]
    return float(candidates[int(np.argmax(right))])

"""Attackers find what they must, and nothing where nothing is; seeded weaknesses of methods are found."""

from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from tests.comparisons import found, public_of, publications, small_input, targets_of

from tallyveil.compare.attacks.attack import over_draws
from tallyveil.compare.attacks.hidden_counts import HiddenCounts
from tallyveil.compare.attacks.knows_others import KnowsOthers
from tallyveil.compare.attacks.linkage import Linkage
from tallyveil.compare.attacks.presence import Presence
from tallyveil.compare.attacks.questions import RepeatedQuestions
from tallyveil.compare.attacks.rare_attribute import RareAttribute
from tallyveil.compare.attacks.reconstruction import Reconstruction
from tallyveil.compare.methods.cell_key import CellKey
from tallyveil.compare.methods.coarsening import Coarsening
from tallyveil.compare.methods.exact import Exact
from tallyveil.compare.methods.keyed import publish_with_keys
from tallyveil.compare.methods.method import Method
from tallyveil.compare.methods.rounding import RandomRounding
from tallyveil.compare.methods.sampling import Sampling
from tallyveil.compare.methods.suppression import Suppression
from tallyveil.compare.methods.swapping import Swapping
from tallyveil.compare.published import ExactLaw, Published, PublishedTable, SummedQuestions
from tallyveil.errors import ConfigError

KEY = CellKey(name="key", largest=5, variance=Fraction(3))
QUESTIONS = "counts found exactly after 200 pairs of questions"


@pytest.fixture(scope="module")
def targets():
    return targets_of(small_input())


class Nothing(Method):
    """Publishes that there are tables, and nothing else."""

    kind: Literal["nothing"] = "nothing"

    def publish(self, office):
        hidden = {
            name: PublishedTable(np.zeros_like(true), np.ones(true.shape, dtype=np.bool_))
            for name, true in office.shared.truth.items()
        }
        return Published(hidden, ExactLaw(), SummedQuestions(np.zeros_like(office.shared.counts)))


@pytest.mark.parametrize(
    "attack", [KnowsOthers(), RareAttribute(), RepeatedQuestions(), Reconstruction(), Linkage()]
)
def test_an_attack_succeeds_on_exact_tables(targets, attack):
    findings = list(found(attack, Exact(name="exact"), targets).values())
    assert attack.headline_of(findings) >= attack.must


def test_who_gets_nothing_guesses_as_without_tables(targets):
    assert found(KnowsOthers(), Nothing(name="x"), targets)["advantage from the tables"].value == 0
    assert found(RareAttribute(), Nothing(name="x"), targets)["bits gained from the tables"].value < 0.1
    assert found(Linkage(), Nothing(name="x"), targets)["rare people confirmed from the tables"].value == 0
    questions = found(RepeatedQuestions(), Nothing(name="x"), targets)[QUESTIONS]
    assert questions.value == questions.prior


@pytest.fixture(scope="module")
def many():
    """Blocks enough that hundreds of people have a record that is rare around them."""
    return targets_of(small_input(1920))


def test_presence_is_told_from_exact_tables_and_less_from_changed_ones(many):
    advantage = "advantage from the tables"
    exact, nothing, keys = (
        found(Presence(), method, many)[advantage] for method in (Exact(name="exact"), Nothing(name="x"), KEY)
    )
    assert exact.low > Presence.must
    bits = found(Presence(), KEY, many)["bits from the tables"]
    assert 0 < bits.low < bits.value < bits.high < 1
    assert abs(nothing.value) < 0.15
    assert nothing.value < keys.value < exact.value


def test_the_coins_are_fair_and_change_nothing_else(many):
    pairs, before, after = many.pairs, many.shared.counts, many.tossed.counts
    assert abs(pairs.unchanged.mean() - 0.5) < 0.05
    assert after.sum() == before.sum()
    assert after.min() >= 0
    # Everybody stays in the geounit, and keeps what attackers know.
    assert np.array_equal(after.sum(axis=1), before.sum(axis=1))
    assert np.array_equal(after.reshape(-1, 2, 4).sum(axis=2), before.reshape(-1, 2, 4).sum(axis=2))
    assert len(set(pairs.numbers.tolist())) == pairs.numbers.size


def test_more_noise_leaves_less(targets):
    small, large = (
        found(KnowsOthers(), CellKey(name="key", largest=width, variance=Fraction(variance)), targets)
        for width, variance in ((2, "1/2"), (12, "30"))
    )
    assert small["advantage from the tables"].value > large["advantage from the tables"].value + 0.2


class ReusedKey(CellKey):
    """A seeded weakness: every cell has the same key, so that all large counts are changed alike."""

    def publish(self, office):
        keys = np.full_like(office.shared.counts, 12345)
        published = publish_with_keys(office.shared, self.stated_law(), keys)
        # The sum of equal keys depends on the number of cells; the weakness is that no sum is taken at all.
        return replace(published, questions=_SameKey(published.questions))


class _SameKey:
    def __init__(self, questions):
        self._questions = questions

    def answers(self, members, cell):
        office = self._questions
        counts = members.astype(np.int64) @ office.counts[:, cell]
        return office.perturbation.changed(counts, np.full_like(counts, 12345))

    def restricted(self, geounits):
        return _SameKey(self._questions.restricted(geounits))


def test_a_reused_cell_key_is_found_by_one_pair_of_questions(targets):
    once = "counts found exactly after 1 pair of questions"
    sound = found(RepeatedQuestions(), KEY, targets)[once].value
    # Two counts that are changed alike differ by the truth, where both are large enough to use the same row.
    assert found(RepeatedQuestions(), ReusedKey(**KEY.model_dump()), targets)[once].value > sound + 0.15


def test_rounding_afresh_is_found_by_asking_the_same_again(targets):
    again = "counts found exactly by asking the same 20 times"
    consistent, afresh = (
        found(RepeatedQuestions(), RandomRounding(name="random", base=3, consistent=consistent), targets)[
            again
        ].value
        for consistent in (True, False)
    )
    assert afresh > consistent + 0.2


class SparesTheRare(Swapping):
    """A seeded weakness: whoever is alone of a kind in a block is never swapped."""

    def swapped(self, shared, generator):
        alone = shared.counts == 1
        common = replace(shared, counts=np.where(alone, 0, shared.counts))
        counts, moved, share = super().swapped(common, generator)
        return counts + alone, moved, share


def swaps(kind, rate="1/2"):
    return kind(
        name="swap", rate=Fraction(rate), within="Region", across="Town", match=["age"], targeting=Fraction(2)
    )


def test_swapping_that_spares_the_rare_is_found(targets):
    bits = "bits gained from the tables"
    sound, spares = (
        found(RareAttribute(), swaps(kind), targets)[bits].value for kind in (Swapping, SparesTheRare)
    )
    assert spares > sound + 0.2


def test_swapping_keeps_what_is_matched(targets):
    shared = targets.shared
    counts, moved, _ = swaps(Swapping).swapped(shared, np.random.default_rng(1))
    assert moved > 0.2 * counts.sum()
    assert np.array_equal(counts.sum(axis=0), shared.counts.sum(axis=0))
    ages = [table.reshape(-1, 2, 4).sum(axis=2) for table in (counts, shared.counts)]
    assert np.array_equal(*ages)


def test_households_are_swapped_whole():
    shared = small_input(60)
    # Two people in the order of their cells make a household, with a last one alone.
    geounits = np.repeat(np.arange(60), shared.counts.sum(axis=1))
    place = np.arange(geounits.size) - np.searchsorted(geounits, geounits)
    household = np.unique(np.stack([geounits, place // 2]), axis=1, return_inverse=True)[1].ravel()
    with_households = replace(shared, household=household)
    counts, moved, _ = swaps(Swapping).swapped(with_households, np.random.default_rng(1))
    assert moved
    # Partners have the same size, so blocks keep their numbers of people.
    assert np.array_equal(counts.sum(axis=1), shared.counts.sum(axis=1))


def test_hidden_counts_without_secondary_suppression_are_computed(targets):
    method = Suppression(name="primary", threshold=3, secondary=False)
    primary = found(HiddenCounts(), method, targets)
    exactly = primary["hidden counts found exactly"].value
    assert exactly > 0.05
    assert HiddenCounts().power(targets, ()) == 1
    assert not HiddenCounts().run(targets, *publications(Exact(name="exact"), targets))
    assert not HiddenCounts().run(targets, *publications(swaps(Swapping), targets))


def test_an_interval_over_draws_is_no_narrower_than_one_over_people(targets):
    draws = [KnowsOthers().run(targets, *publications(KEY, targets, draw)) for draw in range(3)]
    together = over_draws(draws)
    for number, item in enumerate(together):
        parts = [draw[number] for draw in draws]
        assert np.isclose(item.value, np.mean([part.value for part in parts]))
        assert item.high - item.low >= np.mean([part.high - part.low for part in parts]) - 1e-9


def test_two_margins_rebuild_less_than_the_cells():
    """Without the table of all cells several files fit, and the likeliest is often another."""
    margins, whole = (
        targets_of(small_input(48, queries=queries))
        for queries in (("total", "age", "group"), ("total", "age*group"))
    )
    cells = found(Reconstruction(), Exact(name="exact"), whole)["share of records rebuilt from the tables"]
    fewer = found(Reconstruction(), Exact(name="exact"), margins)["share of records rebuilt from the tables"]
    assert cells.value == 1
    assert fewer.prior < fewer.value < 1
    assert fewer.low < fewer.value < fewer.high


def test_a_sample_is_unbiased_and_leaves_doubt(targets):
    sample = Sampling(name="half", share=Fraction(1, 2))
    published = publications(sample, targets)[0]
    total = published.tables["Region", "total"].counts[0, 0]
    assert abs(total / targets.shared.counts.sum() - 1) < 0.1
    # Who is not in the sample leaves no trace: half of the time nobody can tell, and the attack finds no more.
    assert published.certificate.advantage == pytest.approx(0.5)
    together = found(KnowsOthers(), sample, targets)["advantage from the tables"]
    assert together.low <= together.bound == published.certificate.advantage
    bits = "bits gained from the tables"
    half, exact = (
        found(RareAttribute(), method, targets)[bits].value for method in (sample, Exact(name="exact"))
    )
    assert half < exact


def test_coarsening_hides_whole_tables(targets):
    method = Coarsening(name="towns", down_to="Town", below=["total"])
    published = publications(method, targets)[0]
    assert published.tables["Town", "age*group"].shown.all()
    assert published.tables["Block", "total"].shown.all()
    assert not published.tables["Block", "group"].shown.any()
    public = public_of(targets.shared)
    method.require_fit(public)
    for wrong, code in (
        ({"down_to": "School"}, "unknown-geolevel"),
        ({"down_to": "Town", "below": ["age"]}, "no-table"),
    ):
        with pytest.raises(ConfigError) as refused:
            Coarsening(name="x", **wrong).require_fit(public)
        assert refused.value.code == code

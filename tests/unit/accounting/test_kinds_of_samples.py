"""Draws with replacement and truncated Poisson samples: bounds beside whole mechanisms, and refusals."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.samples import few

from tallyveil.accounting import (
    Gaussian,
    Laplace,
    Neighbours,
    PoissonSampled,
    SampledWithReplacement,
    TruncatedPoissonSampled,
    compose,
    event_from_mapping,
    for_group,
    from_dp_event,
    loss_law_of,
    renyi_epsilon,
    rho_of,
    translate,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.engines.ball_tails import OneSample
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.losses import ChoiceLoss, FailureLoss, SampledLoss, mirrored
from tallyveil.errors import BudgetError

X = np.linspace(-16.0, 16.0, 16_001)
"""Places at which densities of a noisy sum are compared; a step is 0.002."""

EPSILONS = (-0.2, 0.0, 0.1, 0.6)


def density(law: dict[int, float], deviation: float) -> np.ndarray:
    """Of a noisy sum, from the probabilities of the sum."""
    unit = (X[1] - X[0]) / (deviation * math.sqrt(2 * math.pi))
    return sum(p * unit * np.exp(-((X - total) ** 2) / (2 * deviation**2)) for total, p in law.items())


def divergence(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def drawn(values: tuple[int, ...], draws: int) -> dict[int, float]:
    """The sum of draws with replacement."""
    law: dict[int, float] = {}
    for sample in itertools.product(values, repeat=draws):
        law[sum(sample)] = law.get(sum(sample), 0.0) + len(values) ** -float(draws)
    return law


def truncated(values: tuple[int, ...], p: float, largest: int) -> dict[int, float]:
    """The sum of a Poisson sample, of which at most some records are taken at random."""
    law: dict[int, float] = {}
    for inside in itertools.product((False, True), repeat=len(values)):
        sample = [value for value, held in zip(values, inside, strict=True) if held]
        chance = p ** len(sample) * (1 - p) ** (len(values) - len(sample))
        parts = list(itertools.combinations(sample, min(largest, len(sample))))
        for part in parts:
            law[sum(part)] = law.get(sum(part), 0.0) + chance / len(parts)
    return law


def worst(
    law: Callable[[tuple[int, ...]], dict[int, float]], pairs, deviation: float, epsilon: float
) -> float:
    densities: dict[tuple[int, ...], np.ndarray] = {}

    def of(values: tuple[int, ...]) -> np.ndarray:
        if values not in densities:
            densities[values] = density(law(values), deviation)
        return densities[values]

    return max(divergence(of(first), of(second), epsilon) for first, second in pairs)


@pytest.mark.parametrize(("draws", "records"), [(2, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_worst_database_of_draws_lies_between_both_bounds(
    draws: int, records: int, epsilon: float
) -> None:
    found = compose(SampledWithReplacement(Gaussian(4, 2), draws, records), neighbours="bounded").delta(
        epsilon
    )
    pairs = [
        ((first, *others), (second, *others))
        for others in itertools.combinations_with_replacement((-1, 0, 1), records - 1)
        for first, second in itertools.permutations((-1, 0, 1), 2)
    ]
    truth = worst(lambda values: drawn(values, draws), pairs, 2.0, epsilon)
    assert found.lower - 1e-6 <= truth <= found.upper + 1e-6
    if epsilon == 0:
        # A record that moves the answer one way before the change, and as far the other way after it.
        assert truth == pytest.approx(found.upper, abs=1e-6)


def test_a_mixture_that_does_not_tell_the_number_of_draws_is_no_upper_bound() -> None:
    both = compose(SampledWithReplacement(Gaussian(4, 2), 3, 3), neighbours="bounded").delta(0)
    truth = divergence(density(drawn((1, 0, 0), 3), 2.0), density(drawn((-1, 0, 0), 3), 2.0), 0.0)
    assert both.lower + 1e-3 < truth <= both.upper + 1e-6


@pytest.mark.parametrize(
    ("p", "largest", "records"), [("1/2", 1, 3), ("1/3", 2, 4), ("9/10", 2, 4), ("1", 2, 3)]
)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_worst_truncated_sample_lies_between_both_bounds(p, largest, records, epsilon: float) -> None:
    event = TruncatedPoissonSampled(Gaussian(4), p, largest, records)
    found = compose(event, neighbours="unbounded").delta(epsilon)
    pairs = []
    for others in itertools.combinations_with_replacement((-1, 0, 1), records - 1):
        for value in (-1, 1):
            pairs += [((value, *others), others), (others, (value, *others))]
    truth = worst(lambda values: truncated(values, float(Fraction(p)), largest), pairs, 2.0, epsilon)
    assert found.lower - 1e-6 <= truth <= found.upper + 1e-6
    if p == "1":
        assert truth == pytest.approx(found.upper, abs=1e-6)


def test_probabilities_of_draws_and_of_truncation() -> None:
    sample, *rest = loss_law_of(SampledWithReplacement(Gaussian(1), 4, 10))
    assert not rest  # no more than four draws, none of them rare
    assert isinstance(sample, SampledLoss)
    assert isinstance(sample.base, ChoiceLoss)
    exact = [math.comb(4, k) * Fraction(9 ** (4 - k), 10**4) for k in range(1, 5)]
    for (share, q, loss), k in zip(sample.base.parts, range(1, 5), strict=True):
        assert 0 <= share * q - exact[k - 1] < Fraction(1, 2**199)
        assert loss.mu_squared == k * k
    assert sample.base.attained[0] <= sum(exact)
    event = TruncatedPoissonSampled(Gaussian(1), "1/4", 3, 6)
    (sample,) = loss_law_of(event)
    assert isinstance(sample, SampledLoss)
    assert isinstance(sample.base, ChoiceLoss)
    chances = [Fraction(math.comb(5, k) * 3 ** (5 - k), 4**5) for k in range(6)]
    tau = sum(chances[3:])
    held = sum(chance * Fraction(3, 4 * (k + 1)) for k, chance in enumerate(chances) if k >= 3) / tau
    shares = {(q, loss.mu_squared): share for share, q, loss in sample.base.parts}
    assert abs(shares[Fraction(1, 4), 1] - (1 - tau)) < Fraction(1, 2**199)
    ((q, share),) = [
        (q, share) for (q, mu), share in shares.items() if mu == 4 and share > Fraction(1, 2**100)
    ]
    assert 0 <= q - held < Fraction(1, 2**190)
    assert abs(share - tau) < Fraction(1, 2**199)
    assert sum(shares.values()) == 1
    assert 0 <= (1 - tau) / 4 + tau * held - sample.base.attained[0] < Fraction(1, 2**199)


def test_rare_draws_fail_in_upper_bounds_alone() -> None:
    law = loss_law_of(SampledWithReplacement(Gaussian(4), 3000, 10**6))
    (failure,) = [loss for loss in law if isinstance(loss, FailureLoss)]
    assert not failure.attained
    assert 0 < failure.probability <= Fraction(1, 10**24)
    tails = engine_for(law, "auto", 1e-9).log_tails(Fraction(100))
    assert tails.log_delta.lower < math.log(failure.probability)
    assert tails.log_delta.upper == pytest.approx(math.log(failure.probability), abs=1e-9)


EVENTS = [
    (SampledWithReplacement(Gaussian(25), 3, 5, 300), False),
    (TruncatedPoissonSampled(Gaussian(4), "1/10", 13, 100, 60), False),
    (TruncatedPoissonSampled(Gaussian(4), "1/10", 13, 100, 60), True),
]


@pytest.mark.parametrize(("event", "added"), few(1, EVENTS))
def test_the_contour_cells_and_one_sample_agree(event, added: bool) -> None:
    law = tuple(loss for loss in loss_law_of(event) if isinstance(loss, SampledLoss))
    law = mirrored(law) if added else law
    contour, cells = Dithered.build(law, 1e-7), Cells(law, 200)
    assert contour is not None
    for epsilon in (Fraction(-1, 2), Fraction(1, 2), Fraction(3, 2)):
        fine, rough = contour.log_deltas([epsilon])[0], cells.log_deltas([epsilon])[0]
        assert fine.lower <= rough.upper <= fine.upper + 0.02
    single = tuple(
        SampledLoss(loss.base, loss.probability, added=loss.added, changed=loss.changed) for loss in law
    )
    one, cells = OneSample.build(single), Cells(single, 200)
    assert one is not None
    for epsilon in (Fraction(-1, 50), Fraction(1, 100), Fraction(1, 4)):
        fine, rough = one.log_tails(epsilon).log_delta, cells.log_deltas([epsilon])[0]
        assert rough.lower <= fine.upper
        assert fine.lower <= rough.upper <= fine.upper + 0.2


@pytest.mark.nightly
def test_truncation_that_is_rare_costs_next_to_nothing_and_the_peer_is_above() -> None:
    theirs, pld = pytest.importorskip("dp_accounting"), pytest.importorskip("dp_accounting.pld")
    event = TruncatedPoissonSampled(Gaussian(1), "1/100", 150, 10_000, 10_000)
    found = compose(event, neighbours="unbounded").epsilon("1e-5")
    poisson = compose(PoissonSampled(Gaussian(1), "1/100", 10_000), neighbours="unbounded").epsilon("1e-5")
    assert found.lower <= poisson.upper <= found.upper < poisson.upper + 0.01
    peer = pld.PLDAccountant(value_discretization_interval=1e-3)
    step = theirs.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 150, 1.0)
    assert found.upper < peer.compose(theirs.SelfComposedDpEvent(step, 10_000)).get_epsilon(1e-5) + 1e-6
    assert renyi_epsilon(event, "1e-5").value > found.upper
    assert loss_law_of(TruncatedPoissonSampled(Gaussian(1), "1/3", 5, 5, 2)) == loss_law_of(
        PoissonSampled(Gaussian(1), "1/3", 2)
    )


@pytest.mark.parametrize(
    ("event", "written"),
    [
        (
            SampledWithReplacement(Gaussian("1/2", 2), 3, 40, 7),
            {"kind": "sampled_with_replacement", "sample_size": 3, "records": 40},
        ),
        (
            TruncatedPoissonSampled(Gaussian("1/2", 2), "1/3", 3, 40, 7),
            {"kind": "truncated_poisson_sampled", "probability": "1/3", "largest": 3, "records": 40},
        ),
    ],
)
def test_the_json_form_is_kept(event, written) -> None:
    inner = {"kind": "gaussian", "variance": "1/2", "sensitivity": "2", "multiplicity": 1}
    assert event.to_mapping() == {**written, "event": inner, "multiplicity": 7}
    assert event_from_mapping(json.loads(json.dumps(event.to_mapping()))) == event
    assert scaled(event, Fraction(4)).event == Gaussian(2, 2)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: SampledWithReplacement(Laplace(1), 1, 2), "normal noise alone"),
        (lambda: SampledWithReplacement(Gaussian(1), 1, 1), "records of SampledWithReplacement"),
        (lambda: SampledWithReplacement(Gaussian(1), 1, 10**13), "at most 1000000000000"),
        (lambda: SampledWithReplacement(Gaussian(1), 21, 2), "drawn very often"),
        (lambda: SampledWithReplacement(Gaussian(1), 0, 2), "sample_size of SampledWithReplacement"),
        (lambda: TruncatedPoissonSampled(Laplace(1), "1/2", 1, 2), "normal noise alone"),
        (lambda: TruncatedPoissonSampled(Gaussian(1), "3/2", 1, 2), "probability of TruncatedPoissonSampled"),
        (lambda: TruncatedPoissonSampled(Gaussian(1), 0.5, 1, 2), "probability of TruncatedPoissonSampled"),
        (lambda: TruncatedPoissonSampled(Gaussian(1), "1/2", 0, 2), "largest of TruncatedPoissonSampled"),
        (lambda: TruncatedPoissonSampled(Gaussian(1), "1/2", 1, 10**13), "at most 1000000000000"),
    ],
)
def test_what_is_no_such_sample_is_refused(made, named) -> None:
    with pytest.raises(BudgetError, match=named):
        made()


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        (SampledWithReplacement(Gaussian(1), 1, 2), "unbounded"),
        (TruncatedPoissonSampled(Gaussian(1), "1/2", 1, 2), "bounded"),
    ],
)
def test_what_such_a_sample_has_not_is_refused_by_name(event, wrong) -> None:
    name = type(event).__name__
    with pytest.raises(BudgetError, match=name) as caught:
        compose(event, neighbours=wrong)
    assert caught.value.code == "sample-neighbours"
    with pytest.raises(BudgetError):
        rho_of(event)
    with pytest.raises(BudgetError, match=name):
        for_group(event, 2)
    with pytest.raises(BudgetError, match=name):
        translate(event, Neighbours.BOUNDED, Neighbours.UNBOUNDED)


def test_events_of_dp_accounting() -> None:
    theirs = pytest.importorskip("dp_accounting.dp_event")
    drawn_again = theirs.SampledWithReplacementDpEvent(9, 3, theirs.GaussianDpEvent(1.0))
    assert from_dp_event(drawn_again, neighbours="bounded") == SampledWithReplacement(Gaussian(1, 2), 3, 9)
    alone = theirs.SampledWithReplacementDpEvent(1, 3, theirs.GaussianDpEvent(1.0))
    assert from_dp_event(alone, neighbours="bounded") == Gaussian(1, 6)
    part = theirs.TruncatedSubsampledGaussianDpEvent(100, 0.25, 30, 2.0)
    twice = theirs.SelfComposedDpEvent(part, 2)
    assert from_dp_event(twice, neighbours="unbounded") == TruncatedPoissonSampled(
        Gaussian(4), "1/4", 30, 100, 2
    )
    for event, wrong in (
        (drawn_again, "unbounded"),
        (part, "bounded"),
        (theirs.SampledWithReplacementDpEvent(9, 3, theirs.LaplaceDpEvent(1.0)), "bounded"),
    ):
        with pytest.raises(BudgetError) as caught:
            from_dp_event(event, neighbours=wrong)
        assert caught.value.code == "dp-event"

"""The guarantee of permutation swapping, checked by enumeration, and the law of what runs."""

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chisquare
from tests.comparisons import publications, small_input, targets_of

from tallyveil.compare.methods.permutation_swapping import (
    PermutationSwapping,
    certificate_of,
    largest_ratio,
    permutation,
)

RATES = [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)]


def law_of(size, rate):
    """Probability of every permutation, by going through all sets of chosen households and all derangements."""
    law = {}
    for number in range(size + 1):
        if number == 1:
            continue
        for chosen in combinations(range(size), number):
            deranged = [
                image
                for image in permutations(chosen)
                if all(a != b for a, b in zip(image, chosen, strict=True))
            ]
            for image in deranged:
                places = list(range(size))
                for household, place in zip(chosen, image, strict=True):
                    places[household] = place
                law[tuple(places)] = rate**number * (1 - rate) ** (size - number) / len(deranged)
    # A stratum with one chosen household is drawn again.
    once = size * rate * (1 - rate) ** (size - 1)
    assert sum(law.values()) == 1 - once
    return {places: probability / (1 - once) for places, probability in law.items()}


def outcomes(law, kinds):
    """Probability of what is published: the kind at each place."""
    published = {}
    for places, probability in law.items():
        shown = [None] * len(kinds)
        for household, place in enumerate(places):
            shown[place] = kinds[household]
        published[tuple(shown)] = published.get(tuple(shown), 0) + probability
    return published


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("kinds", ["ab", "abc", "abb", "abcd", "aabb", "abcde", "abbbb"])
def test_no_outcome_tells_an_exchange_of_two_households_better_than_the_bound(kinds, rate):
    size, ratios = len(kinds), [Fraction(1)]
    law = law_of(size, rate)
    here = outcomes(law, kinds)
    for first, second in combinations(range(size), 2):
        exchanged = list(kinds)
        exchanged[first], exchanged[second] = exchanged[second], exchanged[first]
        there = outcomes(law, exchanged)
        # What stays exact is the same, and so are the outcomes that are possible.
        assert here.keys() == there.keys()
        ratios += [here[shown] / there[shown] for shown in here]
        ratios += [there[shown] / here[shown] for shown in here]
    bound = largest_ratio(size, rate)
    assert max(ratios) <= bound
    odds = rate / (1 - rate)
    assert bound <= max(odds, (size + 1) / odds) ** 2
    if kinds == "abcde" and rate <= Fraction(1, 2):
        # Where all differ the bound is reached: D_5 / D_3 = 44 / 2 = 4 * 5.5.
        assert max(ratios) == bound


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_what_runs_has_the_law_of_the_proof(rate):
    law = law_of(4, rate)
    generator, number = np.random.default_rng(47), 4000
    counted = dict.fromkeys(law, 0)
    for _ in range(number):
        counted[tuple(permutation(4, rate, generator).tolist())] += 1
    # Permutations that are expected less often than five times are counted together, as the test needs.
    rare = {places for places, probability in law.items() if probability * number < 5}
    common = [places for places in law if places not in rare]
    seen = [counted[places] for places in common] + [sum(counted[places] for places in rare)] * bool(rare)
    wanted = [float(law[places] * number) for places in common]
    wanted += [float(sum(law[places] for places in rare) * number)] * bool(rare)
    assert chisquare(seen, wanted).pvalue > 1e-3


def test_the_number_of_moved_households_follows_the_rate_in_large_strata():
    generator, rate = np.random.default_rng(3), Fraction(1, 10)
    moved = [(permutation(500, rate, generator) != np.arange(500)).sum() for _ in range(40)]
    assert np.mean(moved) == pytest.approx(50, abs=4 * (500 * 0.1 * 0.9 / 40) ** 0.5)
    assert permutation(1, Fraction(9, 10), generator).tolist() == [0]


def test_what_the_page_says_stays_exact_is_exact():
    shared = small_input(60)
    method = PermutationSwapping(name="x", rate="1/5", within="Town", match=["age"])
    published = publications(method, targets_of(shared, 400))[0]
    for name, true in shared.truth.items():
        same = np.array_equal(published.tables[name].counts, true)
        assert same == (name[0] in ("Region", "Town") or name[1] == "total"), name
    cells = published.tables["Block", "age*group"].counts
    assert np.array_equal(
        cells.reshape(-1, 2, 4).sum(axis=2), shared.truth["Block", "age*group"].reshape(-1, 2, 4).sum(axis=2)
    )
    certificate = published.certificate
    assert certificate.advantage is None
    assert "epsilon <= " in certificate.epsilon
    assert any("age" in text for text in certificate.invariants)


def test_the_printed_bound():
    # n = 100 and p = 1/2: log(99 * 100.5) = 9.20527...
    assert "epsilon <= 9.206 " in certificate_of(100, Fraction(1, 2), ()).epsilon
    assert certificate_of(1, Fraction(1, 2), ()) is None


def test_a_rate_that_cannot_be_drawn_in_whole_numbers_is_refused():
    with pytest.raises(ValidationError, match="15 digits"):
        PermutationSwapping(name="x", rate="0.1234567890123456789", within="Town")

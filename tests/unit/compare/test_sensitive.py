"""Rules of primary suppression against their definitions, contributor by contributor."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from pydantic import ValidationError
from tests.comparisons import publications, small_input, targets_of

from tallyveil.compare.methods.sensitive import Rules
from tallyveil.compare.methods.suppression import Suppression

RULES = {
    "threshold": Rules(4, None, None, None),
    "dominance": Rules(None, 2, Fraction(80), None),
    "p %": Rules(None, None, None, Fraction(25)),
    "any": Rules(3, 1, Fraction("66.6"), Fraction(10)),
}


def by_definition(rules, contributions):
    """Whether a count is sensitive, from what each contributor adds."""
    x = sorted(contributions, reverse=True)
    total = sum(x)
    if not total:
        return False
    second = x[1] if len(x) > 1 else 0
    return (
        (rules.threshold is not None and total < rules.threshold)
        or (rules.percent is not None and sum(x[: rules.largest]) > rules.percent / 100 * total)
        or (rules.p is not None and total - x[0] - second < rules.p / 100 * x[0])
    )


@pytest.fixture(scope="module")
def shared():
    """People who work for a few large and many small establishments, of whom some are in many blocks."""
    made = small_input(48)
    number = int(made.counts.sum())
    contributor = (np.random.default_rng(4).pareto(1.2, number) * 2).astype(np.int64)
    return replace(made, contributor=contributor)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_its_definition_in_every_table(shared, name):
    rules = RULES[name]
    geounits, cells = np.divmod(np.repeat(np.arange(shared.counts.size), shared.counts.ravel()), 8)
    for areas in shared.areas:
        for query in shared.queries:
            found = rules.of_table(shared, areas, query)
            answers = query.answers_of(cells)
            for area in range(areas.n_areas):
                for answer in range(query.size):
                    here = (areas.place[geounits] == area) & (answers == answer)
                    wanted = by_definition(rules, Counter(shared.contributor[here].tolist()).values())
                    assert found[area, answer] == wanted


@pytest.mark.parametrize("name", RULES)
def test_where_each_record_is_a_contributor_rules_are_thresholds(name):
    found = RULES[name].of_counts(np.arange(40))
    assert found.tolist() == [by_definition(RULES[name], [1] * count) for count in range(40)]
    assert not found[np.flatnonzero(~found)[1] :].any()


def test_an_office_answers_about_unions_by_the_same_rule(shared):
    method = Suppression(name="dominance", largest=2, percent=Fraction(80), secondary=False)
    targets = targets_of(shared)
    published = publications(method, targets)[0]
    town = shared.areas[1]
    members = np.stack([town.place == number for number in range(town.n_areas)])
    cells = published.tables["Town", "age*group"]
    for cell in range(8):
        answers = published.questions.answers(members, cell)
        assert np.array_equal(answers.shown, cells.shown[:, cell])
        assert np.array_equal(answers.counts, cells.counts[:, cell])
    assert not cells.shown.all()
    assert "Contributors are those of the records" in " ".join(published.notes)
    # Whoever gets another record in the input with coins stays with his contributor.
    assert Counter(targets.tossed.contributor.tolist()) == Counter(shared.contributor.tolist())


@pytest.mark.parametrize("settings", [{}, {"largest": 2}, {"percent": "80"}])
def test_a_method_without_a_whole_rule_is_refused(settings):
    with pytest.raises(ValidationError):
        Suppression(name="none", **settings)

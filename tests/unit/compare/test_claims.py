"""What an outsider claims is right where tables are exact, and less so where they were changed."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.comparisons import publications, small_input, targets_of

from tallyveil.compare.attacks.attack import Targets
from tallyveil.compare.claims import ATTRIBUTE, HIDDEN, RECORD, claims_of, seem_exact
from tallyveil.compare.draws import Draws
from tallyveil.compare.methods.cell_key import CellKey
from tallyveil.compare.methods.exact import Exact
from tallyveil.compare.methods.rounding import Rounding
from tallyveil.compare.methods.suppression import Suppression

KEY = CellKey(name="key", largest=5, variance=Fraction(3))


def claimed(method, shared):
    """The claims about one publication, by somebody who has nothing else, with whether each is right."""
    published = publications(method, targets_of(shared))[0]
    table = published.tables["Block", "age*group"]
    around = published.tables["Town", "age*group"].filled()
    seen = replace(shared, counts=np.maximum(table.filled(), 0))
    targets = Targets(seen, Draws("outsider"), "group", 2000, around)
    law = method.stated_law()
    claims = claims_of(targets, published, law, shows_exact=method.shows_exact)
    right = np.array([answer.is_right(shared) for answer in claims.answers])
    return claims.table["claim"].to_numpy(), right, claims


@pytest.fixture(scope="module")
def shared():
    return small_input()


def test_all_that_is_claimed_from_exact_tables_is_right(shared):
    kinds, right, claims = claimed(Exact(name="exact"), shared)
    assert set(kinds) == {ATTRIBUTE, RECORD}
    assert right.all()
    # Everybody who is alone of an age in a block is claimed, once.
    alone = (shared.counts.reshape(-1, 2, 4).sum(axis=2) == 1).sum()
    assert (kinds == ATTRIBUTE).sum() == alone
    assert claims.table["probability"].min() > 0.99


@pytest.mark.nightly
def test_hidden_counts_are_claimed_where_sums_tell_them(shared):
    kinds, right, _ = claimed(Suppression(name="primary", threshold=3, secondary=False), shared)
    assert (kinds == HIDDEN).sum() > 10
    assert right[kinds == HIDDEN].all()
    # A record that every file has is there, also where counts are hidden.
    assert right[kinds == RECORD].all()
    assert (kinds == RECORD).any()


def test_rounded_counts_are_claimed_where_sums_tell_them(shared):
    kinds, right, claims = claimed(Rounding(name="nearest", base=3), shared)
    assert (kinds == HIDDEN).sum() > 10
    assert right[kinds == HIDDEN].all()
    assert RECORD not in kinds
    assert any("no record follows" in note for note in claims.notes)


def test_changed_counts_leave_doubt_and_prove_no_record(shared):
    kinds, right, claims = claimed(KEY, shared)
    assert RECORD not in kinds
    # What follows from the limits of the changes is right; attributes are guesses.
    assert right[kinds == HIDDEN].all()
    there = np.array([answer.is_there(shared) for answer in claims.answers])[kinds == ATTRIBUTE]
    right = right[kinds == ATTRIBUTE]
    assert right.mean() < 0.9
    assert right.mean() < right[there].mean()
    # His probabilities are those of the law: of the people who are there, about as many are right as he expects.
    expected = claims.table["probability"].to_numpy()[kinds == ATTRIBUTE][there].mean()
    assert right[there].mean() == pytest.approx(expected, abs=0.15)


def test_sums_say_whether_counts_were_changed(shared):
    for method, exact in ((Exact(name="exact"), True), (KEY, False)):
        tables = publications(method, targets_of(shared))[0].tables
        assert seem_exact(shared, tables) is exact

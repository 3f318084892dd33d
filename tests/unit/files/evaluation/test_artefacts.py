"""Known artefacts, against a slow count of every geounit."""

import numpy as np
import pytest

from tallyveil.files.evaluation import MOST_GROUPS, find_artefacts, queried_factors
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

SCHEMA = Schema(
    "people",
    (Attribute("age", ("child", "adult")), Attribute("race", ("a", "b", "c"))),
    (Recode("ab", "race", (("a", ("a",)), ("b", ("b",)))),),
)


def counts_of(dense):
    rows, cells = np.nonzero(dense)
    offsets = np.searchsorted(rows, np.arange(len(dense) + 1)).astype(np.int64)
    return PublicCounts("Block", offsets, cells.astype(np.int32), dense[rows, cells].astype(np.int32))


def made(seed, n=60):
    random = np.random.default_rng(seed)
    sparse = random.random((n, SCHEMA.size)) < random.choice([0.05, 0.3], size=(n, 1))
    return sparse * random.integers(1, 9, size=(n, SCHEMA.size))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
def test_every_artefact_is_what_a_slow_count_finds(chunk):
    true, published = made(1), made(2)
    frame = find_artefacts(
        SCHEMA, ["age*race", "ab"], counts_of(published), counts_of(true), entries_per_chunk=chunk
    )
    found = {(r["artefact"], r["factor"], r["group"]): r for r in frame.iter_rows(named=True)}
    here, there = true.sum(axis=1), published.sum(axis=1)
    empty = found["empty", None, None]
    assert (empty["true_geounits"], empty["published_geounits"]) == ((here == 0).sum(), (there == 0).sum())
    filled, emptied = (here == 0) & (there > 0), (here > 0) & (there == 0)
    assert filled.any()
    assert emptied.any()
    assert found["filled", None, None]["published_geounits"] == filled.sum()
    assert found["filled", None, None]["records"] == there[filled].sum()
    assert found["filled", None, None]["share"] == there[filled].sum() / there.sum()
    assert found["emptied", None, None]["records"] == here[emptied].sum()
    ages = {"child": slice(0, 3), "adult": slice(3, 6)}
    for label, own in ages.items():
        for side, dense in (("true_geounits", true), ("published_geounits", published)):
            only = (dense.sum(axis=1) > 0) & (dense[:, own].sum(axis=1) == dense.sum(axis=1))
            assert found["only", "age", label][side] == only.sum()
    for name, labels in (("race", "abc"), ("ab", "ab")):
        for place, label in enumerate(labels):
            only = (true.sum(axis=1) > 0) & (true[:, [place, place + 3]].sum(axis=1) == true.sum(axis=1))
            assert found["only", name, label]["true_geounits"] == only.sum()
        every = sum(found["only", name, label]["true_geounits"] for label in labels)
        assert found["only", name, None]["true_geounits"] == every
    assert len(frame) == 3 + 3 + 4 + 3


def test_nothing_but_empty_geounits_can_be_counted():
    nobody = counts_of(np.zeros((4, SCHEMA.size), dtype=np.int64))
    frame = find_artefacts(SCHEMA, ["age"], nobody, nobody)
    assert frame.row(0, named=True)["true_geounits"] == 4
    assert frame["share"].to_list() == [None] * len(frame)


def test_only_what_the_queries_name_is_looked_at():
    """A schema without an age has no geounits of children only; nothing needs to be declared."""
    schema = load_preset("pl94-persons")
    names = [group.name for group in queried_factors(schema, ["total", "votingage*cenrace", "hhgq"])]
    assert names == ["hhgq", "votingage", "cenrace"]
    assert queried_factors(schema, ["total"]) == ()
    assert schema.query("cenrace").size > MOST_GROUPS

"""Noisy answers about a part: their sums are the part's counts if there is no noise, and the best query is taken."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.lift_worlds import LIFTED

from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.lifts import possible_cells
from tallyveil.postprocess.passes import lifts as module
from tallyveil.postprocess.passes.lifts import PartQueries

VARIANCES = {"sex": 1.0, "relation*age": 3.0, "detailed": 2.0}


@pytest.fixture
def parts(tmp_path):
    path = tmp_path / "persons.toml"
    path.write_text(LIFTED)
    plan = load_plan(path)
    cells = plan.query("role*grown")
    possible = possible_cells(plan.schema, cells)
    own = possible[plan.query("heads").answers_of(possible) >= 0]
    allocation = SimpleNamespace(
        spine=SimpleNamespace(geolevels=["Block"], n_geounits=lambda level: 4),
        variances=lambda geolevel, name, start, stop: np.full(stop - start, VARIANCES[name]),
    )

    queries = PartQueries(plan.schema, cells, own)

    def found(*measured):
        return queries.at("Block", measured, cast(Any, allocation))

    return plan.schema, cells, own, found


def test_the_query_whose_sums_vary_least_is_taken(parts):
    found = parts[-1]
    assert found("sex") is None
    one = found("sex", "detailed")
    # Young heads are of age 1, alone or not, of two sexes; grown ones of two ages.
    assert one.variance(slice(0, 1), np.array([0, 1])).tolist() == [[8.0, 16.0]]
    assert found("detailed", "relation*age").query == "relation*age"


def test_sums_without_noise_are_the_counts_of_the_part(parts, monkeypatch):
    monkeypatch.setattr(module, "VALUES_AT_ONCE", 5)
    schema, cells, own, found = parts
    rng = np.random.default_rng(3)
    possible = np.flatnonzero(schema.possible(np.arange(schema.size)))
    true = np.zeros((4, schema.size), dtype=np.int64)
    true[:, possible] = rng.integers(0, 9, (4, len(possible)))

    class Exact:
        def measure(self, geolevel, query, start, stop, answers):
            numbers = schema.query(query).answers_of(np.arange(schema.size))
            values = [[int(row[numbers == answer].sum()) for answer in answers] for row in true[start:stop]]
            return SimpleNamespace(values=np.array(values))

    of_cells = cells.answers_of(np.arange(schema.size))
    for name in ("detailed", "relation*age"):
        for columns in (np.array([0, 1]), np.array([1])):
            sums = found(name).sums(Exact(), slice(1, 4), columns)
            wanted = [of_cells == cells.answers_of(own[[column]])[0] for column in columns]
            assert np.array_equal(sums, np.stack([true[1:, one].sum(axis=1) for one in wanted], axis=1))

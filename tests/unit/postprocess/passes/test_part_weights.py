"""Weights of places: householders who live alone are divided by the people whom households have on average."""

import numpy as np
from tests.lift_worlds import LIFTED

from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.passes.groups import groups_of_earlier_pass
from tallyveil.postprocess.passes.part_limits import cells_of_part, part_weights
from tallyveil.schema.counts import PublicCounts, compress_rows


def test_fewer_householders_live_alone_where_there_are_many_others(tmp_path):
    path = tmp_path / "persons.toml"
    path.write_text(LIFTED.replace('company = "others"\n', 'company = "others"\nprior = "company"\n'))
    plan = load_plan(path)
    first, one = plan.outer[:2]
    rows = [(0, "head", "3", 6), (0, "other", "0", 2), (0, "prison", "3", 50), (1, "head", "2", 6)]
    rows += [(1, "other", "3", 18), (2, "head", "3", 2), (2, "head", "2", 2), (3, "prison", "3", 9)]
    schema = plan.schema
    levels = [
        [a.code(level) for a, level in zip(schema.attributes, (role, "male", age), strict=True)]
        for _, role, age, _ in rows
    ]
    places, counts = (np.array([row[k] for row in rows]) for k in (0, 3))
    found = PublicCounts("Block", *compress_rows(4, places, schema.encode(levels), counts))
    groups = groups_of_earlier_pass(schema.query(one.cells), schema.query(first.cells), [found])
    cells = cells_of_part(schema, one, groups)
    weights = part_weights(schema, one, groups, cells, TakenOver())
    assert weights is not None
    assert weights.tolist() == [36 / 8, 36 / 24, 4, 0]
    assert part_weights(schema, first, groups, cells, TakenOver()) is None

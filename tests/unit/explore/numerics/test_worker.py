"""The worker's answers are those of its own thread; what cannot be answered is an error with its reason."""

import numpy as np
from tests.unit.estimation.intervals.test_against_dense import random_model
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.numerics.in_node import ask_node, floats, run_node
from tests.unit.explore.numerics.test_variances import queries_of, write_model

pytestmark = node_needed


def test_a_worker_answers_what_the_tree_answers(tmp_path):
    model, _ = random_model(0, True)
    n = len(model.zero_pattern)
    write_model(model, tmp_path, np.arange(n))
    rows, minus = list(range(n // 2 + 1)), [n - 1]
    asked = [{"rows": rows, "minus": one} for one in (None, minus)]
    (direct,) = ask_node("variances", sites=[{"site": str(tmp_path), "districts": asked, "geolevels": [0]}])
    found = run_node(
        "worker.mjs", {"site": str(tmp_path), "rows": rows, "minus": minus, "table": 1, "geolevel": 0}
    )
    sizes = [group.size for group in queries_of(model.schema)]
    own = slice(sizes[0], sizes[0] + sizes[1])
    assert found["gaussian"] is True
    assert found["tables"] == [0, 1, 2]
    assert found["plain"] == direct["districts"][0]
    assert found["difference"] == [[1, direct["districts"][1][own]]]
    np.testing.assert_array_equal(floats(found["level"]), floats(direct["geolevels"][0])[:, own])
    assert max(found["plain"]) > 0
    assert "none.json cannot be read (status 404)" in found["missing"]
    assert "names a row twice" in found["twice"]
    assert found["closed"] == "the worker was closed"

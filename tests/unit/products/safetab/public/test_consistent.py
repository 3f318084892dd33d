"""Optional consistency: sums and orders that hold exactly, and nothing else that changes."""

import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.noise import insecure_key
from tallyveil.products.safetab.public.consistent import (
    CONSISTENT,
    CONSISTENT_VARIANCE,
    consistent_alone,
    consistent_states,
)
from tallyveil.products.safetab.public.iterations import read_iterations
from tallyveil.products.safetab.run.run import run_safetab


@pytest.fixture(scope="module", params=[8, 200])
def t1(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("consistent")
    params = toy.write_params(folder / "p")
    data = toy.write_data(folder / "d", toy.person_rows(request.param))
    run_safetab(params, data, folder / "out", test_key=insecure_key("consistent"), coterminous_once=False)
    return pl.read_parquet(folder / "out" / "t1-us.parquet")


def test_the_nation_is_the_sum_of_its_states(t1):
    found = consistent_states(t1)
    assert found.select(t1.columns).equals(t1)
    by_code = found.group_by("ITERATION_CODE").agg(
        pl.col(CONSISTENT).filter(pl.col("REGION_TYPE") == "USA").sum().alias("nation"),
        pl.col(CONSISTENT).filter(pl.col("REGION_TYPE") == "STATE").sum().alias("states"),
    )
    assert (by_code["nation"] - by_code["states"]).abs().max() < 1e-9
    changed = found.filter(pl.col(CONSISTENT) != pl.col("ESTIMATE"))
    assert set(changed["REGION_TYPE"]) == {"USA", "STATE"}
    assert (found[CONSISTENT_VARIANCE] <= found["ESTIMATE_VARIANCE"]).all()
    assert (changed[CONSISTENT_VARIANCE] < changed["ESTIMATE_VARIANCE"]).all()


def test_least_squares_by_hand():
    rows = [
        ("1", "USA", 10.0, 2.0),
        ("01", "STATE", 4.0, 1.0),
        ("02", "STATE", 3.0, 1.0),
        ("01001", "COUNTY", 9.0, 1.0),
    ]
    frame = pl.DataFrame(
        [(r, t, "1101", e, v) for r, t, e, v in rows],
        schema=["REGION_ID", "REGION_TYPE", "ITERATION_CODE", "ESTIMATE", "ESTIMATE_VARIANCE"],
        orient="row",
    ).with_columns(pl.lit("").alias("SAME_AS"))
    found = consistent_states(frame)
    # The gap of 3 is divided 2 : 1 : 1.
    assert found[CONSISTENT].to_list() == [8.5, 4.75, 3.75, 9.0]
    assert found[CONSISTENT_VARIANCE].to_list() == [1.0, 0.75, 0.75, 1.0]
    # A nation of one state that takes its numbers: one measurement, with nothing to combine.
    one = frame[:2].with_columns(pl.Series("SAME_AS", ["", "USA"]))
    assert consistent_states(one)[CONSISTENT].to_list() == [10.0, 4.0]
    assert consistent_states(one)[CONSISTENT_VARIANCE].to_list() == [2.0, 1.0]
    lacking = consistent_states(
        pl.concat([frame, frame[1:2].with_columns(pl.lit("1102").alias("ITERATION_CODE"))])
    )
    assert lacking.filter(pl.col("ITERATION_CODE") == "1102")[CONSISTENT].to_list() == [4.0]


def test_alone_is_at_most_in_combination(t1, params):
    files = read_iterations(params)
    found = consistent_alone(t1, files)
    assert found.select(t1.columns).equals(t1)
    values = {row[:3]: row[3] for row in found.select(*t1.columns[:3], CONSISTENT).rows()}
    before = {row[:3]: row[3] for row in found.select(*t1.columns[:3], "ESTIMATE").rows()}
    pooled = 0
    for (region, kind, code), value in values.items():
        other = region, kind, code[:3] + "2"
        if code.endswith("1") and code[1] != "9" and other in values:
            assert value <= values[other]
            if before[region, kind, code] > before[other]:
                pooled += 1
                assert value == values[other]
            else:
                assert value == before[region, kind, code]
    assert pooled > 0 or len(values) > 80  # large groups are in order by themselves
